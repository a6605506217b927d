"""Every call on artifacts, and every job that commits or deletes them, for the crash suite."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from shared.domain.artifacts import Artifact, StorageType, Upload, as_header, digest
from shared.domain.task import Resolved
from shared.storage import artifact_keys
from shared.storage.messages import RESOLVED_QUEUE
from shared.usecases.uploads import BLOCK
from tests.simulator.scenarios import A, Scenario, Step, running, running_without_retries
from tests.simulator.world import World

ARTIFACT_SCENARIOS: list[Scenario] = []
NAME = "public/logs/live.log"
OTHER = 'private/"other" 100%.txt'
CONTENT = b"what the worker has written"


def _scenario(prepare: Step) -> Callable[[Step], Step]:
    def register(act: Step) -> Step:
        ARTIFACT_SCENARIOS.append(Scenario(act.__name__, prepare, act, is_idempotent=True))
        return act

    return register


def artifact(world: World, storage_type: str, name: str = NAME, **changes: Any) -> Artifact:
    """An artifact that may be created now; it expires with the tasks of this world."""
    (task,) = [task for task in world.tasks().values() if task.task_id == A]
    fields: dict[str, Any] = {
        "name": name,
        "storage_type": StorageType(storage_type),
        "content_type": "text/plain",
        "expires": task.expires,
    }
    return Artifact(**{**fields, **changes})


async def put(world: World, name: str, run_id: int = 0) -> None:
    """A worker's bare PUT to a direct URL."""
    path = artifact_keys.path(A, run_id, name)
    await world.account.connect().blobs.put_block(artifact_keys.container(name), path, BLOCK, CONTENT)


async def direct(world: World, *names: str, **changes: Any) -> None:
    """Creates `s3` artifacts whose content is PUT straight into storage, and puts it there."""
    for name in names:
        wanted = artifact(world, "s3", name, upload=Upload.DIRECT, content_length=len(CONTENT), **changes)
        await world.services.artifacts.creation.create(A, 0, wanted)
        await put(world, name)


async def uploaded(world: World) -> None:
    """A is running, and two artifacts of it wait for their commit."""
    await running(world)
    await direct(world, NAME, OTHER)


async def referred(world: World) -> None:
    """A is running, and has a `reference`."""
    await running(world)
    await world.services.artifacts.creation.create(A, 0, reference(world, "https://example.com/1"))


def reference(world: World, url: str) -> Artifact:
    return artifact(world, "reference", details={"url": url})


async def relayed(world: World) -> None:
    """A is running, and the service waits for the content of an artifact."""
    await running(world)
    await world.services.artifacts.creation.create(A, 0, artifact(world, "s3", upload=Upload.RELAY))


async def ended(world: World) -> None:
    """A has just ended as an exception, and will not be retried."""
    await running_without_retries(world)
    await world.services.lifecycle.report_exception(A, 0, Resolved.MALFORMED_PAYLOAD)
    await world.drain(30)


def blob(world: World) -> Artifact:
    details = {"contentSha256": "0" * 64, "contentLength": len(CONTENT)}
    return artifact(world, "blob", upload=Upload.CLIENT, content_length=len(CONTENT), details=details)


async def blob_uploaded(world: World) -> None:
    """A is running; the content of a `blob` is there, and nobody has said so."""
    await running(world)
    await world.services.artifacts.creation.create(A, 0, blob(world))
    await upload_blob(world)


async def upload_blob(world: World) -> None:
    """A client's own upload."""
    path = artifact_keys.path(A, 0, NAME)
    await world.account.connect().blobs.upload(artifact_keys.container(NAME), path, CONTENT, content_type="text/plain")


async def object_uploaded(world: World) -> None:
    """A is running; the upload of an `object` is finished, and the artifact is not."""
    await running(world)
    wanted = artifact(world, "object", upload=Upload.CLIENT, details={"uploadId": A})
    await world.services.artifacts.creation.create(A, 0, wanted)
    stored = await world.services.artifacts.objects.known(f"t/{A}/0/{NAME}")
    await world.services.artifacts.objects.put_inline(stored, CONTENT)
    await world.services.artifacts.objects.finish(stored, {"sha256": "0" * 64})


async def resolved_with_uploads(world: World) -> None:
    """A was completed, and nobody has looked at its uploads yet."""
    await uploaded(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.clock.sleep(2)


async def expiring(world: World) -> None:
    """A's artifacts have expired, A itself has not: one that was read, one that still waits for its commit."""
    await running(world)
    await direct(world, NAME, OTHER, expires=world.clock.now() + timedelta(minutes=5))
    await read(world)
    await world.clock.sleep(timedelta(hours=2).total_seconds())


async def about_to_expire(world: World) -> None:
    """A has expired, after a life in which its uploads were committed."""
    await uploaded(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(30)
    await world.clock.sleep(timedelta(hours=46).total_seconds())
    await world.handlers.expiration.run(600)
    await world.clock.sleep(timedelta(hours=4).total_seconds())


@_scenario(running)
async def create_direct(world: World) -> None:
    """The content goes straight into storage."""
    await direct(world, NAME)


@_scenario(running)
async def create_that_expires_early(world: World) -> None:
    """Before its task does."""
    (task,) = world.tasks().values()
    await direct(world, OTHER, expires=task.expires - timedelta(hours=5))


@_scenario(ended)
async def create_after_exception(world: World) -> None:
    """No resolution will commit it."""
    await direct(world, NAME)


@_scenario(running)
async def create_reference(world: World) -> None:
    """It is announced."""
    await world.services.artifacts.creation.create(A, 0, reference(world, "https://example.com/1"))


@_scenario(referred)
async def change_reference(world: World) -> None:
    """To another URL."""
    await world.services.artifacts.creation.create(A, 0, reference(world, "https://example.com/2"))


@_scenario(relayed)
async def put_to_relay(world: World) -> None:
    """The content comes through the service."""
    await world.services.artifacts.uploads.write(A, 0, NAME, CONTENT, "text/plain", as_header("gzip", ""))


@_scenario(running)
async def begin_blob(world: World) -> None:
    """The run has to wait for it."""
    await world.services.artifacts.creation.create(A, 0, blob(world))
    (task,) = world.tasks().values()
    assert task.runs[0].unfinished == (digest(NAME),)


@_scenario(blob_uploaded)
async def complete_blob(world: World) -> None:
    """From now on the run can be completed."""
    stored = world.account.committed(artifact_keys.PUBLIC)[artifact_keys.path(A, 0, NAME)]
    await world.services.artifacts.finishing.complete(A, 0, NAME, [stored.etag])
    (task,) = world.tasks().values()
    assert task.runs[0].unfinished == ()


@_scenario(object_uploaded)
async def finish_object(world: World) -> None:
    """From now on it can be read."""
    await world.services.artifacts.finishing.finish(A, 0, NAME, A)


@_scenario(uploaded)
async def read(world: World) -> None:
    """The first read commits."""

    async def everybody(names: object) -> None:
        assert names

    stored = await world.services.artifacts.reading.find(A, 0, NAME, everybody)
    assert await world.services.artifacts.reading.url(stored)


@_scenario(resolved_with_uploads)
async def resolve_with_uploads(world: World) -> None:
    """The resolution commits all of them."""
    for body, _ in world.messages(RESOLVED_QUEUE):
        await world.resolved_due_here(body)


@_scenario(expiring)
async def expire_artifacts(world: World) -> None:
    """Rows and blobs go together."""
    await world.services.expiration.run(600)


@_scenario(about_to_expire)
async def expire_task(world: World) -> None:
    """With everything that is its own."""
    await world.services.expiration.run(600)
