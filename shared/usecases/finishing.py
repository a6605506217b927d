"""Calls that finish an upload: completeArtifact for `blob`, finishArtifact for `object` (contract 7.2, 7.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shared.concurrency import both
from shared.domain import artifacts as rules
from shared.domain.artifacts import Artifact, StorageType, as_header, disposition
from shared.domain.task import State, Task
from shared.errors import InputError, ResourceNotFound, ServiceUnavailable
from shared.storage.artifacts import ArtifactStore, Stored, operations_for
from shared.storage.interface import Blobs
from shared.storage.tasks import CommitLost, Loaded
from shared.usecases.artifacts import Artifacts
from shared.usecases.executor import TRIES, Stores


class Finishing:
    """Makes artifacts present whose upload is over, and announces them; again on repeats."""

    def __init__(self, stores: Stores, store: ArtifactStore, blobs: Blobs, artifacts: Artifacts) -> None:
        self._stores = stores
        self._store = store
        self._blobs = blobs
        self._artifacts = artifacts

    async def complete(self, task_id: str, run_id: int, name: str, etags: Sequence[str]) -> None:
        """completeArtifact. Raises ResourceNotFound, InputError, RequestConflict, ServiceUnavailable."""
        loaded, stored = await self._read(task_id, run_id, name)
        if stored.artifact.storage_type is not StorageType.BLOB:
            raise InputError("the artifact is not a `blob`")
        if not stored.artifact.is_present:
            rules.check_run_takes_artifacts(loaded.task.runs[run_id], self._stores.runtime.now())
            length = await self._assemble(stored, etags)
            try:
                await self._make_present(loaded, stored, lambda artifact: replace(artifact, length=length))
            except (ResourceNotFound, ServiceUnavailable):
                # If it has expired meanwhile, nobody would delete what has just been assembled.
                if await self._store.get(task_id, run_id, name) is None:
                    await self._blobs.delete(stored.container, stored.path)
                raise
        await self._artifacts.announce(loaded, run_id, stored.artifact)

    async def finish(self, task_id: str, run_id: int, name: str, upload_id: str) -> None:
        """finishArtifact. Raises ResourceNotFound, InputError, ServiceUnavailable."""
        loaded, stored = await self._read(task_id, run_id, name)
        artifact = stored.artifact
        if artifact.storage_type is not StorageType.OBJECT:
            raise InputError("the artifact is not an `object`")
        if not artifact.is_present:
            if artifact.details["uploadId"] != upload_id:
                raise InputError("`uploadId` is not the one of this artifact's upload")
            if not artifact.details.get("isFinished"):
                raise InputError("the object's upload is not finished")
            await self._make_present(loaded, stored, _without_upload_id)
        await self._artifacts.announce(loaded, run_id, artifact)

    async def _read(self, task_id: str, run_id: int, name: str) -> tuple[Loaded, Stored]:
        loaded, stored = await both(self._stores.tasks.load(task_id), self._store.get(task_id, run_id, name))
        if loaded is None or stored is None or run_id > loaded.task.last_run_id:
            raise ResourceNotFound(f"run {run_id} of task {task_id} has no artifact {name}")
        return loaded, stored

    async def _assemble(self, stored: Stored, etags: Sequence[str]) -> int:
        """The blob as it was announced: its parts put together, or the whole one. Answers its length."""
        artifact, details = stored.artifact, stored.artifact.details
        parts = int(details.get("partCount", 0))
        if len(etags) != max(parts, 1):
            raise InputError(f"{len(etags)} `etags` are given for {max(parts, 1)} uploads")
        if parts:
            blocks = [rules.part_id(number) for number in range(parts)]
            if not await self._blobs.commit_blocks(
                stored.container,
                stored.path,
                blocks,
                content_type=as_header(artifact.content_type, rules.OPAQUE),
                content_encoding=as_header(artifact.encoding, ""),
                content_disposition=disposition(artifact.name),
            ):
                raise InputError("not every part has been uploaded")
        found = await self._blobs.properties(stored.container, stored.path)
        if found is None:
            raise InputError("nothing has been uploaded")
        if not parts and etags[0].strip('"') != found.etag.strip('"'):
            raise InputError("what was uploaded has another ETag")
        expected = details.get("transferLength", details["contentLength"])
        if found.length != expected:
            raise InputError(f"{found.length} bytes have been uploaded, not {expected}")
        if found.content_encoding != as_header(artifact.encoding, ""):  # its client was told to set it, and did not
            await self._blobs.set_headers(
                stored.container,
                stored.path,
                content_type=as_header(artifact.content_type, rules.OPAQUE),
                content_encoding=as_header(artifact.encoding, ""),
                content_disposition=disposition(artifact.name),
                etag=found.etag,
            )
        return found.length

    async def _make_present(self, loaded: Loaded, stored: Stored, change: Callable[[Artifact], Artifact]) -> None:
        """The artifact is there, and its run no longer waits for it, in one commit."""
        run_id, name = stored.run_id, stored.artifact.name
        for _ in range(TRIES):
            artifact = replace(change(stored.artifact), is_present=True, is_settled=True)
            operations = operations_for(run_id, artifact, self._stores.runtime.now(), old=stored)
            try:
                await self._stores.tasks.commit(loaded, without_unfinished(loaded.task, run_id, name), operations)
            except CommitLost:
                loaded, stored = await self._read(stored.task_id, run_id, name)
                if stored.artifact.is_present:
                    return
            else:
                return
        raise ServiceUnavailable("the task is contended; send the call again")


def without_unfinished(task: Task, run_id: int, name: str) -> Task:
    """The task once a run of it no longer waits for a `blob`; a run that is resolved does not change any more."""
    run = task.runs[run_id]
    if run.state is not State.RUNNING:
        return task
    digest = rules.digest(name)
    return task.with_run(run_id, replace(run, unfinished=tuple(each for each in run.unfinished if each != digest)))


def _without_upload_id(artifact: Artifact) -> Artifact:
    return replace(artifact, details={key: value for key, value in artifact.details.items() if key != "uploadId"})
