"""A process that claims, and at one of whose requests something happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.queue.claims.polling import BUSY_INTERVAL
from shared.queue.claims.work import Claim
from shared.queue.tasks.rules import State, Worker
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator import invariants
from tests.promises.simulator.running import finish
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import POOL, WORKER, World

ANOTHER = Worker(worker_group="group", worker_id="another")
WAIT = 20.0


class Once:
    """A gate that does something right at the claimer's first request that matches, once it is armed."""

    def __init__(
        self, matches: Callable[[Call], bool], phase: Phase = Phase.BEFORE, error: type[BaseException] | None = None
    ) -> None:
        self._matches, self._phase, self._error = matches, phase, error
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.is_armed = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        if self.is_armed and phase is self._phase and process_name() == "claimer" and self._matches(call):
            self.is_armed = False
            if self.meanwhile is not None:
                await as_process("other", self.meanwhile())
            if self._error is not None:
                raise self._error


def is_commit(call: Call) -> bool:
    return keys.TASK_STATUS in call.keys and call.kind is Kind.TABLE_WRITE


def is_index_row(call: Call) -> bool:
    return call.target == keys.POOLS and any(key.startswith("claimed~") for key in call.keys)


def of_worker(call: Call) -> bool:
    return call.kind is Kind.TABLE_WRITE and keys.worker(WORKER.worker_group, WORKER.worker_id) in call.keys


async def calls_again(
    world: World, worker: Worker, wait: float = WAIT, count: int = 1, services: Services | None = None
) -> list[Claim]:
    """Returns what a worker gets that calls again for `wait` seconds whenever it was answered with nothing."""
    until = world.clock.elapsed + wait
    claims: list[Claim] = []
    while not claims and (left := until - world.clock.elapsed) > 0:
        claims = await (services or world.services).work.claim_work(POOL, worker, count, left)
    return claims


async def hears_soon(world: World, waiting: Services, other: Services) -> None:
    """Checks that a worker that begins to wait in one process is soon told of a task that another one makes pending."""
    working = asyncio.ensure_future(calls_again(world, WORKER, 60, services=waiting))
    await world.clock.sleep(0.2)
    await other.create_task(world.definition())
    began = world.clock.elapsed
    assert len(await working) == 1
    assert world.clock.elapsed - began < 1.5 * BUSY_INTERVAL


def check_is_pending_again(world: World, task_id: str = A, run_id: int = 0) -> None:
    """Checks that the claim has left nothing behind, and that the next caller gets the run."""
    task = world.tasks()[task_id]
    assert (task.state, task.last_run_id) == (State.PENDING, run_id)
    invariants.check(world)
    assert not [body for body in world.topics.of("task-running") if body["runId"] == run_id]
    (claims,) = world.run(world.services.work.claim_work(POOL, ANOTHER, 1, 2.5))
    assert [(claim.task.task_id, claim.run_id) for claim in claims] == [(task_id, run_id)]
    invariants.check_settled(world)
    finish(world, is_acknowledged=False)


async def quarantine(world: World) -> None:
    until = world.clock.now() + timedelta(hours=1)
    await world.services.workers.quarantine(POOL, WORKER, until, client_id="somebody", info="broken")
