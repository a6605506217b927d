"""Azure Tables in memory: ETags, transactions, ranges in key order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import quote

from shared.store import limits
from shared.store.counting import Kind
from shared.store.interface import (
    Create,
    Delete,
    Merge,
    Operation,
    Page,
    Refusal,
    Replace,
    Row,
    TransactionRefused,
    Value,
)
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Call, Gate, perform
from tests.parts.twin.names import check_table


class MemoryTables:
    """`interface.Tables`, and `rows` for a look inside."""

    def __init__(self, clock: VirtualClock, gate: Gate) -> None:
        self._clock = clock
        self._gate = gate
        self._tables: dict[str, dict[str, dict[str, Row]]] = {}
        self._writes = itertools.count(1)

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """Returns all rows of a table, or of one partition, in order, without a counted request."""
        partitions = self._tables.get(table, {})
        chosen = sorted(partitions, key=_order) if partition is None else [partition]
        return [row for name in chosen for row in _in_order(partitions.get(name, {}).values())]

    def state(self) -> str:
        """Returns all rows with their ETags as text, without a counted request."""
        return repr([(table, self.rows(table)) for table in sorted(self._tables)])

    async def get_row(self, table: str, partition: str, key: str) -> Row | None:
        check_table(table)
        limits.check_key(partition)
        limits.check_key(key)
        call = Call(Kind.TABLE_READ, table, partition, (key,))
        return await perform(self._gate, call, lambda: self._partition(table, partition).get(key))

    async def query(
        self,
        table: str,
        partition: str,
        *,
        start: str,
        end: str,
        limit: int = 1000,
        select: Sequence[str] | None = None,
    ) -> Page:
        check_table(table)
        limits.check_key(partition)
        limits.check_page(limit)

        def effect() -> Page:
            first, last = _order(start), _order(end)
            rows = [row for row in self._partition(table, partition).values() if first <= _order(row.key) < last]
            page = [_selected(row, select) for row in _in_order(rows)[:limit]]
            return Page(rows=page, resume=f"{page[-1].key} " if len(rows) > limit else None)

        return await perform(self._gate, Call(Kind.TABLE_READ, table, partition), effect)

    async def transact(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        """Carries out the operations. Raises ValueError also for a merge whose result Azure would not store."""
        check_table(table)
        limits.check_transaction(partition, operations)
        call = Call(Kind.TABLE_WRITE, table, partition, tuple(operation.key for operation in operations))
        return await perform(self._gate, call, lambda: self._transact(table, partition, operations))

    def _transact(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        rows = self._tables.setdefault(table, {}).setdefault(partition, {})
        try:
            return self._change(rows, partition, operations)
        finally:
            if not rows:
                del self._tables[table][partition]

    def _change(self, rows: dict[str, Row], partition: str, operations: Sequence[Operation]) -> list[str]:
        written = [_judged(rows.get(operation.key), index, operation) for index, operation in enumerate(operations)]
        for operation, values in zip(operations, written, strict=True):
            if isinstance(operation, Merge) and values is not None:
                limits.check_values(partition, operation.key, values)
        return [
            self._write(rows, partition, operation.key, values)
            for operation, values in zip(operations, written, strict=True)
        ]

    def _write(self, rows: dict[str, Row], partition: str, key: str, values: Mapping[str, Value] | None) -> str:
        if values is None:
            del rows[key]
            return ""
        now = self._clock.exact()
        etag = f"W/\"datetime'{_quoted(now)}-{next(self._writes)}'\""
        rows[key] = Row(partition=partition, key=key, values=MappingProxyType(dict(values)), etag=etag, timestamp=now)
        return etag

    def _partition(self, table: str, partition: str) -> dict[str, Row]:
        return self._tables.get(table, {}).get(partition, {})


def _judged(row: Row | None, index: int, operation: Operation) -> Mapping[str, Value] | None:
    """Returns what the row will hold, None if it will be gone. Raises TransactionRefused."""
    if isinstance(operation, Create) and row is not None:
        raise TransactionRefused(index, Refusal.EXISTS)
    if isinstance(operation, Merge | Replace | Delete):
        if row is None:
            raise TransactionRefused(index, Refusal.MISSING)
        if operation.etag not in (None, row.etag):
            raise TransactionRefused(index, Refusal.STALE)
        if isinstance(operation, Delete):
            return None
        if isinstance(operation, Merge):
            return {**row.values, **operation.values}
    return operation.values


def _selected(row: Row, select: Sequence[str] | None) -> Row:
    if select is None:
        return row
    values = {name: row.values[name] for name in select if name in row.values}
    return Row(partition=row.partition, key=row.key, values=values, etag=row.etag, timestamp=row.timestamp)


@lru_cache(maxsize=1 << 14)
def _order(key: str) -> bytes:
    """Returns a key to sort by as Azure does: by UTF-16 units."""
    return key.encode("utf-16-be")


@lru_cache(maxsize=64)
def _quoted(moment: datetime) -> str:
    return quote(moment.isoformat())


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: _order(row.key))
