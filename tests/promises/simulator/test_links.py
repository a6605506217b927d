"""Artifacts that are links to others: followed within their run, with the scopes of every name on the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from shared.base.errors import InputError, ResourceExpired, ResourceNotFound
from shared.queue.tasks.rules import Resolved
from tests.promises.simulator.artifact_scenarios import artifact, reference
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import World, unordered

URL = "https://example.com/log"
LOG = "public/log"


@pytest.fixture
def world() -> World:
    """Returns a world in which A is running, with a reference to LOG."""
    world = unordered()

    async def begin() -> None:
        await world.create(A)
        await world.claim()
        await world.services.artifacts.creation.create_or_find(A, 0, reference(world, URL, LOG))

    world.run(begin())
    return world


async def link(world: World, name: str, target: str, run_id: int = 0) -> None:
    """Creates a link."""
    await world.services.artifacts.creation.create_or_find(
        A, run_id, artifact(world, "link", name, details={"artifact": target})
    )


async def visited(world: World, name: str) -> tuple[str, list[list[str]]]:
    """Returns where the artifact of the latest run is, and the names that were to be authorised at each link."""
    asked: list[list[str]] = []

    async def authorise(names: Sequence[str]) -> None:
        asked.append(list(names))

    found = await world.services.artifacts.reading.find_latest(A, name, authorise)
    return await world.services.artifacts.reading.url(found), asked


def test_links_are_followed_in_their_own_run(world: World) -> None:
    async def story() -> None:
        await link(world, "public/first", "public/second")
        await link(world, "public/second", LOG)
        names = ["public/first", "public/second", LOG]
        assert await visited(world, "public/first") == (URL, [names[:2], names])
        await world.services.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)
        await world.claim()
        await link(world, "public/first", LOG, run_id=1)
        with pytest.raises(ResourceNotFound, match=LOG):
            await visited(world, "public/first")
        other = "https://example.com/1"
        await world.services.artifacts.creation.create_or_find(A, 1, reference(world, other, LOG))
        assert await visited(world, "public/first") == (other, [["public/first", LOG]])

    world.run(story())


@pytest.mark.parametrize("target", ["public/first", "public/second"])
def test_links_that_lead_in_a_circle(world: World, target: str) -> None:
    async def story() -> None:
        await link(world, "public/first", "public/second")
        await link(world, "public/second", target)
        with pytest.raises(InputError, match="circle"):
            await visited(world, "public/first")

    world.run(story())


def test_link_to_what_is_not_there_or_has_expired(world: World) -> None:
    async def story() -> None:
        await link(world, "public/nowhere", "public/none")
        with pytest.raises(ResourceNotFound, match="public/none"):
            await visited(world, "public/nowhere")
        soon = world.clock.now() + timedelta(minutes=5)
        expired = artifact(world, "reference", "public/old", details={"url": URL}, expires=soon)
        await world.services.artifacts.creation.create_or_find(A, 0, expired)
        await link(world, "public/first", "public/old")
        assert (await visited(world, "public/first"))[0] == URL
        await world.clock.sleep(301)
        with pytest.raises(ResourceExpired, match="public/old"):
            await visited(world, "public/first")

    world.run(story())
