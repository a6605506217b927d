"""Which encoding and length an upload has, and who says so: creation, reader, resolution (contract 7.2)."""

from __future__ import annotations

import gzip
from random import Random

import pytest

from shared.queue.artifacts.rules import Upload
from shared.store import keys
from shared.store.interface import Merge
from tests.simulator import artifact_scenarios as scenes
from tests.simulator.artifact_scenarios import CONTENT, NAME, place
from tests.simulator.sending import File, pack
from tests.simulator.situations import A, running
from tests.simulator.test_artifact_bytes import of_equal_length
from tests.simulator.uploading import (
    PACKED,
    Once,
    complete,
    create,
    open_world,
    stored,
    writes_blob,
)
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, as_process, process_name


def test_encoding_of_older_content_is_not_set_on_newer_content() -> None:
    """A reader looks at a first upload (packed); a second one (plain) is committed; then the reader sets headers."""
    gate = Once("reader", lambda call: writes_blob(call) and len(commits) == 1)
    commits: list[Call] = []

    async def count(call: Call, phase: Phase) -> None:
        if phase is Phase.AFTER and process_name() == "reader" and writes_blob(call):
            commits.append(call)

    world = World(Simulation.scripted([]), gate, count)
    world.is_ordered = False

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=100, sent_length=100)
        await scenes.put(world, NAME, content=PACKED)

        async def newer() -> None:
            await scenes.put(world, NAME)
            await complete(world)
            await world.drain(60)

        gate.meanwhile = newer
        await as_process("reader", scenes.read(world))
        assert gate.was
        await scenes.read(world)

    world.run(story())
    container, path = place(world)
    blob = world.memory.blobs.blobs(container)[path]
    assert (blob.content, blob.content_encoding) == (CONTENT, "")


@pytest.mark.parametrize("stated", [len(PACKED), len(PACKED) + 1, None])
def test_content_is_unpacked_only_where_its_length_is_not_the_stated_one(stated: int | None) -> None:
    """And the length that was stated stays."""
    world = open_world()

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


def test_content_whose_gzip_is_as_long_as_itself_is_unpacked() -> None:
    """Its length is the stated one; the length at the end of the gzip is, too."""
    world = open_world()
    text = of_equal_length(Random(1), NAME)
    packed = pack(File(NAME, "", text))
    assert len(packed) == len(text)

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=len(text), sent_length=len(text))
        await scenes.put(world, NAME, content=packed)
        await scenes.read(world)

    world.run(story())
    row, blob = stored(world)
    assert (row.known_length, blob.content_encoding) == (len(text), "gzip")


def test_an_empty_file_has_no_bytes_whatever_its_gzip_has() -> None:
    """A worker that leaves out a length of 0 has stated none."""
    world = open_world()

    async def story() -> None:
        await scenes.relayed(world)
        await scenes.relay(world, gzip.compress(b""), "gzip")

    world.run(story())
    assert stored(world)[0].known_length == 0


@pytest.mark.parametrize(("encoding", "length"), [("gzip", len(CONTENT)), ("identity", len(PACKED)), ("br", None)])
def test_relayed_content_that_another_replaces_meanwhile_keeps_its_length(encoding: str, length: int | None) -> None:
    """Nothing is stated; whoever reads next looks at the blob."""
    world = open_world()

    async def story() -> None:
        await scenes.relayed(world)
        await scenes.relay(world, PACKED, encoding)
        (row,) = [row for row in world.rows(keys.TASKS, A) if row.key == keys.artifact(0, NAME)]
        await world.memory.storage.tables.transact(keys.TASKS, A, [Merge(row.key, {"isSettled": False})])
        await scenes.read(world)

    world.run(story())
    row, blob = stored(world)
    assert (row.is_settled, row.known_length, blob.content_encoding) == (True, length, encoding)


def test_encoding_is_detected_by_the_length_that_was_stated_last() -> None:
    """The artifact's own length stays that of the first statement (contract 7.3)."""
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=3, sent_length=3)
        await create(world, upload=Upload.DIRECT, content_length=len(PACKED), sent_length=len(PACKED))
        await scenes.put(world, NAME, content=PACKED)
        await scenes.read(world)

    world.run(story())
    row, blob = stored(world)
    assert (row.known_length, blob.content_encoding) == (3, "")


def test_resolution_keeps_the_encoding_that_a_reader_found_out() -> None:
    """A commit without new content would take it away until the next reader."""
    world = open_world()

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
