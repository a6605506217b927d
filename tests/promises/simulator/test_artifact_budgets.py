"""What calls on artifacts cost, in requests and in round trips, when nothing is in their way (design 6)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from shared.queue.artifacts.rules import Upload
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store.counting import Kind, Operations, counting
from tests.parts.twin.driver import Simulation
from tests.promises.azurite.budget_table import ONE_READ, figures
from tests.promises.simulator import artifact_scenarios as scenes
from tests.promises.simulator.artifact_scenarios import NAME, artifact, direct, read, reference, upload_blob
from tests.promises.simulator.situations import A, running
from tests.promises.simulator.uploading import PACKED
from tests.promises.simulator.world import World

Step = Callable[[World], Coroutine[Any, Any, Any]]
RELAY_PUT = figures("relay PUT, the first, to the creating process")
RELAY_PUT_AGAIN = figures("relay PUT, another one")
READ = figures(ONE_READ)
FIRST_READ = figures("getArtifact, the first after a direct PUT")
FIRST_READ_OF_GZIP = figures("getArtifact … of gzip")
EARLY = figures("createArtifact … that expires in an earlier hour than its task")


def cost(prepare: Step, act: Step) -> Operations:
    """Returns the requests of one call in a warm process."""
    world = World(Simulation.rounds())
    found: list[Operations] = []

    async def story() -> None:
        await prepare(world)
        with counting() as operations:
            await act(world)
        found.append(operations)

    world.run(story())
    return found[0]


async def create(world: World, storage_type: str = "s3", **changes: Any) -> None:
    await world.services.artifacts.creation.create_or_find(A, 0, artifact(world, storage_type, **changes))


async def create_direct(world: World) -> None:
    await create(world, upload=Upload.DIRECT, content_length=4)


async def create_relayed(world: World) -> None:
    await create(world, upload=Upload.RELAY)


async def create_reference(world: World) -> None:
    await world.services.artifacts.creation.create_or_find(A, 0, reference(world, "https://example.com/1"))


async def create_error(world: World) -> None:
    await create(world, "error", details={"reason": "file-missing-on-worker", "message": "m"})


async def create_early(world: World) -> None:
    await create(world, upload=Upload.RELAY, expires=artifact(world, "s3").expires - timedelta(hours=5))


async def create_blob(world: World) -> None:
    await world.services.artifacts.creation.create_or_find(A, 0, scenes.blob(world))


async def created(world: World) -> None:
    await running(world)
    await create_relayed(world)


async def put_to_another_process(world: World) -> None:
    await scenes.relay_to(world.process(), scenes.relay_url(world))


async def settled(world: World) -> None:
    """Makes the situation in which both artifacts have been read."""
    await scenes.uploaded(world)
    await read(world)


async def encoded(world: World) -> None:
    """Makes the situation in which a worker has encoded what it put straight into storage."""
    await running(world)
    await direct(world, NAME, content=PACKED)


async def uploaded_as_gzip(world: World) -> None:
    """Makes the situation in which a worker has put gzip straight into storage, as it was."""
    await running(world)
    await direct(world, NAME, content=PACKED, content_length=len(PACKED), sent_length=len(PACKED))


async def read_latest(world: World) -> None:
    async def everybody(names: object) -> None:
        assert names

    stored = await world.services.artifacts.reading.find_latest(A, NAME, everybody)
    await world.services.artifacts.reading.url(stored)


async def info(world: World) -> None:
    await world.services.artifacts.reading.info(A, 0, NAME)


async def listing(world: World) -> None:
    await world.services.artifacts.reading.artifact_page(A, 0, start="", limit=1000)


@pytest.mark.parametrize(
    ("prepare", "act", "most", "depth"),
    [
        (running, create_direct, 1, 1),
        (running, create_relayed, 1, 1),
        (running, create_reference, 2, 1),
        (running, create_error, 2, 1),
        (running, create_early, EARLY.operations, EARLY.depth),
        (created, create_relayed, 3, 3),
        (scenes.ended, create_relayed, 3, 3),
        (running, create_blob, 3, 2),
        (scenes.relayed, scenes.put_to_relay, RELAY_PUT.operations, RELAY_PUT.depth),
        (scenes.relayed, put_to_another_process, RELAY_PUT_AGAIN.operations, RELAY_PUT_AGAIN.depth),
        (scenes.blob_uploaded, scenes.complete_blob, 4, 3),
        (scenes.object_uploaded, scenes.finish_object, 3, 2),
        (scenes.uploaded, read, FIRST_READ.operations, FIRST_READ.depth),
        (uploaded_as_gzip, read, FIRST_READ_OF_GZIP.operations, FIRST_READ_OF_GZIP.depth),
        (encoded, read, FIRST_READ_OF_GZIP.operations, FIRST_READ_OF_GZIP.depth),
        (settled, read, READ.operations, READ.depth),
        (settled, read_latest, 2, 1),
        (settled, info, 1, 1),
        (settled, listing, 2, 1),
    ],
)
def test_what_a_call_costs(prepare: Step, act: Step, most: int, depth: int) -> None:
    operations = cost(prepare, act)
    assert (operations.total <= most, operations.depth <= depth) == (True, True), operations.requests


def resolution(*names: str) -> Operations:
    """Returns what the message of a resolution costs, with these uploads."""

    async def prepare(world: World) -> None:
        await running(world)
        await direct(world, *names)
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        await world.clock.sleep(2)

    async def act(world: World) -> None:
        (body,) = [body for body, _ in world.messages(RESOLVED_QUEUE)]
        await world.resolved_due_here(body)

    return cost(prepare, act)


def test_a_resolution_without_uploads_pays_nothing_for_them() -> None:
    assert Kind.BLOB_WRITE not in resolution().counts


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_resolution_commits_each_upload_with_one_request_and_notes_all_with_one(count: int) -> None:
    without, operations = resolution(), resolution(*(f"public/{number}" for number in range(count)))
    assert operations.counts[Kind.BLOB_WRITE] == count
    assert operations.total == without.total + count + 1
    assert operations.counts[Kind.TABLE_READ] == without.counts[Kind.TABLE_READ]
    if count <= 2:
        assert operations.depth <= without.depth


def test_what_was_read_first_is_committed_again() -> None:
    """The last PUT before the resolution is committed, even if somebody has read an earlier one."""
    world = World()

    async def story() -> None:
        await settled(world)
        await scenes.put(world, NAME, content=b"the last")
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        await world.drain(30)

    world.run(story())
    container, path = scenes.place(world)
    assert world.memory.blobs.blobs(container)[path].content == b"the last"


def test_what_the_client_writes_itself_is_looked_at_once() -> None:
    """A blob that the client writes itself is examined once; later reads trust the row."""
    world = World()

    async def story() -> None:
        await running(world)
        await create(world, "azure", upload=Upload.CLIENT)
        await upload_blob(world)
        await read(world)
        with counting() as operations:
            await read(world)
        assert operations.counts == {Kind.TABLE_READ: 1}

    world.run(story())
