"""Every call on artifacts, and every job that commits or deletes them, for the crash suite."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shared.app.services import Services
from shared.base.ids import digest_of
from shared.queue.artifacts.rows import Stored, decode
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.artifacts.uploads import BLOCK
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from tests.promises.simulator.scenarios import Scenario
from tests.promises.simulator.situations import A, Step, running, running_without_retries
from tests.promises.simulator.world import World

ARTIFACT_SCENARIOS: list[Scenario] = []
NAME = "public/logs/live.log"
OTHER = 'private/"other" 100%.txt'
CONTENT = b"what the worker has written"
STATED = {"content_length": len(CONTENT), "sent_length": len(CONTENT)}
"""The lengths that a client states of content that it PUTs straight into storage."""


def _scenario(prepare: Step, effect: Callable[[World], bool] | None = None) -> Callable[[Step], Step]:
    def register(act: Step) -> Step:
        ARTIFACT_SCENARIOS.append(Scenario(act.__name__, prepare, act, is_idempotent=True, effect=effect))
        return act

    return register


def artifact(world: World, storage_type: str, name: str = NAME, **changes: Any) -> Artifact:
    """Returns an artifact that may be created now; it expires with A, if A is there."""
    task = world.tasks().get(A)
    fields: dict[str, Any] = {
        "name": name,
        "storage_type": StorageType(storage_type),
        "content_type": "text/plain",
        "expires": task.expires if task else world.clock.now() + timedelta(hours=1),
    }
    return Artifact(**{**fields, **changes})


def place(world: World, name: str = NAME, run_id: int = 0) -> tuple[str, str]:
    """Returns container and path of an artifact's content, as its row says."""
    (row,) = [row for row in world.rows(keys.TASKS, A) if row.key == keys.artifact(run_id, name)]
    return keys.container(name), keys.path(A, run_id, name, decode(row).version)


async def put(world: World, name: str, run_id: int = 0, content: bytes = CONTENT) -> None:
    """Puts content to a direct URL, as a worker's bare PUT does."""
    await world.account.connect().blobs.put_block(*place(world, name, run_id), BLOCK, content)


async def relay(
    world: World,
    content: bytes = CONTENT,
    encoding: str = "",
    *,
    task_id: str = A,
    name: str = NAME,
    services: Services | None = None,
) -> None:
    """Puts content to the relay URL that a worker was given for the artifact as it is now."""
    await relay_to(services or world.services, relay_url(world, task_id, name), content, encoding)


def relay_url(world: World, task_id: str = A, name: str = NAME) -> str:
    """Returns the URL that createArtifact returns for the artifact as it is now."""
    (row,) = [row for row in world.rows(keys.TASKS, task_id) if row.key == keys.artifact(0, name)]
    until = world.clock.now() + timedelta(minutes=45)
    stored = Stored(task_id=task_id, run_id=0, artifact=decode(row), etag=row.etag)
    return world.services.artifacts.urls.url(stored, until)


async def relay_to(services: Services, url: str, content: bytes = CONTENT, encoding: str = "") -> None:
    """Puts content to a relay URL."""
    parts = urlsplit(url)
    task_id, run_id, name = parts.path.rsplit("/", 3)[1:]
    params = {"taskId": task_id, "runId": run_id, "name": name}
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    await services.artifacts.urls.accept(params, query, content, encoding)


async def direct(world: World, *names: str, content: bytes = CONTENT, **changes: Any) -> None:
    """Creates `s3` artifacts whose content is PUT straight into storage, and puts it there."""
    for name in names:
        wanted = artifact(world, "s3", name, upload=Upload.DIRECT, **{**STATED, **changes})
        await world.services.artifacts.creation.create_or_find(A, 0, wanted)
        await put(world, name, content=content)


async def uploaded(world: World) -> None:
    """A is running, and two artifacts of it wait for their commit."""
    await running(world)
    await direct(world, NAME, OTHER)


async def referred(world: World) -> None:
    """A is running, and has a `reference`."""
    await running(world)
    await world.services.artifacts.creation.create_or_find(A, 0, reference(world, "https://example.com/1"))


def reference(world: World, url: str, name: str = NAME) -> Artifact:
    return artifact(world, "reference", name, details={"url": url})


async def relayed(world: World) -> None:
    """A is running, and the service waits for the content of an artifact."""
    await running(world)
    await world.services.artifacts.creation.create_or_find(A, 0, artifact(world, "s3", upload=Upload.RELAY))


async def ended(world: World) -> None:
    """A has just ended as an exception, and will not be retried."""
    await running_without_retries(world)
    await world.services.lifecycle.report_exception(A, 0, Resolved.MALFORMED_PAYLOAD)
    await world.drain(30)


def blob(world: World) -> Artifact:
    details = {"contentSha256": "0" * 64, "contentLength": len(CONTENT)}
    return artifact(world, "blob", upload=Upload.CLIENT, content_length=len(CONTENT), details=details)


async def blob_uploaded(world: World) -> None:
    """A is running; the content of a `blob` is there, and not reported."""
    await running(world)
    await world.services.artifacts.creation.create_or_find(A, 0, blob(world))
    await upload_blob(world)


async def upload_blob(world: World) -> None:
    """Uploads a `blob` as a client does by itself."""
    await world.account.connect().blobs.upload(*place(world), CONTENT, content_type="text/plain")


async def object_uploaded(world: World) -> None:
    """A is running; the upload of an `object` is finished, and the artifact is not."""
    await running(world)
    wanted = artifact(world, "object", upload=Upload.CLIENT, details={"uploadId": A})
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)
    stored = await world.services.artifacts.objects.existing(f"t/{A}/0/{NAME}")
    await world.services.artifacts.objects.put_inline(stored, CONTENT, {})
    stored = await world.services.artifacts.objects.existing(f"t/{A}/0/{NAME}")
    await world.services.artifacts.objects.finish(stored, {"sha256": "0" * 64})


async def object_begun(world: World) -> None:
    """A is running, and has begun to upload an `object`: some data is there."""
    await running(world)
    wanted = artifact(world, "object", upload=Upload.CLIENT, details={"uploadId": A})
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)
    await put_object(world)


async def resolved_with_uploads(world: World) -> None:
    """A was completed, and its uploads were not looked at yet."""
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
    """Creates an artifact whose content goes straight into storage."""
    await direct(world, NAME)


@_scenario(running)
async def create_that_expires_early(world: World) -> None:
    """Creates an artifact that expires before its task does."""
    (task,) = world.tasks().values()
    await direct(world, OTHER, expires=task.expires - timedelta(hours=5))


@_scenario(ended)
async def create_after_exception(world: World) -> None:
    """Creates an artifact after its run ended as an exception, so that no resolution will commit it."""
    await direct(world, NAME)


@_scenario(running)
async def create_reference(world: World) -> None:
    """Creates a `reference`, which is announced."""
    await world.services.artifacts.creation.create_or_find(A, 0, reference(world, "https://example.com/1"))


@_scenario(referred)
async def change_reference(world: World) -> None:
    """Changes the URL of a `reference`."""
    await world.services.artifacts.creation.create_or_find(A, 0, reference(world, "https://example.com/2"))


@_scenario(relayed)
async def put_to_relay(world: World) -> None:
    """Puts content that comes through the service."""
    await relay(world, encoding="gzip")


@_scenario(running, lambda world: world.tasks()[A].runs[0].unfinished == (digest_of(NAME),))
async def begin_blob(world: World) -> None:
    """Creates a `blob`, which the run then has to wait for."""
    await world.services.artifacts.creation.create_or_find(A, 0, blob(world))


@_scenario(blob_uploaded, lambda world: world.tasks()[A].runs[0].unfinished == ())
async def complete_blob(world: World) -> None:
    """Completes a `blob`, after which the run can be completed."""
    container, path = place(world)
    stored = world.account.committed(container)[path]
    await world.services.artifacts.creation.complete(A, 0, NAME, [stored.etag])


@_scenario(object_begun, lambda world: len(world.account.committed(keys.PUBLIC)) <= 2)
async def put_object(world: World) -> None:
    """Sends the data of an `object` again, which replaces the older data."""
    objects = world.services.artifacts.objects
    await objects.put_inline(await objects.existing(f"t/{A}/0/{NAME}"), CONTENT, {})


@_scenario(object_uploaded)
async def finish_object(world: World) -> None:
    """Finishes an `object`, after which it can be read."""
    await world.services.artifacts.creation.finish(A, 0, NAME, A)


@_scenario(uploaded)
async def read(world: World) -> None:
    """Reads an artifact, which commits it."""

    async def everybody(names: object) -> None:
        assert names

    stored = await world.services.artifacts.reading.find(A, 0, NAME, everybody)
    assert await world.services.artifacts.reading.url(stored)


@_scenario(resolved_with_uploads)
async def resolve_with_uploads(world: World) -> None:
    """Handles the resolution, which commits all uploads."""
    for body, _ in world.messages(RESOLVED_QUEUE):
        await world.resolved_due_here(body)


@_scenario(expiring)
async def expire_artifacts(world: World) -> None:
    """Runs the expiry job, which deletes rows and blobs of artifacts together."""
    await world.services.expiration.run(600)


@_scenario(about_to_expire)
async def expire_task(world: World) -> None:
    """Runs the expiry job, which deletes a task with everything that belongs to it."""
    await world.services.expiration.run(600)
