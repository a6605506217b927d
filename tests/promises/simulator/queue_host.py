"""Queue-triggered functions on a simulated world, run as the Functions host runs them."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from datetime import timedelta
from types import ModuleType
from typing import NamedTuple

from shared.queue.tasks.internal_messages import BODIES
from shared.queue.tasks.messages import poison_queue
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.world import World

SETTINGS = {
    "TASKCLUSTER_ROOT_URL": "https://tc.example.com",
    "ROOT_ACCESS_TOKEN": "root-token-of-the-tests-only-44",
    "MESSAGE_SIGNING_KEYS": "signing-key-of-the-tests-only-44",
    "ACCESS_TOKEN_KEYS": base64.urlsafe_b64encode(bytes(range(32))).decode(),
    "STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true",
    "SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://localhost",
}


class App(NamedTuple):
    """The modules of the app, which read their settings when they are imported."""

    messages: ModuleType
    triggers: ModuleType


class Requests:
    """Counts requests to storage, by table or queue."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Kind, str]] = Counter()

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts what is sent."""
        if phase is Phase.BEFORE:
            self.counts[call.kind, call.target] += 1


class Host:
    """Runs queue-triggered functions as the Functions host does, and counts how often."""

    def __init__(self, app: App, world: World) -> None:
        self._app = app
        self._world = world
        self.handled: Counter[str] = Counter()
        self.outcomes: list[str] = []

    async def run(self, queue: str, for_seconds: float) -> None:
        """Handles the messages of a queue that become visible within `for_seconds`, each at the next whole second."""
        body_type = BODIES[queue]
        _, work = self._app.triggers.FUNCTIONS[body_type]
        world, queues = self._world, self._world.memory.storage.queues
        until = world.clock.now() + timedelta(seconds=for_seconds)
        while world.clock.now() < until:
            for message in await queues.get_messages(queue, count=16, hidden_for=600):
                text = base64.b64decode(message.text).decode()
                self.handled[_name(text)] += 1
                outcome = await self._app.messages._handle(world.handlers, text, body_type, work, message.dequeue_count)
                self.outcomes.append(outcome)
                await queues.delete_message(queue, message.receipt)
            next_visible = min((message.visible for message in world.memory.messages(queue)), default=until)
            wait = min(next_visible, until) - world.clock.now()
            await world.clock.sleep(max(math.ceil(wait.total_seconds()), 1))


def _name(text: str) -> str:
    """Returns what distinguishes a message, however often it is put again."""
    body = json.loads(text)
    body.pop("attempts", None)
    return json.dumps(body, sort_keys=True)


async def poisoned(world: World, queue: str) -> int:
    return await world.memory.storage.queues.length(poison_queue(queue))
