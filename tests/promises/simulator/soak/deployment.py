"""The deployment of a soak: processes that die and are replaced, a host that runs handlers and timers, days that are
checked, and no memory of what has expired."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from shared.app.services import Services
from shared.base.errors import ApiError, ServiceUnavailable
from shared.queue.claims.work import Claim
from shared.queue.events.announcer import EventsUnavailable
from shared.queue.events.rules import GroupEvent
from shared.queue.tasks.due import Postponed
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.queue.tasks.rules import Resolved, Worker
from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Call, Killed, as_process
from tests.promises.simulator import invariants
from tests.promises.simulator.soak.trouble import LATEST, Trouble
from tests.promises.simulator.world import HIDDEN, World

T = TypeVar("T")

MOMENT = 5.0
"""Seconds between two looks of the host at its queues, while there is work."""
TRIES = 8
"""Number of times that a client tries a call."""
LONGEST_CALL = 120.0
"""Seconds after which a call is given up whose process has died beside it."""
CLOCKS = (0.0, 0.0, 1.0, -1.0, 20.0, -20.0, 100.0, -100.0)
"""Seconds by which the clocks of processes are ahead."""
SETTLED = 2 * 3600.0
"""Seconds after which all is as it should be, once nothing goes wrong any more."""
_EXPIRE, _RECONCILE, _SAMPLE = 600.0, 300.0, 6 * 3600.0
"""Seconds between two runs of the timer functions, which are rarer than on a real host, and between samples."""
_RETRIED = (StorageUnavailable, ServiceUnavailable, EventsUnavailable)


class Deployment:
    """A deployment that goes on for ever."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.trouble = Trouble(self.chance, self._has_landed)
        self.simulation = Simulation(self.chance.randrange)
        self.world = World(self.simulation, self.trouble)
        # What no handler has finished is repeated at the deadline: then nobody knows whether it was announced.
        self.world.topics.window = timedelta(days=1).total_seconds()
        self.world.clocks = [self.chance.choice(CLOCKS) for _ in range(20)]
        self.trouble.cut_pages(self.world.memory.tables)
        self.world.slack = timedelta(seconds=LATEST + 2 * max(CLOCKS))
        self.clock = self.world.clock
        self.restarts = 0
        self.acknowledged: set[str] = set()
        """Tasks whose creation was acknowledged."""
        self.created = 0
        self.robbed: set[str] = set()
        """Task queues of which somebody has deleted messages."""
        self._numbers = 0
        self._names = {"calls": "calls 0", "handlers": "handlers 0", "jobs": "jobs 0"}
        self._jobs = self.world.process()
        self._last = {"expire": 0.0, "reconcile": 0.0, "sample": 0.0}

    def _has_landed(self, call: Call) -> None:
        if call.target == keys.TASKS:
            self.world.history.note(call.subject)

    # Processes

    def restart(self, role: str) -> None:
        """Replaces the process of a role by a new one."""
        self._numbers += 1
        self.restarts += 1
        self._names[role] = f"{role} {self._numbers}"
        fresh = self.world.process()
        old = {"calls": self.world.services, "handlers": self.world.handlers, "jobs": self._jobs}[role]
        cache = old.stores.tasks.definitions
        for task_id in list(cache._entries):
            cache.forget(task_id)  # finalizers of definitions, and so their cache, last as long as this real process
        if role == "calls":
            self.world.services = fresh
        elif role == "handlers":
            self.world.handlers = fresh
        else:
            self._jobs = fresh

    async def call(self, make: Callable[[Services], Awaitable[T]]) -> T | None:
        """Makes a client's call, sent again until it is answered; returns None when it is refused, or never
        answered."""
        for _ in range(TRIES):
            name = self._names["calls"]
            try:
                async with asyncio.timeout(LONGEST_CALL):
                    return await as_process(name, make(self.world.services))
            except (Killed, TimeoutError):
                if name == self._names["calls"]:
                    self.restart("calls")
            except _RETRIED:
                await asyncio.sleep(1 + 10 * self.chance.random())
            except ApiError:
                return None
        return None

    # The host

    async def host(self, seconds: float, step: float = MOMENT) -> None:
        """Runs handlers and timer functions for `seconds`."""
        until = self.clock.elapsed + seconds
        while self.clock.elapsed < until:
            await self.handle_visible()
            await self._timers()
            await asyncio.sleep(step)

    async def handle_visible(self) -> None:
        """Handles what is visible now; a message that fails stays hidden for as long as the host hides it."""
        world = self.world
        queues = world.account.connect().queues
        for queue, handle in world._queues().items():
            if not any(message.visible <= self.clock.exact() for message in world.account.messages(queue)):
                continue
            for message in await queues.get_messages(queue, count=16, hidden_for=HIDDEN):
                body = json.loads(base64.b64decode(message.text))
                if queue != EVENTS_QUEUE:
                    world.handled[queue, *(str(body.get(word, "")) for word in ("taskId", "runId", "put"))] += 1
                if await self._done("handlers", partial(handle, body)):
                    await queues.delete_message(queue, message.receipt)

    async def _done(self, role: str, work: Callable[[], Awaitable[object]]) -> bool:
        """Runs a function of the host; returns whether it has come to its end."""
        try:
            async with asyncio.timeout(HIDDEN):
                await as_process(self._names[role], work())
        except (Killed, TimeoutError):
            self.restart(role)
            return False
        except (*_RETRIED, Postponed, ApiError):
            return False
        return True

    async def _timers(self) -> None:
        now = self.clock.elapsed
        for name, interval, work in (
            ("expire", _EXPIRE, lambda: self._jobs.expiration.run(300)),
            ("reconcile", _RECONCILE, lambda: self._jobs.reconciler.check_all()),
            ("sample", _SAMPLE, self._sample),
        ):
            if now - self._last[name] >= interval:
                self._last[name] = now
                await self._done("jobs", work)

    async def _sample(self) -> None:
        await self._jobs.gauges.note_waiting()

    # Days

    async def settle(self) -> None:
        """Ends all trouble, and does all that is due. Messages that were deleted are missed once workers have taken
        those that are left of the band."""
        self.trouble.rate = 0.0
        for task_queue_id in sorted(self.robbed):
            while claims := await self.call(partial(_work_off, task_queue_id)):
                self.world.claims.extend(claims)
        self.robbed.clear()
        await self.host(SETTLED, step=20.0)

    def check(self) -> None:
        """Checks the invariants, after `settle`. Raises AssertionError."""
        invariants.check_handled(self.world)
        if not self.world.topics.is_down:
            invariants.check_claims_announced(self.world)
            self._check_announced()

    def _check_announced(self) -> None:
        bodies = [(message.topic, message.event) for message in self.world.topics.messages]
        sent = {(event.task_id, event.run_id, topic) for topic, event in bodies if not isinstance(event, GroupEvent)}
        for task in self.world.tasks().values():
            if task.task_id in self.acknowledged:
                assert (task.task_id, None, "task-defined") in sent, f"task-defined of {task.task_id}"
            for run_id, run in enumerate(task.runs):
                if run.state.is_resolved:
                    topic = f"task-{run.state.value}"
                    is_retried = run_id < task.last_run_id and task.runs[run_id + 1].reason_created.value != "rerun"
                    assert is_retried or (task.task_id, run_id, topic) in sent, f"{topic} of {run_id} of {task.task_id}"

    def forget(self) -> None:
        """Lets the checks forget tasks that are gone with their groups, so that memory does not grow with the days."""
        world, history = self.world, self.world.history
        there = set(world.tasks())
        groups = {row.partition for row in world.rows(keys.GROUPS)}
        groups |= {task.task_group_id for task in world.tasks().values()}
        gone = {
            task_id
            for task_id, states in history.states.items()
            if task_id not in there and states[-1].task_group_id not in groups
        }
        for task_id in gone:
            for memory in (history.states, history.versions, history.definitions, history.ends, world.index_paths):
                memory.pop(task_id, None)
            world._decoded.pop(task_id, None)
        history.early -= gone
        history._gone -= gone
        self.acknowledged &= there
        born = history._before_birth
        history._before_birth = {pair: number for pair, number in born.items() if pair[0] in there}
        self._forget_events(gone, groups)
        world.claims = [claim for claim in world.claims if claim.task.task_id in there]
        world.handled.clear()
        world.fitting.clear()
        self.simulation.choices.clear()

    def _forget_events(self, gone: set[str], groups: set[str]) -> None:
        world, history = self.world, self.world.history
        kept, before = [], [0]
        for message in world.topics.messages:
            event = message.event
            is_kept = event.task_group_id in groups if isinstance(event, GroupEvent) else event.task_id not in gone
            if is_kept:
                kept.append(message)
            before.append(len(kept))
        world.topics.messages[:] = kept
        history.crossings = [
            type(each)(each.task_group_id, before[each.published])
            for each in history.crossings
            if each.task_group_id in groups
        ]

    async def pass_days(self, days: int) -> None:
        """Lets days pass without calls; the timer functions run every hour."""
        until = self.clock.elapsed + timedelta(days=days).total_seconds()
        while self.clock.elapsed < until:
            await self.host(3600.0, step=3600.0)


async def _work_off(task_queue_id: str, services: Services) -> list[Claim]:
    """Lets a worker claim and run tasks, as many as it may claim at once."""
    claims = await services.work.claim_work(task_queue_id, Worker(worker_group="soak", worker_id="last"), 32, 0)
    for claim in claims:
        await services.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)
    return claims
