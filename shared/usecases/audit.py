"""Who did what: an entry stands before its call changes anything, and is confirmed after that (design 14)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Final

from shared import remembered
from shared.errors import ApiError
from shared.memo import Memo
from shared.runtime import Runtime
from shared.storage import keys
from shared.storage.audit import AuditEntry, AuditStore, Subject
from shared.storage.expiry import Expiring, ExpiryStore
from shared.storage.interface import StorageUnavailable

log = logging.getLogger("taskcluster.audit")

NOBODY: Final = "anonymous"
"""Who makes a call without credentials."""


class Entry:
    """The entry of one call, which says whether it has changed anything."""

    def __init__(self, begin: Callable[[], Awaitable[None]]) -> None:
        self._begin = begin
        self.has_begun = False
        self.happens: bool | None = False
        """Whether the call changes something; None while that is not known."""

    async def begin(self) -> None:
        """Writes the entry, once: ahead of all that the call changes. Raises StorageUnavailable."""
        if not self.has_begun:
            self.has_begun = True
            await self._begin()

    def after(
        self, authorise: Callable[[Sequence[str]], Awaitable[None]]
    ) -> Callable[[Sequence[str]], Awaitable[None]]:
        """Begins once the caller is authorised, so that who may do nothing leaves no entry."""

        async def authorise_and_begin(values: Sequence[str]) -> None:
            await authorise(values)
            await self.begin()

        return authorise_and_begin


def note(entry: Entry | None, happens: bool | None) -> None:
    """Says of a call that has an entry whether it changes something."""
    if entry is not None:
        entry.happens = happens


class Audit:
    """Writes and reads histories."""

    def __init__(self, store: AuditStore, expiry: ExpiryStore, runtime: Runtime, kept: timedelta) -> None:
        self._store = store
        self._expiry = expiry
        self._runtime = runtime
        self._kept = kept
        self._scheduled: Memo[str, datetime] = Memo(remembered.HISTORIES)
        """Until when the histories that this process has written to are looked into."""

    @asynccontextmanager
    async def entry(
        self, subject: Subject, action: str, client_id: str | None, detail: str = ""
    ) -> AsyncIterator[Entry]:
        """The entry of a call that is made inside. It stays as it is, not confirmed, where nobody knows what became
        of the call; it goes where the call was refused, or changed nothing.

        Raises StorageUnavailable only before anything is changed.
        """
        now = self._runtime.now()
        written = AuditEntry(
            key=keys.audited(now, self._runtime.slugid()),
            subject=subject,
            client_id=client_id or NOBODY,
            action=action,
            detail=detail,
            created=now,
            confirmed=False,
        )
        entry = Entry(lambda: self._begin(written))
        try:
            yield entry
        except ApiError as refusal:
            if entry.has_begun and entry.happens is False and refusal.status < 500:
                await self._conclude(self._store.remove(written))
            raise
        if entry.has_begun and entry.happens is not None:
            await self._conclude(self._store.confirm(written) if entry.happens else self._store.remove(written))

    async def _begin(self, entry: AuditEntry) -> None:
        """The rows that have both deleted one day come first: else a death would leave them for good."""
        due = self._due(entry.created)
        if new := [each for each in entry.partitions if self._scheduled.get(each) != due]:
            await self._expiry.histories(new, due)
            for partition in new:
                self._scheduled[partition] = due
        await self._store.add(entry)

    async def _conclude(self, write: Awaitable[None]) -> None:
        """The call is over by now: a failure leaves an entry that is not confirmed, and that is what is known."""
        try:
            await write
        except StorageUnavailable as failure:
            log.warning("an entry of the audit is left as it is: %s", failure, extra={"action": "audit_not_concluded"})

    async def of(self, subject: Subject, *, start: str, limit: int) -> tuple[list[AuditEntry], str | None]:
        """What was done to something, in order of time; of a task also what was done to its group.

        A page may be short, or empty, while there is more. Raises StorageUnavailable.
        """
        if limit == 0:
            return [], None
        entries, resume = await self._store.page(subject.partition, start=start, limit=limit)
        if subject.entity_type == "task":
            entries = [each for each in entries if each.subject in (subject, group_of(subject))]
        return entries, resume

    async def by(self, client_id: str, *, start: str, limit: int) -> tuple[list[AuditEntry], str | None]:
        """What a client did, as `of`. Raises StorageUnavailable."""
        if limit == 0:
            return [], None
        return await self._store.page(keys.audit(keys.AUDITED_BY, client_id), start=start, limit=limit)

    async def expire(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes what is too old in a history; returns when to look again, None if it is empty.

        Raises OutOfTime, StorageUnavailable.
        """
        first = await self._store.sweep(
            expiring.words[0],
            self._runtime.now() - self._kept,
            start=expiring.resume,
            has_time=lambda: self._runtime.now() < until,
        )
        return None if first is None else self._due(first)

    def _due(self, created: datetime) -> datetime:
        """When what was written on that day is too old: all of a day together."""
        tomorrow = created.astimezone(UTC).date() + timedelta(days=1)
        return datetime.combine(tomorrow, time(), UTC) + self._kept


def task(task_id: str, task_group_id: str) -> Subject:
    """A task, in the history of its group."""
    return Subject(entity_type="task", entity_id=task_id, task_group_id=task_group_id)


def task_group(task_group_id: str) -> Subject:
    """A task group."""
    return Subject(entity_type="task-group", entity_id=task_group_id, task_group_id=task_group_id)


def group_of(subject: Subject) -> Subject:
    """The group of a task."""
    return task_group(subject.task_group_id)


def worker(task_queue_id: str, worker_group: str, worker_id: str) -> Subject:
    """A worker."""
    return Subject(entity_type="worker", entity_id=f"{task_queue_id}/{worker_group}/{worker_id}")


def client(client_id: str) -> Subject:
    """A client of the auth API."""
    return Subject(entity_type="client", entity_id=client_id)


def role(role_id: str) -> Subject:
    """A role."""
    return Subject(entity_type="role", entity_id=role_id)
