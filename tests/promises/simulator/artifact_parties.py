"""Calls on artifacts of A's run 0 that meet other calls and handlers. The situation decides which of them apply."""

from __future__ import annotations

from collections.abc import Sequence

from shared.app.services import Services
from shared.queue.artifacts.rules import Upload
from shared.queue.artifacts.uploads import BLOCK
from shared.store import keys
from tests.promises.simulator.artifact_scenarios import CONTENT, NAME, STATED, artifact, blob, place, reference
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import World

DIRECT = "public/direct.txt"
REFERENCE = "public/elsewhere.txt"


async def create_reference(world: World, services: Services) -> None:
    """Creates a `reference`: one transaction with the run's guard, and an event."""
    await services.artifacts.creation.create_or_find(A, 0, reference(world, "https://example.com/1", REFERENCE))


async def create_blob(world: World, services: Services) -> None:
    """Creates a `blob`: a commit of the task, whose run waits for it from then on."""
    await services.artifacts.creation.create_or_find(A, 0, blob(world))


async def complete_blob(world: World, services: Services) -> None:
    """Uploads a `blob` as a worker does, and calls completeArtifact: a commit of the task."""
    etag = "nothing was uploaded"
    if any(row.key == keys.artifact(0, NAME) for row in world.rows(keys.TASKS, A)):
        container, path = place(world)
        blobs = world.account.connect().blobs
        await blobs.upload(container, path, CONTENT, content_type="text/plain")
        found = await blobs.properties(container, path)
        etag = found.etag if found else etag
    await services.artifacts.creation.complete(A, 0, NAME, [etag])


async def create_and_complete_blob(world: World, services: Services) -> None:
    """Creates a `blob`, uploads it, and calls completeArtifact."""
    await create_blob(world, services)
    await complete_blob(world, services)


async def create_direct(world: World, services: Services) -> None:
    """Creates an `s3` artifact, and puts its content, which waits for the commit of its block list."""
    wanted = artifact(world, "s3", DIRECT, upload=Upload.DIRECT, **STATED)
    created = await services.artifacts.creation.create_or_find(A, 0, wanted)
    path = keys.path(A, 0, DIRECT, created.stored.artifact.version)
    await world.account.connect().blobs.put_block(keys.container(DIRECT), path, BLOCK, CONTENT)


async def read_direct(world: World, services: Services) -> None:
    """Calls getArtifact of that artifact: the first read commits its block list."""

    async def everybody(names: Sequence[str]) -> None:
        """Authorises everybody."""

    reading = services.artifacts.reading
    await reading.url(await reading.find(A, 0, DIRECT, everybody))


async def create_and_read_direct(world: World, services: Services) -> None:
    """Creates an `s3` artifact, puts its content, and calls getArtifact."""
    await create_direct(world, services)
    await read_direct(world, services)
