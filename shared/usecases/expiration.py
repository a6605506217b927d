"""The expiry job: deletes what has expired, hour by hour (contract 14.3, design 3). Every step may be repeated."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from shared.auth.client_store import ClientStore
from shared.concurrency import in_waves
from shared.domain.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.directory import DirectoryStore, Kind
from shared.storage.expiry import Expiring, ExpiryStore
from shared.storage.interface import MAX_OPERATIONS, StorageUnavailable
from shared.storage.workers import WorkerStore
from shared.telemetry.instruments import EXPIRATIONS_FAILED
from shared.usecases.artifact_expiry import ArtifactExpiry
from shared.usecases.group_expiry import GroupExpiry
from shared.usecases.index import Index
from shared.usecases.task_expiry import Emptied, OutOfTime, TaskExpiry

log = logging.getLogger("taskcluster.expiration")

WIDTH = 16
"""Things deleted in parallel."""
STUCK_AFTER = 5
"""What has failed so many times in a row, over a day or more, needs a person."""

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


_Result = Emptied | datetime | _Failed | None
"""What became of one thing: see `Expiration`."""


class _Outcome(Enum):
    DONE = auto()
    """Deleted, or due later."""
    FAILED = auto()
    """Due again after a back-off."""
    UNTOUCHED = auto()
    """Still in its bucket."""


class Expiration:
    """Works through the buckets of the Expiry table that are over.

    What fails is counted for itself and is due again after a back-off, in a later bucket, so that it never holds up
    anything else, whatever the reason of the failure.
    """

    def __init__(
        self,
        expiry: ExpiryStore,
        tasks: TaskExpiry,
        groups: GroupExpiry,
        workers: WorkerStore,
        directory: DirectoryStore,
        clients: ClientStore,
        artifacts: ArtifactExpiry,
        index: Index,
        runtime: Runtime,
    ) -> None:
        self._expiry = expiry
        self._tasks = tasks
        self._workers = workers
        self._directory = directory
        self._clients = clients
        self._now = runtime.now
        self._meter = runtime.meter
        self._by_kind: Mapping[str, Callable[[Expiring, datetime], Awaitable[Emptied | datetime | None]]] = {
            "task": tasks.empty,
            "definition": tasks.definition,
            "group": groups.group,
            "listed": groups.listed,
            "worker": self._worker,
            Kind.TASK_QUEUE: self._task_queue,
            Kind.PROVISIONER: self._provisioner,
            "client": self._client,
            "artifact": artifacts.artifact,
            "upload": artifacts.upload,
            keys.INDEX_SWEEP: index.sweep,
        }
        """Each deletes one thing, if it can before the given time. Returns when it is due again, None if never; a task
        is deleted in two steps.

        Raises OutOfTime when a later run has to go on.
        """

    async def run(self, seconds: float) -> int:
        """Deletes what is due, for about so many seconds; returns how many things were looked at.

        Raises StorageUnavailable when nothing could be done: everything that was due failed, or the Expiry table
        itself cannot be read or written. The next run goes on from there.
        """
        until = self._now() + timedelta(seconds=seconds)
        first = hour = await self._expiry.next_hour(self._now())
        looked_at = failed = 0
        is_over = False
        while hour + _HOUR + ROWS_COMPLETE_AFTER <= self._now() and not is_over:
            due = await self._expiry.due(keys.hour(hour))
            for start in range(0, len(due), MAX_OPERATIONS):
                outcomes = await self._expire_all(due[start : start + MAX_OPERATIONS], until)
                looked_at += len(outcomes) - outcomes.count(_Outcome.UNTOUCHED)
                failed += outcomes.count(_Outcome.FAILED)
                is_over = _Outcome.UNTOUCHED in outcomes or self._now() >= until
                if is_over:
                    break
            if not due:
                hour += _HOUR
        if hour != first:
            await self._expiry.finished_before(hour)
        if looked_at and failed == looked_at:
            raise StorageUnavailable(f"none of {looked_at} expired things could be deleted")
        return looked_at

    async def _expire_all(self, batch: Sequence[Expiring], until: datetime) -> list[_Outcome]:
        """Deletes some things of one bucket, and removes from it what is done with or due later."""

        async def begin(expiring: Expiring) -> _Result:
            if self._now() >= until:
                return _Failed(OutOfTime())
            try:
                return await self._by_kind[expiring.kind](expiring, until)
            except Exception as error:
                return _Failed(error)

        results = await in_waves(WIDTH, begin, batch)
        await self._tasks.leave_groups([result for result in results if isinstance(result, Emptied)])
        unavailable: list[StorageUnavailable] = []

        async def conclude(begun: tuple[Expiring, _Result]) -> _Outcome:
            try:
                return await self._conclude(*begun)
            except StorageUnavailable as error:
                unavailable.append(error)
                return _Outcome.UNTOUCHED

        outcomes = await in_waves(WIDTH, conclude, zip(batch, results, strict=True))
        handled = [each for each, outcome in zip(batch, outcomes, strict=True) if outcome is not _Outcome.UNTOUCHED]
        await self._expiry.done(handled)
        if unavailable:
            raise unavailable[0]
        return outcomes

    async def _conclude(self, expiring: Expiring, result: _Result) -> _Outcome:
        """Raises StorageUnavailable when it could not even be scheduled for later."""
        if isinstance(result, Emptied):
            try:
                result = await self._tasks.delete(result)
            except Exception as error:
                result = _Failed(error)
        if isinstance(result, _Failed):
            if isinstance(result.error, OutOfTime):
                return _Outcome.UNTOUCHED
            failures = await self._expiry.retry_later(expiring, self._now())
            self._note_failure(expiring, failures, result.error)
            return _Outcome.FAILED
        if result is not None:
            await self._expiry.reschedule(expiring, result)
        return _Outcome.DONE

    def _note_failure(self, expiring: Expiring, failures: int, error: Exception) -> None:
        is_stuck = failures >= STUCK_AFTER
        kind = expiring.kind if expiring.kind in self._by_kind else "unknown"
        self._meter.add(EXPIRATIONS_FAILED, kind, "yes" if is_stuck else "no")
        details = {"action": "expiration_stuck" if is_stuck else "expiration_failed", "failures": failures}
        passing = isinstance(error, StorageUnavailable)
        log.log(
            logging.ERROR if is_stuck or not passing else logging.WARNING,
            "cannot delete %s (failed %d times in a row): %s",
            expiring.key,
            failures,
            error,
            extra=details,
            exc_info=None if passing else error,
        )

    async def _worker(self, expiring: Expiring, until: datetime) -> datetime | None:
        """A worker goes when its quarantine is over too."""
        *_, worker_group, worker_id = expiring.words
        record = await self._workers.existing(str(expiring.values["taskQueueId"]), worker_group, worker_id)
        if record is None:
            return None
        expires = max(record.expires, record.quarantine_until)
        if expires > self._now() - EXPIRY_GRACE_PERIOD:
            return expires
        return None if await self._workers.remove(record) else self._now()

    async def _task_queue(self, expiring: Expiring, until: datetime) -> datetime | None:
        return await self._directory.expire(Kind.TASK_QUEUE, "/".join(expiring.words))

    async def _provisioner(self, expiring: Expiring, until: datetime) -> datetime | None:
        return await self._directory.expire(Kind.PROVISIONER, expiring.words[0])

    async def _client(self, expiring: Expiring, until: datetime) -> None:
        """A client that asked for it; one that was prolonged has a row of its own."""
        await self._clients.delete_expired(str(expiring.values["clientId"]), self._now())
