"""The encoding and the length of an upload, as known from its creation, a reader, or the resolution (contract 7.2)."""

from __future__ import annotations

import gzip

import pytest

from shared.queue.artifacts.rules import Upload
from tests.promises.simulator import artifact_scenarios as scenes
from tests.promises.simulator.artifact_scenarios import CONTENT, NAME, place
from tests.promises.simulator.situations import A, running
from tests.promises.simulator.uploading import PACKED, complete, create, stored
from tests.promises.simulator.world import unordered


@pytest.mark.parametrize("stated", [len(PACKED), len(PACKED) + 1, None])
def test_content_is_unpacked_only_where_its_length_is_not_the_stated_one(stated: int | None) -> None:
    """Content is unpacked only if its length is not the stated one, which stays."""
    world = unordered()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=stated, sent_length=stated)
        await scenes.put(world, NAME, content=PACKED)
        await scenes.read(world)
        await complete(world)
        await world.drain(60)
        await scenes.read(world)
        found = await world.services.artifacts.reading.info(A, 0, NAME)
        assert found.known_length == (len(CONTENT) if stated is None else stated)

    world.run(story())
    container, path = place(world)
    expected = "" if stated == len(PACKED) else "gzip"
    assert world.memory.blobs.blobs(container)[path].content_encoding == expected


def test_an_empty_file_has_no_bytes_whatever_its_gzip_has() -> None:
    """An empty file has no bytes, whatever its gzip has. A worker that leaves out a length of 0 has stated none."""
    world = unordered()

    async def story() -> None:
        await scenes.relayed(world)
        await scenes.relay(world, gzip.compress(b""), "gzip")

    world.run(story())
    assert stored(world)[0].known_length == 0


def test_resolution_keeps_the_encoding_that_a_reader_found_out() -> None:
    """The resolution keeps the encoding that a reader found out, which a commit without new content would take away."""
    world = unordered()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=1, sent_length=1)
        await scenes.put(world, NAME, content=PACKED)
        await scenes.read(world)
        await complete(world)
        await world.drain(60)

    world.run(story())
    container, path = place(world)
    assert world.memory.blobs.blobs(container)[path].content_encoding == "gzip"
