"""A check with repairs beside each kind of call, which falls between any two of its requests: nothing is harmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from shared.base.dates import format_date
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Delete, TransactionRefused
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator.invariants import check_settled
from tests.promises.simulator.situations import GROUP, A, B, C
from tests.promises.simulator.world import World, unordered
from tools.admin.account import Records
from tools.admin.inspection import inspect_group, inspect_task

OPERATOR = "operator"
SETTLED = 16 * 60
"""Seconds after which a check examines everything."""


@dataclass
class AtRequest:
    """A gate that does something once, right before or after the operator's request of that number, from 1."""

    number: int
    phase: Phase
    happens: Callable[[], Awaitable[object]] | None = None
    calls: list[Call] = field(default_factory=list)
    happened: bool = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Lets everything pass."""
        if process_name() != OPERATOR:
            return
        if phase is Phase.BEFORE:
            self.calls.append(call)
        hit = 0 < self.number <= len(self.calls) and self.calls[self.number - 1] is call and phase is self.phase
        if hit and not self.happened and self.happens is not None:
            self.happened = True
            await as_process("other", self.happens())


Story = Callable[[World], Awaitable[object]]


async def cancel(world: World) -> None:
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))


async def complete(world: World) -> None:
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def claim(world: World) -> None:
    await world.claim()


async def nothing(world: World) -> None:
    """Changes nothing."""


async def _lose(world: World, table: str, partition: str, key: str) -> None:
    try:
        await world.memory.storage.tables.transact(table, partition, [Delete(key)])
    except TransactionRefused:
        raise AssertionError(f"{key} is not there") from None


async def no_active_row(world: World) -> None:
    await _lose(world, keys.GROUPS, GROUP, keys.active(A, 0))


def records(world: World) -> Records:
    return Records.of(world.memory.storage, Runtime(now=world.clock.now, sleep=world.clock.sleep, slugid=world.slugid))


async def check(world: World) -> list[str]:
    """Runs `task check --repair` and `group check --repair`."""
    look = records(world)
    found = [*await inspect_group(look, GROUP), *await inspect_task(look, A), *await inspect_task(look, B)]
    for finding in found:
        if finding.repair is not None:
            await finding.repair()
    return [finding.text for finding in found]


def play(number: int, phase: Phase, *, running: bool, damage: Story, call: Story) -> tuple[AtRequest, list[str]]:
    """Plays one run: the tasks, the damage, the check with the call in it; then everything ends and is examined."""
    gate = AtRequest(number, phase)
    world = unordered(gate)

    async def story() -> list[str]:
        deadline = format_date(world.clock.now() + timedelta(hours=20))
        await world.create(A, taskGroupId=GROUP, deadline=deadline, priority="high")
        if running:
            await world.claim()
        await world.create(C, taskGroupId=GROUP, deadline=deadline)
        await world.create(B, taskGroupId=GROUP, deadline=deadline, dependencies=[C])
        await world.drain(SETTLED)
        await damage(world)
        gate.happens = lambda: call(world)
        found = await as_process(OPERATOR, check(world))
        if not gate.happened:
            await call(world)
        await world.drain(60)
        for task_id in (A, C, B):
            task = world.tasks()[task_id]
            if not task.is_resolved:
                await world.services.lifecycle.cancel(await world.services.lifecycle.existing(task_id))
        await world.drain(24 * 3600)
        await world.services.reconciler.check_all()
        return found

    (found,) = world.run(story())
    check_settled(world)
    assert [row.key for row in world.rows(keys.GROUPS, GROUP) if row.key.startswith("active~")] == []
    assert [row.key for row in world.rows(keys.POOLS) if row.key.startswith(("pending~", "claimed~"))] == []
    assert world.topics.of("task-group-resolved"), "the group was never announced"
    return gate, found


SAMPLE = 3


def test_a_repair_of_a_task_that_has_moved_on_does_nothing() -> None:
    world = World()

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await world.drain(SETTLED)
        await no_active_row(world)
        (finding,) = await inspect_task(records(world), A)
        assert finding.repair is not None
        await world.claim()
        before = [row.etag for row in world.rows(keys.GROUPS, GROUP)]
        assert not await finding.repair()
        assert [row.etag for row in world.rows(keys.GROUPS, GROUP)] == before

    world.run(story())
