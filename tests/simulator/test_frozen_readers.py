"""Whoever has looked for a task in vain, and goes on minutes later, takes nothing from one that was made meanwhile.

What has no task is an orphan once it is old. It must have been old before the task was looked for: a process may stand
still in between, and a job may have much else to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.partitions import delete_unchanged
from tests.simulator import invariants
from tests.simulator.claimer import is_commit
from tests.simulator.deletions import bystander, members, soon
from tests.simulator.expiring import EARLY, HOUR, JOB, relay
from tests.simulator.situations import GROUP, A, B, C, a_runs_b_waits
from tests.simulator.world import HANDLER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Gate, Phase, as_process, process_name

HELD = "held"
FREEZE = 700.0
"""Seconds: longer than anything counts as young."""


class Frozen:
    """A gate: the process stands still right after its next request that matches, and something happens meanwhile."""

    def __init__(self, process: str, matches: Callable[[Call], bool]) -> None:
        self._process, self._matches = process, matches
        self.world: World | None = None
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.has_stood = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        is_its_turn = phase is Phase.AFTER and process_name() == self._process and self._matches(call)
        if self.meanwhile is None or not is_its_turn:
            return
        assert self.world is not None
        happens, self.meanwhile, self.has_stood = self.meanwhile, None, True
        await as_process("other", happens())
        await self.world.clock.sleep(FREEZE)


def looks_for(task_id: str) -> Callable[[Call], bool]:
    return lambda call: (call.kind, call.target, call.subject) == (Kind.TABLE_READ, keys.TASKS, task_id)


def open_world(frozen: Frozen, *gates: Gate) -> World:
    world = frozen.world = World(Simulation.scripted([]), frozen, *gates)
    world.is_ordered = False
    return world


class Held:
    """A gate: the process `HELD` waits right before each commit of a task."""

    def __init__(self) -> None:
        self._go_on = asyncio.Event()
        self._call: asyncio.Future[object] | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() == HELD and phase is Phase.BEFORE and is_commit(call):
            await self._go_on.wait()

    def begin(self, call: Awaitable[object]) -> None:
        self._call = asyncio.ensure_future(as_process(HELD, call))

    async def commit(self) -> None:
        assert self._call is not None
        self._go_on.set()
        await self._call


async def cancel(world: World, task_id: str) -> None:
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(task_id))


def test_check_of_a_group_leaves_the_rows_of_a_task_that_came_meanwhile() -> None:
    gate, held = Frozen(HANDLER, looks_for(B)), Held()
    world = open_world(gate, held)

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        held.begin(world.create(B, taskGroupId=GROUP))
        await world.clock.sleep(60)
        gate.meanwhile = held.commit
        await cancel(world, C)
        await world.drain(1000)
        assert gate.has_stood
        assert members(world, GROUP) == {B, C}
        invariants.check(world)

    world.run(story())


@pytest.mark.parametrize("looked_before", [0.0, 3.0], ids=["the first time", "again"])
def test_fan_out_leaves_the_edge_of_a_task_that_came_meanwhile(looked_before: float) -> None:
    gate, held = Frozen(HANDLER, looks_for(B)), Held()
    world = open_world(gate, held)

    async def story() -> None:
        await world.create(C, taskGroupId=GROUP)
        await world.create(A, taskGroupId=GROUP)
        held.begin(world.create(B, taskGroupId=GROUP, dependencies=[C], requires="all-resolved"))
        await world.clock.sleep(1)
        await cancel(world, C)
        await world.drain(looked_before)
        gate.meanwhile = held.commit
        await world.drain(1000)
        assert gate.has_stood
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_resolution_that_was_committed_meanwhile_is_followed() -> None:
    gate, held = Frozen(HANDLER, looks_for(A)), Held()
    world = open_world(gate, held)

    async def story() -> None:
        await a_runs_b_waits(world)
        held.begin(world.services.lifecycle.report(A, 0, Resolved.COMPLETED))
        await world.clock.sleep(0.1)
        gate.meanwhile = held.commit
        await world.drain(1000)
        assert gate.has_stood
        assert world.tasks()[B].state is State.PENDING

    world.run(story())


def test_reconciler_leaves_the_row_of_a_task_that_came_meanwhile() -> None:
    gate, held = Frozen("", looks_for(B)), Held()
    world = open_world(gate, held)

    async def story() -> None:
        held.begin(world.create(B, taskGroupId=GROUP))
        await world.clock.sleep(61)
        queues = world.account.connect().queues
        for queue in [name for name in world.memory.queues.names() if name.startswith("pending")]:
            await queues.get(queue, count=32, hidden_for=5 * HOUR)
        gate.meanwhile = held.commit
        await world.handlers.reconciler.check_all()
        assert gate.has_stood
        await world.drain(60)
        invariants.check(world)

    world.run(story())


async def has_a_row_of_its_own(world: World) -> None:
    """A, which has a row of its own in the Expiry table, and no sweep of its group looks for it."""
    tables = world.account.connect().tables
    for sweep in [row for row in world.rows(keys.EXPIRY) if keys.SWEPT_GROUP in row.key]:
        await delete_unchanged(tables, keys.EXPIRY, [sweep])
    await world.handlers.expiration._expiry.tasks(GROUP, [], [A])
    await world.drain(4 * HOUR)


async def resolved(world: World, task_id: str) -> None:
    await world.create(task_id, taskGroupId=GROUP, expires=soon(world, 1), deadline=soon(world, 1))
    assert await world.claim()
    await relay(world, EARLY)
    await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    await world.drain(60)


def test_deletion_of_a_task_leaves_the_rows_in_its_group_of_a_new_one() -> None:
    gate = Frozen(JOB, lambda call: call.kind is Kind.TABLE_WRITE and call.subject == A)
    world = open_world(gate)

    async def story() -> None:
        await bystander(world)
        await resolved(world, A)
        await has_a_row_of_its_own(world)
        gate.meanwhile = lambda: world.create(A, taskGroupId=GROUP)
        await as_process(JOB, world.handlers.expiration.run(300))
        assert gate.has_stood
        assert members(world, GROUP) == {A, C}
        invariants.check(world)

    world.run(story())


def test_sweep_of_a_group_leaves_a_task_that_came_while_others_were_deleted() -> None:
    """Hundreds of contents, say, and a storage that is slow."""
    gate, held = Frozen(JOB, lambda call: call.kind is Kind.BLOB_WRITE), Held()
    world = open_world(gate, held)

    async def story() -> None:
        await bystander(world)
        await resolved(world, A)
        await world.drain(4 * HOUR)
        held.begin(world.create(B, taskGroupId=GROUP))
        await world.clock.sleep(1)
        gate.meanwhile = held.commit
        await as_process(JOB, world.handlers.expiration.run(300))
        assert gate.has_stood
        assert members(world, GROUP) == {B, C}
        invariants.check(world)

    world.run(story())


def test_deletion_of_a_group_leaves_the_rows_of_a_new_one() -> None:
    gate = Frozen(JOB, lambda call: keys.GROUP in call.keys)
    world = open_world(gate)

    async def story() -> None:
        await resolved(world, A)
        await world.drain(5 * HOUR)
        gate.meanwhile = lambda: world.create(B, taskGroupId=GROUP)
        await as_process(JOB, world.handlers.expiration.run(300))
        assert gate.has_stood
        assert keys.GROUP in {row.key for row in world.rows(keys.GROUPS, GROUP)}
        invariants.check(world)

    world.run(story())
