"""Artifacts (design 6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.domain.artifacts import Artifact, StorageType, Upload
from shared.ids import new_slugid
from shared.runtime import utc_now
from shared.storage.counting import Operations
from tests.azurite.budgets import Bench, budget


def artifact(storage_type: StorageType, **changes: Any) -> Artifact:
    return Artifact(
        name=f"public/{new_slugid()}",
        storage_type=storage_type,
        content_type="text/plain",
        expires=utc_now() + timedelta(days=1),
        **changes,
    )


@budget("createArtifact, s3, expiring with its task", "createArtifact")
async def create_artifact(bench: Bench) -> Operations:
    task_id = await bench.running(expires=timedelta(days=1, seconds=5))
    wanted = artifact(StorageType.S3, upload=Upload.DIRECT)
    return await bench.measure(bench.calls.artifacts.creation.create(task_id, 0, wanted))


@budget("createArtifact, reference", "createArtifact", "createArtifact … announced at once")
async def create_reference(bench: Bench) -> Operations:
    task_id = await bench.running(expires=timedelta(days=1, seconds=5))
    wanted = artifact(StorageType.REFERENCE, details={"url": "https://example.com"})
    return await bench.measure(bench.calls.artifacts.creation.create(task_id, 0, wanted))
