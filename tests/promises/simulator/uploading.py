"""Uploads to artifacts of a running task, and what happens in between."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shared.base.dates import format_date
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import decode
from shared.queue.artifacts.rules import Upload
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.blobs import StoredBlob
from tests.parts.twin.gate import Call, Phase, Resent, as_process, process_name
from tests.promises.simulator.artifact_scenarios import CONTENT, NAME, artifact, place
from tests.promises.simulator.situations import A
from tests.promises.simulator.test_artifact_deletions import HOUR
from tests.promises.simulator.world import World

PACKED = gzip.compress(CONTENT, mtime=0)


class Once:
    """A gate that lets `meanwhile` happen at the first request of `who` that `chosen` accepts."""

    def __init__(
        self, who: str, chosen: Callable[[Call], bool], phase: Phase = Phase.BEFORE, *, is_resent: bool = False
    ) -> None:
        self.who, self.chosen, self.phase, self.is_resent = who, chosen, phase, is_resent
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.was = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Lets everything else pass."""
        if self.was or self.meanwhile is None or phase is not self.phase:
            return
        if process_name() == self.who and self.chosen(call):
            self.was = True
            await as_process("other", self.meanwhile())
            if self.is_resent:
                raise Resent


def writes_blob(call: Call) -> bool:
    return call.kind is Kind.BLOB_WRITE


def writes_artifact(call: Call) -> bool:
    return call.kind is Kind.TABLE_WRITE and call.target == keys.TASKS and any("artifact~" in key for key in call.keys)


async def create(world: World, storage_type: str = "s3", name: str = NAME, **changes: object) -> None:
    await world.services.artifacts.creation.create_or_find(A, 0, artifact(world, storage_type, name, **changes))


async def announced(world: World) -> None:
    """A's run is running, and a direct URL was handed out, to which nothing was put."""
    await world.create(A, retries=0, expires=format_date(world.clock.now() + timedelta(days=60)))
    await world.claim()
    await create(world, upload=Upload.DIRECT, content_length=len(CONTENT), sent_length=len(CONTENT))


async def cancel(world: World) -> None:
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))


async def lapse(world: World) -> None:
    await world.clock.sleep(1200)


async def complete(world: World) -> None:
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def expire(world: World, hours: int) -> None:
    for _ in range(hours):
        await world.clock.sleep(HOUR)
        await world.handlers.expiration.run(300)


def stored(world: World) -> tuple[rules.Artifact, StoredBlob]:
    """Returns the row of the artifact, and its blob."""
    (row,) = [row for row in world.rows(keys.TASKS, A) if row.key == keys.artifact(0, NAME)]
    container, path = place(world)
    return decode(row), world.memory.blobs.blobs(container)[path]


def length_of(blob: StoredBlob) -> int:
    """Returns the bytes of a blob's content before its encoding."""
    return len(gzip.decompress(blob.content) if blob.content_encoding == "gzip" else blob.content)
