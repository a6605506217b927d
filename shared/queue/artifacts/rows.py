"""Rows of artifacts in their task's partition, and of uploads that wait for their commit (design 3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.base.dates import format_date
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass, replace
from shared.queue.artifacts.rules import MAX_OF_TASK, MAX_RUN, Artifact, StorageType, Upload
from shared.queue.tasks.codec import SCHEMA, check_schema
from shared.queue.tasks.edges import Waiting, decode_waiting
from shared.runtime import Runtime, attempts
from shared.store import interface as tables
from shared.store import keys
from shared.store.columns import Columns
from shared.store.interface import MAX_OPERATIONS, Row, Storage, StorageUnavailable, TransactionRefused
from shared.store.partitions import rows_of, try_transact

_PER_TRANSACTION = MAX_OPERATIONS // 2


class RunInactive(ServiceError):
    """The run has no upload guard: it is not running."""


class ArtifactChanged(ServiceError):
    """There is an artifact of that name, or it has changed since it was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """An artifact as read, with its task and run."""

    task_id: str
    run_id: int
    artifact: Artifact
    etag: str

    @property
    def container(self) -> str:
        """The container of its blob."""
        return keys.container(self.artifact.name)

    @property
    def path(self) -> str:
        """The path of its blob."""
        return keys.path(self.task_id, self.run_id, self.artifact.name, self.artifact.version)


class ArtifactStore:
    """Reads and writes artifacts. The condition "the run is running" is a guard row in the same transaction."""

    def __init__(self, storage: Storage, runtime: Runtime | None = None) -> None:
        self._tables = storage.tables
        self._runtime = runtime or Runtime()

    async def write_artifact(self, new: Stored, until: datetime, *, old: Stored | None, guarded: bool) -> Stored:
        """Creates the artifact, or replaces the one that was read, as it was read: one request. Its content may be
        uploaded until `until`. Raises RunInactive (only if `guarded`), ArtifactChanged."""
        guard: list[tables.Operation] = [tables.Merge(keys.upload(new.run_id), {})] if guarded else []
        operations = guard + operations_for(new.run_id, new.artifact, until, old=old)
        try:
            etags = await self._tables.transact(keys.TASKS, new.task_id, operations)
        except TransactionRefused as refused:
            if guarded and refused.index == 0:
                raise RunInactive from refused
            raise ArtifactChanged from refused
        return replace(new, etag=etags[len(guard)])

    async def read_one(self, task_id: str, run_id: int, name: str) -> Stored | None:
        """Returns the artifact, by one point read."""
        if run_id > MAX_RUN:
            return None
        row = await self._tables.get_row(keys.TASKS, task_id, keys.artifact(run_id, name))
        if row is None:
            return None
        return Stored(task_id=task_id, run_id=run_id, artifact=decode(row), etag=row.etag)

    async def latest(self, stored: Stored) -> Stored | None:
        """Returns the artifact of that name as it is now, by one point read."""
        return await self.read_one(stored.task_id, stored.run_id, stored.artifact.name)

    async def run_page(self, task_id: str, run_id: int, start: str, limit: int) -> tuple[list[Artifact], str | None]:
        """Returns a page of a run's artifacts in the order of names, and where the next one starts."""
        if run_id > MAX_RUN:
            return [], None
        first, end = keys.artifacts(run_id)
        page = await self._tables.query(keys.TASKS, task_id, start=max(start, first), end=end, limit=limit)
        return [decode(row) for row in page.rows], page.resume

    async def note_found(self, stored: Stored, artifact: Artifact) -> Stored | None:
        """Notes what has been found out about an artifact; None when it has changed since it was read."""
        key = keys.artifact(stored.run_id, artifact.name)
        noted = tables.Replace(key, encode(artifact), stored.etag)
        etags = await try_transact(self._tables, keys.TASKS, stored.task_id, [noted])
        return None if etags is None else replace(stored, artifact=artifact, etag=etags[0])

    async def arrived(self, stored: Stored, *, encoding: str, length: int | None) -> bool:
        """Notes content that was uploaded through this service, for an artifact that was read before. If the artifact
        has changed since, other content may have been uploaded, so encoding and length are unknown. False if the
        artifact was deleted, or its content is now uploaded in another way. Raises StorageUnavailable."""
        known = replace(stored.artifact, is_present=True, is_settled=True, encoding=encoding, length=length)
        latest: Stored | None = stored
        artifact = known
        async for attempt in attempts(self._runtime):
            if attempt:
                latest = await self.latest(stored)
                if latest is not None:
                    artifact = replace(latest.artifact, is_present=True, is_settled=False)
            if latest is None or latest.artifact.version != known.version:
                return False
            if await self.note_found(latest, artifact) is not None:
                return True
        raise StorageUnavailable("the artifact is contended")

    async def arrived_first(self, stored: Stored, *, encoding: str, length: int | None) -> bool:
        """Notes the first content of an artifact, without reading it. False unless its run is running and its row has
        not changed since its creation. Raises StorageUnavailable."""
        known: dict[str, tables.Value] = {"isPresent": True, "isSettled": True, "encoding": encoding}
        if length is not None:
            known["length"] = length
        row = tables.Merge(keys.artifact(stored.run_id, stored.artifact.name), known, stored.etag)
        operations = [tables.Merge(keys.upload(stored.run_id), {}), row]
        return await try_transact(self._tables, keys.TASKS, stored.task_id, operations) is not None

    async def count(self, task_id: str) -> int:
        """Returns the artifacts of all runs of a task; counting ends at `MAX_OF_TASK`, or a page beyond it."""
        number = 0
        start, end = keys.ARTIFACTS
        async for page in rows_of(self._tables, keys.TASKS, task_id, start=start, end=end, select=("upload",)):
            number += len(page)
            if number >= MAX_OF_TASK:
                break
        return number

    async def forget(self, upload: Waiting) -> None:
        """Stops waiting for an upload, unless it has been announced again since."""
        await try_transact(self._tables, keys.TASKS, upload.task_id, [tables.Delete(upload.key, upload.etag)])

    async def delete_artifact(self, stored: Stored) -> bool:
        """Deletes an artifact with its waiting upload. Returns False if it has changed since it was read."""
        run_id, name = stored.run_id, stored.artifact.name
        waiting = [tables.Delete(keys.direct(run_id, name))] if stored.artifact.upload is Upload.DIRECT else []
        try:
            await self._tables.transact(keys.TASKS, stored.task_id, [*deletion(stored), *waiting])
        except TransactionRefused as refused:
            if refused.index == 0 or not waiting:
                return False
        else:
            return True
        # Its upload has been committed.
        return await try_transact(self._tables, keys.TASKS, stored.task_id, deletion(stored)) is not None

    async def waiting(self, task_id: str, run_id: int, name: str) -> Waiting | None:
        """Returns the upload of one artifact, if it waits."""
        row = await self._tables.get_row(keys.TASKS, task_id, keys.direct(run_id, name))
        return None if row is None else decode_waiting(row)

    async def committed(self, task_id: str, uploads: Sequence[Waiting]) -> list[Waiting]:
        """Notes that uploads are committed, fifty a request. Returns those that were announced again or deleted."""
        remaining, left = list(uploads), []
        while remaining:
            batch = remaining[:_PER_TRANSACTION]
            operations: list[tables.Operation] = []
            for upload in batch:
                key = keys.artifact(upload.run_id, upload.name)
                operations += [
                    tables.Delete(upload.key, upload.etag),
                    tables.Merge(key, {"isPresent": True, "isSettled": False}),
                ]
            try:
                await self._tables.transact(keys.TASKS, task_id, operations)
            except TransactionRefused as refused:
                left.append(batch[refused.index // 2])
                remaining.remove(left[-1])
            else:
                del remaining[:_PER_TRANSACTION]
        return left


def operations_for(run_id: int, artifact: Artifact, until: datetime, *, old: Stored | None) -> list[tables.Operation]:
    """Returns operations that write an artifact: a new one, or in place of one that is unchanged since it was read."""
    key = keys.artifact(run_id, artifact.name)
    values = encode(artifact)
    operations: list[tables.Operation] = [
        tables.Create(key, values) if old is None else tables.Replace(key, values, old.etag)
    ]
    is_direct = artifact.upload is Upload.DIRECT
    if is_direct or (old is not None and old.artifact.upload is Upload.DIRECT):
        waiting: dict[str, tables.Value] = {
            "name": artifact.name,
            "contentType": artifact.content_type,
            "version": artifact.version if is_direct else "",
            "until": format_date(until),
        }
        operations.append(tables.Upsert(keys.direct(run_id, artifact.name), waiting))
    is_replaced = old is not None and old.artifact.has_blob and old.artifact.version != artifact.version
    if is_replaced or artifact.storage_type is StorageType.OBJECT:
        operations.append(tables.Upsert(keys.STRAYS, {}))
    return operations


def deletion(stored: Stored) -> list[tables.Operation]:
    """Returns operations that delete an artifact if it is as it was read, and note its blob, which is deleted next."""
    row = tables.Delete(keys.artifact(stored.run_id, stored.artifact.name), stored.etag)
    return [row, tables.Upsert(keys.STRAYS, {})] if stored.artifact.has_blob else [row]


_COLUMNS = Columns(Artifact)


def encode(artifact: Artifact) -> dict[str, tables.Value]:
    """Returns the properties of an artifact's row."""
    return {"schema": SCHEMA, **_COLUMNS.encode(artifact)}


def decode(row: Row) -> Artifact:
    """Returns an artifact's row. Raises StorageUnavailable when later code has written it."""
    check_schema(row)
    return _COLUMNS.decode(row.values)
