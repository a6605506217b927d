"""Uploads that overlap, or are repeated in the same or another way, leave one content (contract 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import ResourceNotFound
from shared.queue.artifacts.rules import Upload
from tests.parts.twin.gate import Call, Phase, as_process
from tests.promises.simulator import artifact_scenarios as scenes
from tests.promises.simulator.artifact_scenarios import NAME, relay
from tests.promises.simulator.situations import A
from tests.promises.simulator.test_artifact_deletions import HOUR
from tests.promises.simulator.uploading import PACKED, Once, create, length_of, stored, writes_artifact, writes_blob
from tests.promises.simulator.world import unordered


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("chosen", [writes_blob, writes_artifact])
def test_relay_uploads_that_overlap_leave_no_mixture(chosen: Callable[[Call], bool], phase: Phase) -> None:
    """Overlapping uploads by relay leave no mixture: what the row is certain of is true of the blob."""
    gate = Once("first", chosen, phase)
    world = unordered(gate)

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


def test_block_of_an_expired_artifact_is_not_the_content_of_the_next_of_its_name() -> None:
    world = unordered()

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
