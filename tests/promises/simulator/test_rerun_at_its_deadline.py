"""Every unresolved task has a deadline message, also one that is run again right at its deadline (design 2.3, 7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator import invariants
from tests.promises.simulator.situations import GROUP, A, C
from tests.promises.simulator.world import unordered


@pytest.mark.parametrize(("delay", "late"), [(60, 100), (0, 5)], ids=["as deployed", "deadlines not delayed"])
def test_a_task_that_was_run_again_ends_at_its_deadline(delay: int, late: float) -> None:
    """A task that was run again ends at its deadline, even if the rerun commits after the deadline message."""
    reached, go = asyncio.Event(), asyncio.Event()

    async def hold(call: Call, phase: Phase) -> None:
        """Holds the rerun up at the last request that is written ahead, which goes to the group."""
        if (process_name(), call.kind, call.target, phase) == ("slow", Kind.TABLE_WRITE, keys.GROUPS, Phase.BEFORE):
            reached.set()
            await go.wait()

    world = unordered(hold)
    world.services, world.handlers = (world.process(deadline_delay_seconds=delay) for _ in range(2))

    async def story() -> None:
        deadline = world.clock.now() + timedelta(minutes=5)
        await world.create(A, taskGroupId=GROUP, deadline=format_date(deadline))
        await world.create(C, taskGroupId=GROUP)
        await world.claim()
        lifecycle = world.services.lifecycle
        await lifecycle.report(A, 0, Resolved.FAILED)
        await world.drain((deadline - world.clock.now()).total_seconds() - 2)
        asked = asyncio.ensure_future(as_process("slow", lifecycle.rerun(await lifecycle.existing(A))))
        await reached.wait()
        await world.drain(late)
        go.set()
        assert (await asked).state == "pending"
        invariants.check(world)
        await world.drain(600)
        assert world.tasks()[A].is_resolved

    world.run(story())
