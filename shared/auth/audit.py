"""The audit log (design 14): the Audit table, and the entry of a call. An entry is written before its call changes
anything and confirmed after that, as two rows: one for what was changed, one for who changed it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from shared.api.endpoint import Call
from shared.base import remembered
from shared.base.concurrency import together
from shared.base.errors import ApiError
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.runtime import Runtime
from shared.store import keys
from shared.store.columns import Columns
from shared.store.expiring import Expiring, ExpiryStore
from shared.store.interface import Create, Delete, Merge, Operation, Storage, StorageUnavailable
from shared.store.partitions import END, rows_of, sweep, try_transact

_CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of an audited action. Tasks and groups have a `task_group_id`: a group and its tasks share one
    history."""

    entity_type: str
    entity_id: str
    task_group_id: str = ""

    @property
    def partition(self) -> str:
        """Partition of its history."""
        if self.task_group_id:
            return keys.audit(keys.AUDITED_GROUP, self.task_group_id)
        return keys.audit(self.entity_type, self.entity_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """An action of a client that happened, or was at least begun."""

    key: str
    subject: Subject
    client_id: str
    action: str
    detail: str
    created: datetime
    confirmed: bool
    """Whether the action is known to have happened. If not, its call is still running or has died."""

    @property
    def partitions(self) -> tuple[str, str]:
        """Returns the partitions of its two rows."""
        return self.subject.partition, keys.audit(keys.AUDITED_BY, self.client_id)


_COLUMNS = Columns(AuditEntry, without={"key", "subject"})
_SUBJECT_COLUMNS = Columns(Subject)

log = logging.getLogger("taskcluster.audit")

NOBODY: Final = "anonymous"
"""Name of the client in entries of calls without credentials."""


@dataclass
class Entry:
    """The audit entry of one call."""

    _begin: Callable[[str], Awaitable[None]]
    detail: str
    """What the call changes, as the entry says it once it has begun."""
    has_begun: bool = False
    happens: bool | None = False
    """Whether the call changes something; None if that is unknown."""

    async def begin_entry(self) -> None:
        """Writes the entry, once: ahead of all that the call changes. Raises StorageUnavailable."""
        if not self.has_begun:
            self.has_begun = True
            await self._begin(self.detail)

    def after(
        self, authorise: Callable[[Sequence[str]], Awaitable[None]]
    ) -> Callable[[Sequence[str]], Awaitable[None]]:
        """Returns a function that authorises and then begins the entry, so that refused callers leave no entry."""

        async def authorise_and_begin(values: Sequence[str]) -> None:
            await authorise(values)
            await self.begin_entry()

        return authorise_and_begin


def describe(entry: Entry | None, *, old: Sequence[str], new: Sequence[str], others: Mapping[str, bool]) -> None:
    """Notes in a call's entry, if it has one, which scopes the call grants and takes, and which `others` it changes."""
    if entry is not None:
        parts = []
        for verb, scopes in (("granted", sorted({*new} - {*old})), ("took", sorted({*old} - {*new}))):
            shown = [scope if len(scope) <= _LONGEST else f"{scope[:_LONGEST]}…" for scope in scopes[:_NAMED]]
            rest = f" and {len(scopes) - _NAMED} more" if len(scopes) > _NAMED else ""
            parts += [f"{verb} {', '.join(shown)}{rest}"] if scopes else []
        entry.detail = "; ".join([*parts, *(name for name in others if others[name])])


_NAMED = 5
"""The most scopes that an entry names of those that are granted, and likewise of those that are taken away."""
_LONGEST = 200
"""The most characters of a scope that an entry names."""


def note_change(entry: Entry | None, happens: bool | None) -> None:
    """Notes in a call's entry, if it has one, whether the call changes something."""
    if entry is not None:
        entry.happens = happens


class Audit:
    """Writes and reads histories."""

    def __init__(self, storage: Storage, expiry: ExpiryStore, runtime: Runtime, kept: timedelta) -> None:
        self._tables = storage.tables
        self._expiry = expiry
        self._runtime = runtime
        self._kept = kept
        self._scheduled: Memo[str, date] = Memo(remembered.HISTORIES)
        """By history: the day of which this process has scheduled the clean-up."""

    @asynccontextmanager
    async def entry(
        self, subject: Subject, action: str, client_id: str | None, detail: str = ""
    ) -> AsyncIterator[Entry]:
        """Yields the entry of a call that is made inside. It stays unconfirmed if the outcome of the call is unknown,
        and is removed if the call was refused or changed nothing. Raises StorageUnavailable only before a change."""
        now = self._runtime.now()
        written = AuditEntry(
            key=keys.audited(now, self._runtime.slugid()),
            subject=subject,
            client_id=client_id or NOBODY,
            action=action,
            detail="",
            created=now,
            confirmed=False,
        )
        entry = Entry(lambda said: self._begin_rows(replace(written, detail=said)), detail)
        try:
            yield entry
        except ApiError as refusal:
            if entry.has_begun and entry.happens is False and refusal.status < 500:
                await self._conclude(written, Delete(written.key))
            raise
        if entry.has_begun and entry.happens is not None:
            await self._conclude(
                written, Merge(written.key, {_CONFIRMED: True}) if entry.happens else Delete(written.key)
            )

    @asynccontextmanager
    async def entry_of(
        self, call: Call, subject: Subject, action: str, detail: str = "", *, begins: bool = True
    ) -> AsyncIterator[Entry]:
        """Yields the entry of an endpoint's call; it begins at once, unless the call has yet to be authorised."""
        async with self.entry(subject, action, (await call.caller()).client_id, detail) as entry:
            if begins:
                await entry.begin_entry()
            yield entry

    async def _begin_rows(self, entry: AuditEntry) -> None:
        """Schedules the deletion of both rows before it writes them: if the process died in between, unscheduled rows
        would stay for good."""
        day = entry.created.astimezone(UTC).date()
        if new := [each for each in entry.partitions if self._scheduled.get(each) != day]:
            await self._expiry.histories(new, day.isoformat(), self._due(day))
            for partition in new:
                self._scheduled[partition] = day
        # Unless the rows exist: a late repeat must not undo the confirmation.
        values = {**_COLUMNS.encode(entry), **_SUBJECT_COLUMNS.encode(entry.subject)}
        await self._write_entry(entry, Create(entry.key, values))

    async def _write_entry(self, entry: AuditEntry, operation: Operation) -> None:
        # Refused where an earlier try has written, or removed, the row.
        await together(*(try_transact(self._tables, keys.AUDIT, each, [operation]) for each in entry.partitions))

    async def _conclude(self, entry: AuditEntry, operation: Merge | Delete) -> None:
        """Confirms or removes the entry. The call itself is done by then, so a failure here is only logged: the entry
        stays unconfirmed."""
        try:
            await self._write_entry(entry, operation)
        except StorageUnavailable as failure:
            log.warning("an entry of the audit is left as it is: %s", failure, extra={"action": "audit_not_concluded"})

    async def history_of(self, subject: Subject, *, start: str, limit: int) -> tuple[list[AuditEntry], str | None]:
        """Returns a page of the entries on a subject, the latest first, and where the next page starts. Those of a task
        include those of its group. A page may be short, or empty, while there is more. Raises StorageUnavailable."""
        entries, resume = await self._entry_page(subject.partition, start=start, limit=limit)
        if subject.entity_type == "task":
            entries = [each for each in entries if each.subject in (subject, task_group(subject.task_group_id))]
        return entries, resume

    async def by(self, client_id: str, *, start: str, limit: int) -> tuple[list[AuditEntry], str | None]:
        """Returns a page of the entries on what a client did, as `of` does. Raises StorageUnavailable."""
        return await self._entry_page(keys.audit(keys.AUDITED_BY, client_id), start=start, limit=limit)

    async def _entry_page(self, partition: str, *, start: str, limit: int) -> tuple[list[AuditEntry], str | None]:
        """Entries, the latest first, from a key on, and where the next page starts."""
        if limit == 0:
            return [], None
        page = await self._tables.query(keys.AUDIT, partition, start=start, end=END, limit=limit)
        subject = _SUBJECT_COLUMNS.decode
        entries = [_COLUMNS.decode(row.values, key=row.key, subject=subject(row.values)) for row in page.rows]
        return entries, page.resume

    async def expire(self, expiring: Expiring, until: datetime) -> datetime | None:
        """Deletes the entries of a history that are too old. If the scheduled day's entries are not due yet, since
        entries are now kept for longer, it returns when they are. Raises OutOfTime, StorageUnavailable."""
        partition, day = expiring.words
        now, due = self._runtime.now(), self._due(date.fromisoformat(day))
        if due > now:
            return due
        start = expiring.resume or keys.audited_before(now - self._kept)
        pages = rows_of(self._tables, keys.AUDIT, partition, start=start, select=())
        await sweep(
            self._tables, keys.AUDIT, pages, is_over=lambda row: True, has_time=lambda: self._runtime.now() < until
        )
        return None

    def _due(self, day: date) -> datetime:
        """Returns when the entries of a day are too old; they expire together."""
        return datetime.combine(day + timedelta(days=1), time(), UTC) + self._kept


def task(task_id: str, task_group_id: str) -> Subject:
    """Returns a task as the subject of an entry; it belongs to the history of its group."""
    return Subject("task", task_id, task_group_id)


def task_group(task_group_id: str) -> Subject:
    """Returns a task group as the subject of an entry."""
    return Subject("task-group", task_group_id, task_group_id)


def worker(task_queue_id: str, worker_group: str, worker_id: str) -> Subject:
    """Returns a worker as the subject of an entry."""
    return Subject("worker", f"{task_queue_id}/{worker_group}/{worker_id}")
