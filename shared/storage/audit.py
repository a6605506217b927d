"""The Audit table: who did what to what, a row for what it was done to and one for who did it (design 14)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from shared.concurrency import together
from shared.domain.dates import format_date, parse_date
from shared.frozen import dataclass
from shared.storage import keys
from shared.storage.interface import Create, Delete, Merge, Operation, Row, Storage, TransactionRefused, Value
from shared.storage.partitions import PageReader, rows_of, sweep

_CONFIRMED = "confirmed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What something is done to. `task_group_id` of a task and of a group: the two have one history."""

    entity_type: str
    entity_id: str
    task_group_id: str = ""

    @property
    def partition(self) -> str:
        """Where its history is."""
        if self.task_group_id:
            return keys.audit(keys.AUDITED_GROUP, self.task_group_id)
        return keys.audit(self.entity_type, self.entity_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """That a client did something, or at least began to."""

    key: str
    subject: Subject
    client_id: str
    action: str
    detail: str
    created: datetime
    confirmed: bool
    """Whether it is known to have happened: else its call is under way, or has died."""

    @property
    def partitions(self) -> tuple[str, str]:
        """Where its two rows are."""
        return self.subject.partition, keys.audit(keys.AUDITED_BY, self.client_id)


class AuditStore:
    """Reads and writes entries. Everything may raise StorageUnavailable."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def add(self, entry: AuditEntry) -> None:
        """Writes both rows of an entry, unless they are there: a repeat that comes late undoes no confirmation."""
        await self._write(entry, Create(entry.key, _encode(entry)))

    async def confirm(self, entry: AuditEntry) -> None:
        """Says of both rows that it happened."""
        await self._write(entry, Merge(entry.key, {_CONFIRMED: True}))

    async def remove(self, entry: AuditEntry) -> None:
        """Removes both rows: it did not happen."""
        await self._write(entry, Delete(entry.key))

    async def page(self, partition: str, *, start: str, limit: int) -> tuple[list[AuditEntry], str | None]:
        """Entries in the order of time, from a key on, and where the next page starts."""
        page = await self._tables.query(keys.AUDIT, partition, start=start, end=_END, limit=limit)
        return [_decode(row) for row in page.rows], page.resume

    async def sweep(
        self, partition: str, before: datetime, *, start: str | None, has_time: Callable[[], bool]
    ) -> datetime | None:
        """Deletes what is older, page by page; returns the time of the first entry that stays, None if none does.

        Raises OutOfTime.
        """
        end = format_date(before)
        pages: PageReader[Row] = rows_of(self._tables, keys.AUDIT, partition, start=start or "", end=end, select=())
        await sweep(self._tables, keys.AUDIT, pages, is_over=lambda row: True, has_time=has_time)
        rest = await self._tables.query(keys.AUDIT, partition, start="", end=_END, limit=1)
        return next((_decode(row).created for row in rest.rows), None)

    async def _write(self, entry: AuditEntry, operation: Operation) -> None:
        async def write(partition: str) -> None:
            try:
                await self._tables.transact(keys.AUDIT, partition, [operation])
            except TransactionRefused:
                return  # it was written, or removed, before

        await together(*(write(partition) for partition in entry.partitions))


_END = "\x7f"


def _encode(entry: AuditEntry) -> dict[str, Value]:
    return {
        "clientId": entry.client_id,
        "action": entry.action,
        "detail": entry.detail,
        "created": format_date(entry.created),
        "entityType": entry.subject.entity_type,
        "entityId": entry.subject.entity_id,
        "taskGroupId": entry.subject.task_group_id,
        _CONFIRMED: entry.confirmed,
    }


def _decode(row: Row) -> AuditEntry:
    values = row.values
    return AuditEntry(
        key=row.key,
        subject=Subject(
            entity_type=str(values["entityType"]),
            entity_id=str(values["entityId"]),
            task_group_id=str(values["taskGroupId"]),
        ),
        client_id=str(values["clientId"]),
        action=str(values["action"]),
        detail=str(values["detail"]),
        created=parse_date(str(values["created"])),
        confirmed=bool(values[_CONFIRMED]),
    )
