"""A message that kills every instance does not keep the messages beside it from being handled."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections import Counter
from dataclasses import replace

import pytest

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.queue.tasks.effects import PutResolved
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE, ResolvedBody
from shared.queue.tasks.messages import poison_queue
from tests.promises.simulator import world as worlds
from tests.promises.simulator.queue_host import App
from tests.promises.simulator.world import unordered
from tools.local.host.config import parse_host_json
from tools.local.state import ROOT

BATCH = 16
LEASE = 600.0
MOST_DELIVERIES = parse_host_json((ROOT / "host.json").read_text()).queues.max_dequeue_count


@pytest.mark.parametrize("seed", range(5))
def test_only_the_message_that_kills_is_given_up(app: App, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    """Only the message that kills is given up, even if its instance handles no other message before."""
    world = unordered()
    runtime = replace(world.services.runtime, jitter=random.Random(seed).random)
    services = assemble(worlds.settings(), runtime, world.account.connect(), world.topics)
    done: Counter[str] = Counter()
    deadly = world.slugid()

    async def work(_: Services, body: ResolvedBody) -> None:
        done[body.task_id] += 1

    async def story() -> int:
        queues, innocent = world.memory.storage.queues, [world.slugid() for _ in range(BATCH - 1)]
        for task_id in (*innocent, deadly):
            await services.stores.messages.put_resolved(PutResolved(task_id=task_id, run_id=0))
        deaths = 0
        while world.messages(RESOLVED_QUEUE):
            await world.clock.sleep(2)
            batch = await queues.get_messages(RESOLVED_QUEUE, count=BATCH, hidden_for=LEASE)
            given_up = [each for each in batch if each.dequeue_count > MOST_DELIVERIES]
            for message in given_up:
                await queues.put_message(poison_queue(RESOLVED_QUEUE), message.text)
                await queues.delete_message(RESOLVED_QUEUE, message.receipt)
            begun = [each for each in batch if each not in given_up]
            kills = [each for each in begun if _task(each.text) == deadly and each.dequeue_count <= _limit(app)]
            deaths += len(kills)
            for message in begun if not kills else [each for each in begun if each.dequeue_count > _limit(app)]:
                text = base64.b64decode(message.text).decode()
                await app.messages._handle(services, text, ResolvedBody, work, message.dequeue_count)
                await queues.delete_message(RESOLVED_QUEUE, message.receipt)
        assert sorted(done) == sorted(innocent)
        assert [_task(each.text) for each in await queues.peek(poison_queue(RESOLVED_QUEUE), count=32)] == [deadly]
        return deaths

    with caplog.at_level(logging.ERROR, "taskcluster.messages"):
        (deaths,) = world.run(story())
    assert deaths == 14
    assert [record.action for record in caplog.records].count("message_poisoned") == 1  # type: ignore[attr-defined]


def _limit(app: App) -> int:
    return int(app.messages.MOST_DELIVERIES)


def _task(text: str) -> str:
    return str(json.loads(base64.b64decode(text))["taskId"])
