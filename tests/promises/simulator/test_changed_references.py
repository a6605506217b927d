"""An artifact that refers to something else, or expires later, is announced as changed; a repeat only as a repeat."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.queue.artifacts.rules import Artifact
from tests.promises.simulator.artifact_scenarios import artifact, reference
from tests.promises.simulator.situations import A, running
from tests.promises.simulator.world import World


def first(world: World) -> Artifact:
    return replace(reference(world, "https://example.com/1"), expires=world.clock.now() + timedelta(minutes=5))


def url(world: World, number: int) -> Artifact:
    return replace(first(world), details={"url": f"https://example.com/{number}"})


def link(world: World) -> Artifact:
    return replace(artifact(world, "link", details={"artifact": "public/other"}), expires=first(world).expires)


async def announced(*wanted: Artifact, world: World) -> list[str]:
    """Returns the MessageIds of the events of several calls of createArtifact."""
    before = len(world.topics.messages)
    for each in wanted:
        await world.process().artifacts.creation.create_or_find(A, 0, each)
    messages = [each for each in world.topics.messages[before:] if each.topic == "artifact-created"]
    assert len(messages) == len(wanted)
    return [message.message_id for message in messages]


@pytest.mark.parametrize("numbers", [[1, 2], [1, 2, 1], [1, 2, 1, 2]], ids=str)
def test_changed_url_is_announced(numbers: list[int]) -> None:
    """A changed URL is announced, also if it changes back: a consumer would else keep the URL in between."""
    world = World()

    async def story() -> None:
        await running(world)
        ids = await announced(*(url(world, number) for number in numbers), world=world)
        assert len(set(ids)) == len(numbers)

    world.run(story())


def test_repeat_is_recognised() -> None:
    """A repeat of createArtifact announces the same event, for each kind: the client may not have got the answer."""
    world = World()

    async def story() -> None:
        await running(world)
        error = artifact(world, "error", "public/c", details={"reason": "file-missing-on-worker", "message": "x"})
        for wanted in (first(world), url(world, 2), link(world), error):
            assert len(set(await announced(wanted, wanted, wanted, world=world))) == 1

    world.run(story())
