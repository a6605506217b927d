"""Deleting what has expired, hour by hour (contract 14.3, design 3). Every step may be repeated."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from shared.auth.client_store import ClientStore
from shared.concurrency import in_waves
from shared.domain.dates import parse_date
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.definitions import DefinitionCache
from shared.storage.directory import DirectoryStore, Kind
from shared.storage.expiry import KEPT, SETTLED, Expiring, ExpiryStore
from shared.storage.groups import GroupStore
from shared.storage.interface import Storage, StorageUnavailable
from shared.storage.partitions import delete_rows, read_all
from shared.storage.workers import WorkerStore
from shared.usecases.artifact_expiry import PROPERTIES, ArtifactExpiry

log = logging.getLogger("taskcluster.expiration")

WIDTH = 16
"""Things deleted in parallel."""
TRY_AGAIN = timedelta(days=1)
"""What cannot be deleted is filed again for then, so that it holds up nothing else."""

_HOUR = timedelta(hours=1)
_TASK_PROPERTIES = ("expires", "taskGroupId", *PROPERTIES)


class Expiration:
    """Works through the buckets of the Expiry table that are over."""

    def __init__(
        self,
        storage: Storage,
        expiry: ExpiryStore,
        groups: GroupStore,
        workers: WorkerStore,
        directory: DirectoryStore,
        clients: ClientStore,
        artifacts: ArtifactExpiry,
        cache: DefinitionCache,
        runtime: Runtime,
    ) -> None:
        self._storage = storage
        self._expiry = expiry
        self._groups = groups
        self._workers = workers
        self._directory = directory
        self._clients = clients
        self._artifacts = artifacts
        self._cache = cache
        self._now = runtime.now
        self._by_kind: Mapping[str, Callable[[Expiring], Awaitable[datetime | None]]] = {
            "task": self._task,
            "definition": self._definition,
            "group": self._group,
            "worker": self._worker,
            Kind.TASK_QUEUE: self._task_queue,
            Kind.PROVISIONER: self._provisioner,
            "client": self._client,
            "artifact": artifacts.artifact,
            "upload": artifacts.upload,
        }

    async def run(self, seconds: float) -> int:
        """Deletes what is due, for about so many seconds; answers how many things were looked at.

        Raises StorageUnavailable: the next run goes on from there.
        """
        until = self._now() + timedelta(seconds=seconds)
        hour = await self._expiry.next_hour(self._now())
        looked_at = 0
        while hour + _HOUR + SETTLED <= self._now():
            start: str | None = ""
            while start is not None:
                due, start = await self._expiry.due(keys.hour(hour), start)
                await in_waves(WIDTH, self._expire, due)
                # What is filed goes last and together: until then, all of it is done again.
                await delete_rows(self._storage, keys.EXPIRY, keys.hour(hour), [expiring.key for expiring in due])
                looked_at += len(due)
                if self._now() >= until:
                    return looked_at
            await self._expiry.finished(hour)
            hour += _HOUR
        return looked_at

    async def _expire(self, expiring: Expiring) -> None:
        try:
            later = await self._by_kind[expiring.kind](expiring)
        except StorageUnavailable:
            raise
        except Exception:
            log.exception("cannot delete %s", expiring.key, extra={"action": "expiration_failed"})
            later = self._now() + TRY_AGAIN
        if later is not None:
            await self._expiry.file_again(expiring, later)

    async def _task(self, expiring: Expiring) -> datetime | None:
        """A task with everything in its partition and its place in its group; the rows that make it go last."""
        task_id = expiring.words[0]
        rows = await read_all(self._storage, keys.TASKS, task_id, _TASK_PROPERTIES)
        status = next((row for row in rows if row.key == keys.TASK_STATUS), None)
        if status is not None and parse_date(str(status.values["expires"])) + KEPT > self._now():
            return None  # the id was used again, for a task that has a row of its own
        await self._artifacts.delete_blobs(task_id, rows)
        await self._leave_group(str(expiring.values["taskGroupId"]), task_id)
        first, end = keys.TASK_ROWS
        task_rows = [row.key for row in rows if first <= row.key < end]
        others = [row.key for row in rows if not first <= row.key < end]
        await delete_rows(self._storage, keys.TASKS, task_id, [*others, *task_rows])
        self._cache.forget(task_id)
        return None

    async def _definition(self, expiring: Expiring) -> datetime | None:
        """The content of a large definition, also of one that was refused."""
        await self._storage.blobs.delete(keys.DEFINITIONS, str(expiring.values["path"]))
        return None

    async def _leave_group(self, task_group_id: str, task_id: str) -> None:
        """The member row; an active row can only be left over from a call that died."""
        await delete_rows(self._storage, keys.GROUPS, task_group_id, [keys.member(task_id)])

    async def _group(self, expiring: Expiring) -> datetime | None:
        (task_group_id,) = expiring.words
        group = await self._groups.header(task_group_id)
        if group is not None and group.expires + KEPT > self._now():
            return None  # it has been raised, and has a later row
        rows = await read_all(self._storage, keys.GROUPS, task_group_id, ())
        await delete_rows(self._storage, keys.GROUPS, task_group_id, [row.key for row in rows])
        return None

    async def _worker(self, expiring: Expiring) -> datetime | None:
        """A worker goes when its quarantine is over too."""
        *_, worker_group, worker_id = expiring.words
        record = await self._workers.existing(str(expiring.values["taskQueueId"]), worker_group, worker_id)
        if record is None:
            return None
        expires = max(record.expires, record.quarantine_until)
        if expires > self._now() - KEPT:
            return expires
        return None if await self._workers.remove(record) else self._now()

    async def _task_queue(self, expiring: Expiring) -> datetime | None:
        return await self._directory.expire(Kind.TASK_QUEUE, "/".join(expiring.words))

    async def _provisioner(self, expiring: Expiring) -> datetime | None:
        return await self._directory.expire(Kind.PROVISIONER, expiring.words[0])

    async def _client(self, expiring: Expiring) -> None:
        """A client that asked for it; one that was prolonged has a row of its own."""
        await self._clients.delete_expired(str(expiring.values["clientId"]), self._now())
