"""How many artifacts a task may have, and what is counted for that."""

from __future__ import annotations

import pytest

from shared.base.errors import RequestConflict
from shared.queue.artifacts import rules
from shared.queue.artifacts.rules import Upload
from tests.promises.simulator.situations import running
from tests.promises.simulator.uploading import create
from tests.promises.simulator.world import World, unordered


def test_task_cannot_have_artifacts_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task cannot have artifacts without end, as every process counts now and then."""
    monkeypatch.setattr(rules, "MAX_OF_TASK", 20)
    monkeypatch.setattr("shared.queue.artifacts.rows.MAX_OF_TASK", 20)
    monkeypatch.setattr(rules, "COUNTED_EVERY", 5)
    world = unordered()

    async def fill(world: World) -> int:
        made = 0
        for number in range(100):
            try:
                await create(world, name=f"{world.slugid()}/{number}", upload=Upload.RELAY)
            except RequestConflict:
                break
            made += 1
        return made

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.RELAY)
        assert await fill(world) == 19
        with pytest.raises(RequestConflict, match="20 artifacts"):
            await create(world, name="one more", upload=Upload.RELAY)
        await create(world, upload=Upload.RELAY)
        world.services = world.process()
        assert await fill(world) == 5, "as many as a process creates before it counts"

    world.run(story())
