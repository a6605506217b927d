"""Claims beside those of code from before their index rows stood ahead of their commit, and after a rollback to it.

That code commits a claim, and writes its rows afterwards; its claim messages name no row, and its handler of them does
nothing for a run that is pending; its workerRemoved passes by a claim that is not committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from shared.app.services import Services
from shared.base.concurrency import together
from shared.base.errors import ApiError
from shared.queue.claims.handing_out import AT_ONCE, Prepared
from shared.queue.pools.worker_rows import WorkerRecord
from shared.queue.pools.workers import WorkRequest
from shared.queue.tasks.rows import CommitLost, Loaded
from shared.queue.tasks.rules import Resolved, State, UndeliveredClaim, Worker
from shared.store.interface import StorageUnavailable
from tests.simulator import invariants
from tests.simulator.company import remove_worker
from tests.simulator.running import SETTLING, TO_THE_END
from tests.simulator.situations import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Kill, Killed, Phase, as_process, process_name

ANOTHER = Worker(worker_group="group", worker_id="another")
OVER = CLAIM_TIMEOUT.total_seconds() + 5
MOST = 12
"""Requests of a claim, and more."""
Versions = tuple[bool, bool]
"""Whether the one that claims is older, and the one that meets it."""
MIXED: tuple[Versions, ...] = ((True, False), (False, True))


def older(services: Services) -> Services:
    """The process, with that code as far as it differs."""
    handing_out = services.work._claiming._handing_out
    claim_due, end = services.timers.claim_due, services.workers._end

    async def hand_out(prepared: Sequence[Prepared], record: WorkerRecord, request: WorkRequest) -> list[Loaded]:
        claimed: list[tuple[Prepared, Loaded]] = []
        for each in prepared:
            try:
                loaded = await services.lifecycle._executor.commit_once(each.read, each.decision, each.ahead)
            except CommitLost:
                await each.ahead.withdraw()
                continue
            claimed.append((each, loaded))
        if not claimed:
            return []
        runs, rows = [each.run for each, _ in claimed], [each.rows for each, _ in claimed]
        if await handing_out._presence.claimed(record, request, runs, rows):
            await together(*(services.stores.announcer.announce(each.decision.events, done) for each, done in claimed))
            return [done for _, done in claimed]
        request.ended.set()
        for _, done in claimed:
            undelivered = replace(UndeliveredClaim.of(done.task), started=None)
            await handing_out._giving_back.give_back(undelivered, AT_ONCE)
        return []

    async def due(task_id: str, run_id: int, put: datetime, started: datetime | None = None) -> None:
        await claim_due(task_id, run_id, put)

    async def end_what_runs(task_queue_id: str, task_id: str, run_id: int, worker: Worker) -> bool:
        task = await services.stores.tasks.status(task_id)
        is_claimed = task is not None and task.state is not State.PENDING
        return is_claimed and await end(task_queue_id, task_id, run_id, worker)

    for of, name, call in (
        (handing_out, "hand_out", hand_out),
        (services.timers, "claim_due", due),
        (services.workers, "_end", end_what_runs),
    ):
        setattr(of, name, call)
    return services


class Between:
    """Before or after the victim's request of that number, everything else happens that is to happen."""

    def __init__(self, number: int, phase: Phase, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.number, self.phase, self.meanwhile = number, phase, meanwhile
        self.is_over = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != "victim" or phase is not self.phase or self.is_over:
            return
        self.number -= 1
        if not self.number:
            self.is_over = True
            await as_process("other", self.meanwhile())


def _worlds(claimer_is_older: bool, gate: Any) -> tuple[World, Services]:
    """A is pending, made by another process, and a process claims."""
    world = World(Simulation.scripted([]), gate)
    world.is_ordered = False
    world.run(world.create(A))
    services = world.process()
    return world, older(services) if claimer_is_older else services


async def _claim(services: Services, worker: Worker = WORKER) -> list[int]:
    return [claim.run_id for claim in await services.work.claim_work(POOL, worker, 1, 0.4)]


def _check(world: World) -> None:
    """What holds in the end, but that older code commits claims ahead of their rows."""
    violations = world.history.violations
    violations[:] = [each for each in violations if "has no index row" not in each]
    invariants.check_finished(world)


def _comes_to_its_end(world: World, other: Services) -> None:
    """The task is claimed again at last, unless it is resolved, and completed; then nothing is left of its claims."""

    async def story() -> None:
        await world.drain(OVER)
        for _ in range(3):
            if world.tasks()[A].state is State.PENDING and not await _claim(other, ANOTHER):
                await world.drain(OVER)
        if not world.tasks()[A].is_resolved:
            await other.lifecycle.report(A, world.tasks()[A].last_run_id, Resolved.COMPLETED)
        await world.drain(SETTLING)
        await world.drain(TO_THE_END)
        await world.clean_up()

    world.run(story())
    _check(world)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("versions", MIXED, ids=["older claims", "newer claims"])
def test_claim_that_dies_is_ended_by_the_other_version(versions: Versions, phase: Phase) -> None:
    killed = 0
    for number in range(1, MOST):
        world, services = _worlds(versions[0], Kill(number=number, phase=phase, process="victim"))
        world.handlers = older(world.handlers) if versions[1] else world.handlers
        other = older(world.process()) if versions[1] else world.process()
        (outcome,) = world.simulation.outcomes(world.victim(_claim(services)))
        killed += isinstance(outcome, Killed)
        _comes_to_its_end(world, other)
    assert killed >= 6


def _meet(meets: str, versions: Versions, number: int, phase: Phase) -> bool:
    """A claim during which something else happens, at that request; whether there was one of that number."""
    given: list[int] = []

    async def meanwhile() -> None:
        if meets == "a claim":
            given.extend(await _claim(other, ANOTHER))
        elif meets == "a cancellation":
            await other.lifecycle.cancel(await other.lifecycle.existing(A))
        else:
            await remove_worker(world, other)

    gate = Between(number, phase, meanwhile)
    world, services = _worlds(versions[0], gate)
    other = older(world.process()) if versions[1] else world.process()
    (outcome,) = world.simulation.outcomes(world.victim(_claim(services)))
    assert not isinstance(outcome, BaseException) or isinstance(outcome, ApiError | StorageUnavailable), repr(outcome)
    given += outcome if isinstance(outcome, list) else []
    assert len(given) == len(set(given)), "a run was given to two workers"
    _comes_to_its_end(world, world.process())
    return gate.is_over


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("versions", MIXED, ids=["older claims", "newer claims"])
@pytest.mark.parametrize("meets", ["a claim", "the end of the worker", "a cancellation"])
def test_claim_that_meets_the_other_version(meets: str, versions: Versions, phase: Phase) -> None:
    """A run is given to one worker at the most; and nothing is left of claims in the end."""
    assert sum(_meet(meets, versions, number, phase) for number in range(1, MOST)) >= 5
