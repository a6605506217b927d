"""What a process knows of task groups spares requests."""

from __future__ import annotations

from shared.storage import keys
from shared.storage.counting import Kind, counting
from tests.simulator.scenarios import GROUP, A, B
from tests.simulator.world import World
from tests.twin.driver import Simulation


def test_header_of_a_group_is_read_for_its_first_task_only() -> None:
    world = World(Simulation.rounds())

    async def headers_read(task_id: str) -> int:
        with counting() as operations:
            await world.create(task_id, taskGroupId=GROUP)
        return sum(each.kind is Kind.TABLE_READ and each.target == keys.GROUPS for each in operations.requests)

    async def story() -> list[int]:
        return [await headers_read(task_id) for task_id in (A, B)]

    assert world.run(story()) == [[1, 0]]
