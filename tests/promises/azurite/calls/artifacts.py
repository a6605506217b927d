"""Scenarios that measure calls on artifacts (design 6)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shared.base.ids import new_slugid
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.store.counting import Operations
from tests.promises.azurite.budgets import Bench, budget


def artifact(storage_type: StorageType, expires: datetime, **changes: Any) -> Artifact:
    """Returns an artifact that expires with its task: an earlier one would cost a request more."""
    return Artifact(
        name=f"public/{new_slugid()}",
        storage_type=storage_type,
        content_type="text/plain",
        expires=expires,
        **changes,
    )


@budget("createArtifact, s3, expiring with its task", "createArtifact")
async def create_artifact(bench: Bench) -> Operations:
    task_id = await bench.running()
    task = await bench.calls.lifecycle.status(task_id)
    wanted = artifact(StorageType.S3, task.expires, upload=Upload.DIRECT)
    return await bench.measure(bench.calls.artifacts.creation.create_or_find(task_id, 0, wanted))


@budget("createArtifact, reference", "createArtifact", "createArtifact … announced at once")
async def create_reference(bench: Bench) -> Operations:
    task_id = await bench.running()
    task = await bench.calls.lifecycle.status(task_id)
    wanted = artifact(StorageType.REFERENCE, task.expires, details={"url": "https://example.com"})
    return await bench.measure(bench.calls.artifacts.creation.create_or_find(task_id, 0, wanted))
