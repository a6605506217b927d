"""Uploads that overlap, or are repeated in the same or another way: of which one is the content (contract 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from shared.base.dates import format_date
from shared.base.errors import ResourceNotFound
from shared.queue.artifacts.rules import StorageType, Upload
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from tests.simulator import artifact_scenarios as scenes
from tests.simulator.artifact_scenarios import NAME, artifact, place, relay
from tests.simulator.situations import A, running
from tests.simulator.test_artifact_deletions import HOUR, content
from tests.simulator.uploading import (
    PACKED,
    Once,
    complete,
    create,
    expire,
    length_of,
    open_world,
    stored,
    writes_artifact,
    writes_blob,
)
from tests.twin.gate import Call, Phase, as_process


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("chosen", [writes_blob, writes_artifact])
def test_relay_uploads_that_overlap_leave_no_mixture(chosen: Callable[[Call], bool], phase: Phase) -> None:
    """What the row says for sure is true of the blob; else the next reader looks."""
    gate = Once("first", chosen, phase)
    world = open_world(gate)

    async def story() -> None:
        await scenes.relayed(world)
        gate.meanwhile = lambda: relay(world, b"plain")
        await as_process("first", relay(world, PACKED, "gzip"))
        assert gate.was

    world.run(story())
    row, blob = stored(world)
    assert not row.is_settled or (row.encoding, row.length) == (blob.content_encoding, length_of(blob))
    world.run(scenes.read(world))
    row, blob = stored(world)
    assert row.is_settled
    assert (row.encoding, row.length) == (blob.content_encoding, length_of(blob))


def test_older_direct_put_does_not_replace_a_newer_relay_upload() -> None:
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=3, sent_length=3)
        direct = place(world)
        await create(world, upload=Upload.RELAY)
        await relay(world, b"newer")
        await world.account.connect().blobs.put_block(*direct, "artifact", b"old")
        await complete(world)
        await world.drain(60)
        assert not [row.key for row in world.rows(keys.TASKS, A) if row.key.startswith("direct~")]

    world.run(story())
    assert content(world) == b"newer"


def test_block_of_an_expired_artifact_is_not_the_content_of_the_next_of_its_name() -> None:
    world = open_world()

    async def story() -> None:
        await world.create(A, deadline=format_date(world.clock.now() + timedelta(hours=20)))
        await world.claim()
        await scenes.direct(world, NAME, expires=world.clock.now() + timedelta(minutes=5))
        world.clock.advance(2 * HOUR)
        await world.handlers.expiration.run(300)
        await create(world, upload=Upload.DIRECT, content_length=5, sent_length=5)
        with pytest.raises(ResourceNotFound):
            await scenes.read(world)

    world.run(story())


@pytest.mark.parametrize("storage_type", ["s3", "blob", "reference"])
@pytest.mark.parametrize("is_repeated", [False, True], ids=["new", "repeated"])
def test_creation_whose_answer_was_lost_knows_its_own_write(storage_type: str, is_repeated: bool) -> None:
    """Storage gets it twice, and the run is resolved in between: it is no conflict, and it will expire in time."""
    writes: list[Call] = []
    first = 2 if is_repeated and storage_type != "blob" else 1  # the first write finds that the artifact is there

    def effective(call: Call) -> bool:
        if writes_artifact(call):
            writes.append(call)
        return writes_artifact(call) and len(writes) == first

    gate = Once("caller", effective, Phase.AFTER, is_resent=True)
    world = open_world(gate)

    async def story() -> None:
        await world.create(A, expires=format_date(world.clock.now() + timedelta(days=300)))
        await world.claim()
        of_type: dict[str, dict[str, Any]] = {
            "s3": {"upload": Upload.RELAY},
            "blob": {"upload": Upload.CLIENT, "details": {"contentSha256": "0", "contentLength": 1}},
            "reference": {"details": {"url": "https://example.com"}},
        }
        wanted = artifact(world, storage_type, **of_type[storage_type], expires=world.clock.now() + timedelta(hours=5))
        if is_repeated:
            await world.process().artifacts.creation.create(A, 0, wanted)
        gate.meanwhile = lambda: world.services.lifecycle.report(A, 0, Resolved.FAILED)
        created = await as_process("caller", world.services.artifacts.creation.create(A, 0, wanted))
        assert gate.was
        assert created.artifact.storage_type is StorageType(storage_type)
        await world.drain(60)
        await expire(world, 24)
        assert [row.key for row in world.rows(keys.TASKS, A) if row.key.startswith("artifact~")] == []

    world.run(story())
