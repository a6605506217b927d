"""Creating artifacts and finishing their uploads (contract 7.1 to 7.5). completeArtifact finishes `blob` artifacts,
finishArtifact `object` artifacts. A task's artifacts are bounded without a counter in any row (design 2.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from datetime import datetime, timedelta
from typing import TypeGuard

from shared.base import remembered
from shared.base.concurrency import both
from shared.base.errors import InputError, RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.ids import digest_of
from shared.base.memo import Memo
from shared.base.protocol import CLIENT_CLOCK_SKEW, EXPIRY_GRACE_PERIOD
from shared.base.retrying import LOST_RACE
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import ArtifactChanged, ArtifactStore, RunInactive, Stored, operations_for
from shared.queue.artifacts.rules import ANNOUNCED_AT_ONCE, Artifact, StorageType, Upload
from shared.queue.events import rules as announcements
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.rows import CommitLost, Loaded
from shared.queue.tasks.rules import State, Task
from shared.runtime import attempts, pause
from shared.store import keys
from shared.store.expiring import ExpiryStore, Scheduled
from shared.store.interface import Blobs

_NEEDS_TASK = ANNOUNCED_AT_ONCE | {StorageType.OBJECT}
"""Types whose answer or event shows the task."""
_UPLOAD_LIFE: Mapping[StorageType, timedelta] = {
    StorageType.BLOB: timedelta(minutes=15),
    StorageType.AZURE: timedelta(minutes=30),
}
"""How long upload URLs of these types live (contract 7.2); others live up to `LONGEST_UPLOAD`."""


@dataclass(frozen=True, slots=True)
class CreatedArtifact:
    """A created artifact, and until when its content may be uploaded."""

    stored: Stored
    """The artifact as stored. The ETag is "" unless this call wrote it, while the run was running, without content."""
    _: KW_ONLY
    upload_until: datetime
    """Until when the content may be uploaded, in whole seconds."""
    loaded: Loaded | None
    """The task, if the answer for this storage type shows it."""


class Artifacts:
    """Creates artifacts, marks them as present when their upload ends, and announces them, again in a repeat. The
    normal case of a creation is one write: the row, on condition that the run is running. A process counts the
    artifacts of a task that it creates, and now and then all in storage."""

    def __init__(self, stores: Stores, artifacts: ArtifactStore, expiry: ExpiryStore, blobs: Blobs) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._expiry = expiry
        self._blobs = blobs
        self._runtime = stores.runtime
        self._created: Memo[str, int] = Memo(remembered.NEW_ARTIFACTS)
        self._full: Memo[str, bool] = Memo(remembered.FULL, stores.runtime.now)

    async def create_or_find(self, task_id: str, run_id: int, wanted: Artifact) -> CreatedArtifact:
        """Creates the artifact, or finds it created alike (contract 7.1, 7.3). Raises InputError, RequestConflict,
        ServiceUnavailable, StorageUnavailable."""
        now = self._runtime.now()
        if wanted.expires < now - CLIENT_CLOCK_SKEW:
            raise InputError("`expires` must be in the future")
        rules.check_stored(wanted)
        if run_id > rules.MAX_RUN:
            raise InputError(f"task {task_id} has no run {run_id}")
        definition = await self._stores.tasks.definition(task_id)
        if definition is None:
            raise InputError(f"there is no task {task_id}")
        if wanted.expires > definition.expires:
            raise InputError("the artifact must not expire after its task")
        await self._check_number(task_id, run_id, wanted.name)
        call = self._runtime.slugid()
        wanted = replace(wanted, version=call, operation_id=call)
        if wanted.storage_type is StorageType.OBJECT:
            wanted = replace(wanted, details={**wanted.details, "projectId": definition.project_id})
        # Uploads must have ended before the expiry job deletes the expired artifact.
        is_direct = wanted.upload is Upload.DIRECT
        life = rules.upload_life(wanted.sent_length) if is_direct else _UPLOAD_LIFE.get(wanted.storage_type)
        until = min(now + (life or rules.LONGEST_UPLOAD), wanted.expires + EXPIRY_GRACE_PERIOD)
        new = Stored(task_id=task_id, run_id=run_id, artifact=wanted, etag="")
        scheduled = await self._schedule_expiry(definition, new, until)
        try:
            stored, loaded = await self._commit(new, until)
        except (InputError, RequestConflict):
            # These errors show that this call has not written the row; after other failures it may have written it.
            if scheduled is not None:
                await self._expiry.roll_back(scheduled)
            raise
        if stored.artifact.version == call:
            self._created[task_id] = (self._created.get(task_id) or 0) + 1
        if loaded is not None and stored.artifact.storage_type in ANNOUNCED_AT_ONCE:
            await self._announce(loaded, stored)
        return CreatedArtifact(stored, upload_until=until.replace(microsecond=0), loaded=loaded)

    async def _check_number(self, task_id: str, run_id: int, name: str) -> None:
        """Raises RequestConflict for a new artifact of a task that has too many; existing ones may be created again."""
        if (self._created.get(task_id) or 0) < rules.COUNTED_EVERY:
            return
        if task_id not in self._full:
            number = await self._artifacts.count(task_id)
            try:
                rules.check_number(number)
            except RequestConflict:
                self._full[task_id] = True
            else:
                self._created[task_id] = 0
                return
        if await self._artifacts.read_one(task_id, run_id, name) is None:
            rules.check_number(rules.MAX_OF_TASK)

    async def _announce(self, loaded: Loaded, stored: Stored) -> None:
        event = announcements.artifact_created(loaded.task, stored.run_id, stored.artifact)
        await self._stores.announcer.announce((event,), loaded)

    async def _schedule_expiry(self, definition: Definition, new: Stored, until: datetime) -> Scheduled | None:
        """Schedules the artifact's deletion before the artifact is written. What expires with its task goes with it."""
        scheduled, wanted = None, new.artifact
        if keys.hour(wanted.expires) < keys.hour(definition.expires):
            scheduled = await self._expiry.new_artifact(new.task_id, new.run_id, wanted.name, wanted.expires)
        # The task may be unresolved for longer than a block waits for its commit (a week, with a margin).
        if wanted.upload is Upload.DIRECT and definition.deadline > self._runtime.now() + timedelta(days=6):
            await self._expiry.upload(new.task_id, new.run_id, wanted.name, until)
        return scheduled

    async def _commit(self, wanted: Stored, until: datetime) -> tuple[Stored, Loaded | None]:
        if wanted.artifact.storage_type is StorageType.BLOB:
            return await self._begin_blob(wanted, until), None
        if wanted.artifact.storage_type not in _NEEDS_TASK:
            return await self._create_or_replace(wanted, until), None
        return await both(self._create_or_replace(wanted, until), self._stores.tasks.load(wanted.task_id))

    async def _create_or_replace(self, wanted: Stored, until: datetime) -> Stored:
        """Writes the artifact's row, and reads only when that is refused. Returns what `CreatedArtifact.stored` is."""
        guarded, old, new = True, None, wanted
        for attempt in range(LOST_RACE.tries):
            try:
                stored = await self._artifacts.write_artifact(new, until, old=old, guarded=guarded)
            except RunInactive:
                guarded = await self._is_running(wanted)
                if not guarded and wanted.artifact.upload is Upload.DIRECT:
                    await self._expiry.upload(wanted.task_id, wanted.run_id, wanted.artifact.name, until)
            except ArtifactChanged:
                old = await self._artifacts.latest(wanted)
                if _is_done(old, wanted):
                    return replace(old, etag="")
                new = _in_place_of(old, wanted)
                if attempt:
                    await pause(self._runtime, attempt)
            else:
                if old is not None and old.artifact.has_blob and old.artifact.version != new.artifact.version:
                    await self._blobs.delete_blob(old.container, old.path)  # from now on it is uploaded to a new place
                return stored if guarded and not new.artifact.is_present else new
        raise ServiceUnavailable("the artifact is contended; send the call again")

    async def _begin_blob(self, wanted: Stored, until: datetime) -> Stored:
        """Creates a `blob` artifact and notes it in its run, since a run must not be reported completed before all of
        its `blob` artifacts are complete."""
        run_id = wanted.run_id
        async for _ in attempts(self._runtime):
            loaded, old = await both(self._stores.tasks.load(wanted.task_id), self._artifacts.latest(wanted))
            if _is_done(old, wanted):
                return replace(old, etag="")
            run = rules.claimed_run(loaded.task if loaded else None, run_id)
            assert loaded is not None, "a known run is a known task's"
            rules.check_run_takes_artifacts(run, self._runtime.now())
            new = _in_place_of(old, wanted)
            digest = digest_of(wanted.artifact.name)
            if new.artifact.is_present or digest in run.unfinished or run.state is not State.RUNNING:
                task = loaded.task
            else:
                task = loaded.task.with_run(run_id, replace(run, unfinished=(*run.unfinished, digest)))
                rules.check_unfinished(task.runs[run_id])
            try:
                await self._stores.tasks.commit(loaded, task, operations_for(run_id, new.artifact, until, old=old))
            except CommitLost:
                continue
            return new
        raise ServiceUnavailable("the artifact is contended; send the call again")

    async def _is_running(self, wanted: Stored) -> bool:
        """Returns whether a run without a guard row is running now. Raises InputError, RequestConflict (contract 7.1).
        A resolved run is no conflict if an earlier try of this call has written the artifact and its answer was
        lost."""
        run = rules.claimed_run(await self._stores.tasks.status(wanted.task_id), wanted.run_id)
        try:
            rules.check_run_takes_artifacts(run, self._runtime.now())
        except RequestConflict:
            if not _is_done(await self._artifacts.latest(wanted), wanted):
                raise
        return run.state is State.RUNNING

    async def complete(self, task_id: str, run_id: int, name: str, etags: Sequence[str]) -> None:
        """Implements completeArtifact. Raises ResourceNotFound, InputError, RequestConflict, ServiceUnavailable."""
        loaded, stored = await self._task_and_artifact(task_id, run_id, name)
        if stored.artifact.storage_type is not StorageType.BLOB:
            raise InputError("the artifact is not a `blob`")
        if not stored.artifact.is_present:
            rules.check_run_takes_artifacts(loaded.task.runs[run_id], self._runtime.now())
            length = await self._assemble(stored, etags)
            try:
                await self._make_present(loaded, stored, lambda artifact: replace(artifact, length=length))
            except (ResourceNotFound, ServiceUnavailable):
                # If it has expired meanwhile, no job would delete what has just been assembled.
                if await self._artifacts.latest(stored) is None:
                    await self._blobs.delete_blob(stored.container, stored.path)
                raise
        await self._announce(loaded, stored)

    async def finish(self, task_id: str, run_id: int, name: str, upload_id: str) -> None:
        """Implements finishArtifact. Raises ResourceNotFound, InputError, ServiceUnavailable."""
        loaded, stored = await self._task_and_artifact(task_id, run_id, name)
        artifact = stored.artifact
        if artifact.storage_type is not StorageType.OBJECT:
            raise InputError("the artifact is not an `object`")
        if not artifact.is_present:
            if artifact.details["uploadId"] != upload_id:
                raise InputError("`uploadId` is not the one of this artifact's upload")
            if not artifact.details.get("isFinished"):
                raise InputError("the object's upload is not finished")

            def finished(artifact: Artifact) -> Artifact:
                details = {name: value for name, value in artifact.details.items() if name != "uploadId"}
                return replace(artifact, details=details)

            await self._make_present(loaded, stored, finished)
        await self._announce(loaded, stored)

    async def _task_and_artifact(self, task_id: str, run_id: int, name: str) -> tuple[Loaded, Stored]:
        loaded, stored = await both(self._stores.tasks.load(task_id), self._artifacts.read_one(task_id, run_id, name))
        if loaded is None or stored is None or run_id > loaded.task.last_run_id:
            raise ResourceNotFound(f"run {run_id} of task {task_id} has no artifact {name}")
        return loaded, stored

    async def _assemble(self, stored: Stored, etags: Sequence[str]) -> int:
        """Puts the parts of a blob together, if it has any, and checks that it is as announced. Returns its length."""
        artifact, details = stored.artifact, stored.artifact.details
        headers = rules.blob_headers(artifact.name, artifact.content_type, artifact.encoding)
        parts = int(details.get("partCount", 0))
        if len(etags) != max(parts, 1):
            raise InputError(f"{len(etags)} `etags` are given for {max(parts, 1)} uploads")
        if parts:
            blocks = [rules.part_id(number) for number in range(parts)]
            if not await self._blobs.commit_blocks(stored.container, stored.path, blocks, **headers):
                raise InputError("not every part has been uploaded")
        found = await self._blobs.properties(stored.container, stored.path)
        if found is None:
            raise InputError("nothing has been uploaded")
        if not parts and etags[0].strip('"') != found.etag.strip('"'):
            raise InputError("what was uploaded has another ETag")
        expected = details.get("transferLength", details["contentLength"])
        if found.length != expected:
            raise InputError(f"{found.length} bytes have been uploaded, not {expected}")
        if found.content_encoding != headers["content_encoding"]:  # its client was asked to set it, and did not
            await self._blobs.set_headers(stored.container, stored.path, **headers, etag=found.etag)
        return found.length

    async def _make_present(self, loaded: Loaded, stored: Stored, change: Callable[[Artifact], Artifact]) -> None:
        """In one commit, marks the artifact as present and notes in its run that it is finished."""
        run_id, name = stored.run_id, stored.artifact.name
        async for attempt in attempts(self._runtime):
            if attempt:
                loaded, stored = await self._task_and_artifact(stored.task_id, run_id, name)
                if stored.artifact.is_present:
                    return
            artifact = replace(change(stored.artifact), is_present=True, is_settled=True)
            operations = operations_for(run_id, artifact, self._runtime.now(), old=stored)
            try:
                await self._stores.tasks.commit(loaded, without_unfinished(loaded.task, run_id, name), operations)
            except CommitLost:
                continue
            return
        raise ServiceUnavailable("the task is contended; send the call again")


def _is_done(stored: Stored | None, wanted: Stored) -> TypeGuard[Stored]:
    """Returns whether the stored artifact is what this very call has written."""
    return stored is not None and stored.artifact.operation_id == wanted.artifact.operation_id


def _in_place_of(old: Stored | None, wanted: Stored) -> Stored:
    """Returns what the wanted artifact becomes in place of the old one. Raises RequestConflict."""
    return wanted if old is None else replace(wanted, artifact=rules.repeated(old.artifact, wanted.artifact))


def without_unfinished(task: Task, run_id: int, name: str) -> Task:
    """Returns the task without this `blob` among those that its run waits for; unchanged if the run is resolved."""
    run = task.runs[run_id]
    if run.state is not State.RUNNING:
        return task
    digest = digest_of(name)
    return task.with_run(run_id, replace(run, unfinished=tuple(each for each in run.unfinished if each != digest)))
