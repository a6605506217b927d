"""Whole partitions, for deleting what has expired."""

from __future__ import annotations

from collections.abc import Sequence

from shared.storage.interface import (
    MAX_OPERATIONS,
    Delete,
    Refusal,
    Row,
    Storage,
    TransactionRefused,
)


async def read_all(storage: Storage, table: str, partition: str, select: Sequence[str]) -> list[Row]:
    """Every row of a partition, with the selected properties."""
    rows: list[Row] = []
    start: str | None = ""
    while start is not None:
        page = await storage.tables.query(table, partition, start=start, end="\x7f", select=select)
        rows.extend(page.rows)
        start = page.resume
    return rows


async def delete_rows(storage: Storage, table: str, partition: str, row_keys: Sequence[str]) -> None:
    """Deletes rows, a hundred a request; one that is gone already is as good."""
    remaining = list(row_keys)
    while remaining:
        batch = remaining[:MAX_OPERATIONS]
        try:
            await storage.tables.transact(table, partition, [Delete(key) for key in batch])
        except TransactionRefused as refused:
            if refused.refusal is not Refusal.MISSING:
                raise
            remaining.remove(batch[refused.index])
        else:
            del remaining[:MAX_OPERATIONS]
