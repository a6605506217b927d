"""The life of artifacts on real tables and blobs, over days: committed, listed, gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.dates import format_date
from shared.base.errors import ResourceNotFound
from shared.base.ids import new_slugid
from shared.queue.artifacts.rows import ArtifactStore, Stored
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.artifacts.uploads import BLOCK
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved, Worker
from shared.runtime import Runtime, utc_now
from shared.store import keys
from shared.store.interface import Storage
from tests.parts.twin.gate import open_gate
from tests.promises.simulator.topics import Topics
from tests.promises.simulator.world import settings

POOL = "provisioner/pool"
HOUR = timedelta(hours=1)
NAMES = ["public/log", 'private/"a" b%20c/#?\\+*[.]', "x" * 1000, "~", " "]


class Days:
    """A deployment whose time can be moved on, with one running task."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.ahead = timedelta(0)
        self.services: Services = assemble(settings(), Runtime(now=self.now), storage, Topics(open_gate))
        self.task_id = new_slugid()
        self.expires = self.now() + 48 * HOUR

    def now(self) -> datetime:
        return utc_now() + self.ahead

    async def start(self) -> None:
        """Creates and claims the task."""
        body: dict[str, Any] = {
            "taskQueueId": POOL,
            "provisionerId": "provisioner",
            "workerType": "pool",
            "schedulerId": "-",
            "projectId": "none",
            "taskGroupId": self.task_id,
            "priority": "lowest",
            "dependencies": [],
            "requires": "all-completed",
            "routes": [],
            "scopes": [],
            "retries": 0,
            "created": format_date(self.now()),
            "deadline": format_date(self.now() + HOUR),
            "expires": format_date(self.expires),
            "payload": {},
            "tags": {},
            "extra": {},
            "metadata": {"name": "", "description": "", "owner": "", "source": "https://example.com"},
        }
        await self.services.create_task(Definition(task_id=self.task_id, body=body))
        await self.services.work.claim_work(POOL, Worker(worker_group="g", worker_id="w"), 1, 5)

    async def put(self, name: str, expires: datetime | None = None) -> None:
        """Creates an `s3` artifact, and puts its content straight into storage."""
        wanted = Artifact(
            name=name,
            storage_type=StorageType.S3,
            content_type="text/plain",
            expires=expires or self.expires,
            upload=Upload.DIRECT,
            content_length=1,
        )
        await self.services.artifacts.creation.create(self.task_id, 0, wanted)
        stored = await self.stored(name)
        await self.storage.blobs.put_block(stored.container, stored.path, BLOCK, b"x")

    async def stored(self, name: str) -> Stored:
        """Returns the artifact."""
        found = await ArtifactStore(self.storage).get(self.task_id, 0, name)
        assert found
        return found

    async def resolve(self) -> None:
        """Completes the run, and handles the message about it."""
        await self.services.lifecycle.report(self.task_id, 0, Resolved.COMPLETED)
        message = ResolvedBody(task_id=self.task_id, run_id=0, put=self.now())
        await self.services.resolution.resolved_due(message)

    async def names(self) -> list[str]:
        """Returns the names that the list has."""
        found, _ = await self.services.artifacts.reading.page(self.task_id, 0, start="", limit=1000)
        return [artifact.name for artifact in found]

    async def blobs(self) -> set[str]:
        """Returns every blob of an artifact, without the artifact's version."""
        found: set[str] = set()
        for container in (keys.PRIVATE, keys.PUBLIC):
            found |= {path.rpartition(".")[0] for path in await self.storage.blobs.list_paths(container, "")}
        return found

    async def expire(self, ahead: timedelta) -> None:
        """Runs the timer function after this time."""
        self.ahead = ahead
        await self.services.expiration.run(60)


@pytest.fixture
async def days(azure_storage: Storage) -> Days:
    days = Days(azure_storage)
    await days.start()
    return days


def paths(days: Days, names: Sequence[str]) -> set[str]:
    return {keys.path(days.task_id, 0, name).rpartition(".")[0] for name in names}


async def test_from_upload_to_expiry(days: Days) -> None:
    for name in NAMES:
        await days.put(name)
    assert await days.blobs() == set()
    await days.resolve()
    assert await days.blobs() == paths(days, NAMES)
    assert await days.names() == sorted(NAMES)
    _, waiting, _ = await days.services.stores.tasks.edges.page(days.task_id, limit=10)
    assert waiting == []
    await days.expire(47 * HOUR)
    assert await days.blobs() == paths(days, NAMES)
    await days.expire(51 * HOUR)
    assert await days.blobs() == set()
    with pytest.raises(ResourceNotFound):
        await days.names()
    left = await days.storage.tables.query(keys.TASKS, days.task_id, start="", end="\x7f")
    assert left.rows == []


async def test_what_is_uploaded_after_an_exception_is_committed_by_the_expiry_job(days: Days) -> None:
    await days.services.lifecycle.report_exception(days.task_id, 0, Resolved.MALFORMED_PAYLOAD)
    await days.put("public/log")
    assert await days.blobs() == set()
    await days.expire(4 * HOUR)
    assert await days.blobs() == paths(days, ["public/log"])
