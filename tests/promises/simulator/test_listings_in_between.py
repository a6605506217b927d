"""A listing of a group shows the truth while other calls act between any two of its requests (design 11). If nobody has
acted for more than a second before, it says of each task what was true at some time since it began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from shared.app.services import Services
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator.listing import A_SECOND, create, listed, truth
from tests.promises.simulator.situations import OTHER_GROUP
from tests.promises.simulator.world import POOL, WORKER, World, unordered

pytestmark = pytest.mark.usefixtures("rows_vouch_for_few")

LISTER = "lister"
LATER = 2.0
"""Seconds after which a status is shown again only if rows vouch for it."""


@dataclass(frozen=True)
class Group:
    """A group with a pending task and an unscheduled one. `lister` is the process that lists it."""

    pending: str
    unscheduled: str
    lister: Services


Step = Callable[[World, Services, Group], Coroutine[Any, Any, None]]


class InBetween:
    """A gate that lets others act before or after the lister's request of that number, and notes what was true when."""

    def __init__(self, number: int, phase: Phase) -> None:
        self.number = number
        self.phase = phase
        self.senders: list[object] = []
        """Who sent each of the lister's requests: what one coroutine sends, it sends one after the other."""
        self.writes = 0
        """Of others, to tables."""
        self.world: World | None = None
        self.act: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.truths: list[dict[str, Any]] = []

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts the lister's requests, and interferes when it is time."""
        assert self.world is not None
        if process_name() != LISTER:
            if phase is Phase.AFTER and call.kind is Kind.TABLE_WRITE:
                self.writes += 1
                if call.target == keys.TASKS:
                    self.note()
            return
        if phase is Phase.BEFORE:
            self.senders.append(asyncio.current_task())
        if self.act is not None and (len(self.senders), phase) == (self.number, self.phase):
            act, self.act = self.act, None
            await as_process("others", act())

    @property
    def is_reached(self) -> bool:
        """Whether others have acted, since the listing has made as many requests."""
        return self.act is None

    def follows_at_once(self) -> bool:
        """Whether the request was sent by the coroutine that received the answer before it."""
        return self.number > 1 and self.senders[self.number - 1] is self.senders[self.number - 2]

    def note(self) -> None:
        """Notes what is true from now on."""
        assert self.world is not None
        self.truths.append(truth(self.world))

    def were_true(self, task_id: str) -> list[Any]:
        """Returns the statuses that a task has had since the listing began."""
        return [truths[task_id] for truths in self.truths]


async def nothing(world: World, services: Services, group: Group) -> None:
    """Does nothing."""


async def claim(world: World, services: Services, group: Group) -> None:
    """Claims all pending tasks."""
    await services.work.claim_work(POOL, WORKER, 32, 0)


async def schedule(world: World, services: Services, group: Group) -> None:
    """Schedules the unscheduled task."""
    await services.lifecycle.schedule(await services.lifecycle.existing(group.unscheduled))


async def cancel(world: World, services: Services, group: Group) -> None:
    """Cancels both tasks; the resolutions are not handled yet."""
    for task_id in (group.pending, group.unscheduled):
        await services.lifecycle.cancel(await services.lifecycle.existing(task_id))


async def cancel_and_settle(world: World, services: Services, group: Group) -> None:
    """Cancels both tasks, and settles their resolutions."""
    await cancel(world, services, group)
    await world.clock.sleep(LATER)
    await world.handle_visible()


async def cancel_settle_and_list(world: World, services: Services, group: Group) -> None:
    """Cancels and settles both tasks; the process that lists the group reads the pool's index for another group."""
    await cancel_and_settle(world, services, group)
    with suppress(TimeoutError):  # one of the two listings reads the index, and the other one waits for it
        async with asyncio.timeout(0.1):
            await list_other(group.lister)


async def finish_and_settle(world: World, services: Services, group: Group) -> None:
    """Completes and settles the pending task; then the one that waited for it."""
    for _ in range(2):
        for each in await services.work.claim_work(POOL, WORKER, 32, 0):
            await services.lifecycle.report(each.task.task_id, each.run_id, Resolved.COMPLETED)
        await world.clock.sleep(LATER)
        await world.handle_visible()


async def claim_and_retry(world: World, services: Services, group: Group) -> None:
    """Claims runs and ends them with a retry, so that the same tasks are pending again."""
    for each in await services.work.claim_work(POOL, WORKER, 32, 0):
        await services.lifecycle.report_exception(each.task.task_id, each.run_id, Resolved.WORKER_SHUTDOWN)


async def schedule_and_claim(world: World, services: Services, group: Group) -> None:
    """Schedules and claims, so that both tasks run."""
    await schedule(world, services, group)
    await claim(world, services, group)


async def retry(world: World, services: Services, group: Group) -> None:
    """Ends running runs so that the tasks are pending again."""
    for task_id, task in world.tasks().items():
        if task.state is State.RUNNING:
            await services.lifecycle.report_exception(task_id, task.last_run_id, Resolved.WORKER_SHUTDOWN)


async def claim_and_write_again(world: World, services: Services, group: Group) -> None:
    """Claims, and then writes the index row of the pending run again, as a repeated createTask does."""
    row = row_of(world.tasks()[group.pending], 0)
    await claim(world, services, group)
    await services.stores.pools.add_pending(row)


async def look_claim_and_write_again(world: World, services: Services, group: Group) -> None:
    """Does the same after the process that lists the group has read the status for another call."""
    await group.lister.lifecycle.existing(group.pending)
    await claim_and_write_again(world, services, group)


async def schedule_and_cancel(world: World, services: Services, group: Group) -> None:
    """Schedules and cancels a task, which is pending in between; nothing is settled."""
    await schedule(world, services, group)
    await cancel(world, services, group)


async def list_other(services: Services) -> None:
    """Lists another group, which has a task that waits in the same pool."""
    await services.groups.list(OTHER_GROUP, start="", limit=10)


BEFORE: Mapping[str, Step] = {step.__name__: step for step in (nothing, schedule, claim, schedule_and_claim)}
BETWEEN: Mapping[str, Step] = {
    step.__name__: step
    for step in (
        claim,
        schedule,
        cancel,
        cancel_and_settle,
        cancel_settle_and_list,
        finish_and_settle,
        claim_and_retry,
        retry,
        claim_and_write_again,
        look_claim_and_write_again,
        schedule_and_cancel,
    )
}
SHOWING_WHERE = {
    step.__name__ for step in (cancel_and_settle, cancel_settle_and_list, finish_and_settle, look_claim_and_write_again)
}
"""Acts that take time, or use the lister's process, so that it matters whether an answer had come by then."""


def meet(before: Step, between: Step, gate: InBetween) -> None:
    """Lets others act after the lister has seen both tasks, and again while it lists the group."""
    world = gate.world = unordered(gate)
    lister, other = world.process(), world.process()

    async def story() -> None:
        pending = await create(world, other)
        group = Group(pending, await create(world, other, dependencies=[pending]), lister)
        await other.create_task(world.definition(taskGroupId=OTHER_GROUP, dependencies=[pending]))
        for _ in range(2):
            await world.clock.sleep(LATER)
            await list_other(lister)
            await listed(lister)
        await world.clock.sleep(LATER)
        await before(world, other, group)
        await world.clock.sleep(LATER)
        gate.truths, gate.senders, gate.writes = [truth(world)], [], 0
        gate.act = lambda: between(world, other, group)
        found = await as_process(LISTER, listed(lister))
        for task_id, status in found.items():
            assert status in gate.were_true(task_id), status["state"]
        await world.clock.sleep(A_SECOND)
        now = truth(world)
        assert await listed(lister) == {task_id: now[task_id] for task_id in found}, "a second later"

    world.run(story())


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("before", BEFORE)
def test_listing_while_others_act(before: str, between: str) -> None:
    """A listing is right while others act before each of its requests, and after each answer. What takes no time and
    leaves the lister's process alone is the same after an answer as before the request that follows at once. Where it
    writes nothing either, one place is all places."""
    shows_where = between in SHOWING_WHERE
    for number in count(1):
        gate = _met(before, between, number, Phase.BEFORE)
        if number > 1 and (shows_where or not gate.is_reached or not gate.follows_at_once()):
            _met(before, between, number - 1, Phase.AFTER)
        if not gate.is_reached or not (shows_where or gate.writes):
            break


def _met(before: str, between: str, number: int, phase: Phase) -> InBetween:
    gate = InBetween(number, phase)
    try:
        meet(BEFORE[before], BETWEEN[between], gate)
    except BaseException as failure:
        failure.add_note(f"{between} {phase.value} request {number}")
        raise
    return gate
