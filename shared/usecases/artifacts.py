"""createArtifact (contract 7.1 to 7.3, 7.5). Types that are finished by a call of their own are in `finishing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.concurrency import both
from shared.domain import announcements
from shared.domain import artifacts as rules
from shared.domain.artifacts import ANNOUNCED_AT_ONCE, Artifact, StorageType, Upload
from shared.domain.definition import Definition
from shared.domain.task import State
from shared.errors import ApiError, InputError, ServiceUnavailable
from shared.storage import keys
from shared.storage.artifacts import ArtifactChanged, ArtifactStore, RunInactive, operations_for
from shared.storage.expiry import KEPT, ExpiryStore, Filed
from shared.storage.tasks import CommitLost, Loaded
from shared.usecases.executor import FIRST_WAIT, TRIES, Stores

_NEEDS_TASK = ANNOUNCED_AT_ONCE | {StorageType.OBJECT}
"""Types whose answer or event tells of the task."""
_UPLOAD_LIFE: Mapping[StorageType, timedelta] = {
    StorageType.BLOB: timedelta(minutes=15),
    StorageType.AZURE: timedelta(minutes=30),
}
"""Life of upload URLs where it is not a setting (contract 7.2)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Created:
    """An artifact as it is stored now, and until when its content may be uploaded."""

    artifact: Artifact
    upload_until: datetime
    """In whole seconds."""
    loaded: Loaded | None
    """The task, where the type's answer tells of it."""


class Artifacts:
    """Creates artifacts. The normal case is one write: the row, on condition that the run is running."""

    def __init__(self, stores: Stores, artifacts: ArtifactStore, expiry: ExpiryStore, put: timedelta) -> None:
        """`put` is the life of upload URLs."""
        self._stores = stores
        self._artifacts = artifacts
        self._expiry = expiry
        self._put = put
        self._runtime = stores.runtime

    async def create(self, task_id: str, run_id: int, wanted: Artifact) -> Created:
        """Creates the artifact, or finds it created alike (contract 7.1, 7.3).

        Raises InputError, RequestConflict, ServiceUnavailable, StorageUnavailable.
        """
        now = self._runtime.now()
        rules.check_expires(wanted.expires, now)
        rules.check_stored(wanted)
        if run_id > rules.MAX_RUN:
            raise InputError(f"task {task_id} has no run {run_id}")
        definition = await self._stores.tasks.definition(task_id)
        if definition is None:
            raise InputError(f"there is no task {task_id}")
        rules.check_within_task(wanted.expires, definition.expires)
        if wanted.storage_type is StorageType.OBJECT:
            wanted = replace(wanted, details={**wanted.details, "projectId": definition.project_id})
        # Nothing may come after the job that deletes the expired artifact.
        until = min(now + _UPLOAD_LIFE.get(wanted.storage_type, self._put), wanted.expires + KEPT)
        filed = await self._file(definition, run_id, wanted, until)
        try:
            artifact, loaded = await self._commit(task_id, run_id, wanted, until)
        except ApiError:
            if filed is not None:
                await self._expiry.take_back(filed)
            raise
        if loaded is not None and artifact.storage_type in ANNOUNCED_AT_ONCE:
            await self.announce(loaded, run_id, artifact)
        return Created(artifact=artifact, upload_until=until.replace(microsecond=0), loaded=loaded)

    async def announce(self, loaded: Loaded, run_id: int, artifact: Artifact) -> None:
        """artifactCreated."""
        event = announcements.artifact_created(loaded.task, run_id, artifact)
        await self._stores.announcer.announce((event,), loaded)

    async def _file(self, definition: Definition, run_id: int, wanted: Artifact, until: datetime) -> Filed | None:
        """What the expiry job has to know is written ahead; the task's own row covers what expires with it."""
        filed = None
        if keys.hour(wanted.expires) < keys.hour(definition.expires):
            filed = await self._expiry.new_artifact(definition.task_id, run_id, wanted.name, wanted.expires)
        if wanted.upload is Upload.DIRECT and rules.outlives_blocks(definition.deadline, self._runtime.now()):
            await self._expiry.upload(definition.task_id, run_id, wanted.name, until)
        return filed

    async def _commit(
        self, task_id: str, run_id: int, wanted: Artifact, until: datetime
    ) -> tuple[Artifact, Loaded | None]:
        if wanted.storage_type is StorageType.BLOB:
            return await self._begin_blob(task_id, run_id, wanted), None
        if wanted.storage_type not in _NEEDS_TASK:
            return await self._write(task_id, run_id, wanted, until), None
        return await both(self._write(task_id, run_id, wanted, until), self._stores.tasks.load(task_id))

    async def _write(self, task_id: str, run_id: int, wanted: Artifact, until: datetime) -> Artifact:
        """Writes first, and reads only when that is refused."""
        guarded, etag, artifact = True, None, wanted
        for attempt in range(TRIES):
            try:
                await self._artifacts.write(task_id, run_id, artifact, etag=etag, guarded=guarded)
            except RunInactive:
                guarded = await self._is_running(task_id, run_id)
                if not guarded and wanted.upload is Upload.DIRECT:
                    await self._expiry.upload(task_id, run_id, wanted.name, until)
            except ArtifactChanged:
                artifact, etag = await self._merged(task_id, run_id, wanted)
                if attempt:
                    await self._wait(attempt)
            else:
                return artifact
        raise ServiceUnavailable("the artifact is contended; send the call again")

    async def _begin_blob(self, task_id: str, run_id: int, wanted: Artifact) -> Artifact:
        """A `blob` artifact that is not complete keeps its run from being reported completed: the run has to know."""
        for attempt in range(TRIES):
            loaded = await self._stores.tasks.load(task_id)
            run = rules.known_run(loaded.task if loaded else None, run_id)
            assert loaded is not None, "a known run is a known task's"
            rules.check_run_takes_artifacts(run, self._runtime.now())
            artifact, etag = await self._merged(task_id, run_id, wanted)
            digest = rules.digest(wanted.name)
            if artifact.is_present or digest in run.unfinished or run.state is not State.RUNNING:
                task = loaded.task
            else:
                task = loaded.task.with_run(run_id, replace(run, unfinished=(*run.unfinished, digest)))
                rules.check_unfinished(task.runs[run_id])
            try:
                await self._stores.tasks.commit(loaded, task, operations_for(run_id, artifact, etag=etag))
            except CommitLost:
                await self._wait(attempt)
            else:
                return artifact
        raise ServiceUnavailable("the artifact is contended; send the call again")

    async def _merged(self, task_id: str, run_id: int, wanted: Artifact) -> tuple[Artifact, str | None]:
        """What the creation makes of what is stored, and its ETag."""
        stored = await self._artifacts.get(task_id, run_id, wanted.name)
        return (wanted, None) if stored is None else (rules.repeated(stored.artifact, wanted), stored.etag)

    async def _is_running(self, task_id: str, run_id: int) -> bool:
        """Whether a run without a guard is running by now. Raises InputError, RequestConflict (contract 7.1)."""
        run = rules.known_run(await self._stores.tasks.status(task_id), run_id)
        rules.check_run_takes_artifacts(run, self._runtime.now())
        return run.state is State.RUNNING

    async def _wait(self, attempt: int) -> None:
        await self._runtime.sleep(self._runtime.jitter() * FIRST_WAIT * 2**attempt)
