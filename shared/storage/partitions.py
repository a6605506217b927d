"""Whole partitions, for deleting what has expired. Every delete is conditional on the row being as it was read."""

from __future__ import annotations

from collections.abc import Sequence

from shared.storage.interface import MAX_OPERATIONS, Delete, Row, Storage, TransactionRefused


async def read_all(
    storage: Storage, table: str, partition: str, select: Sequence[str] | None, *, start: str = "", end: str = "\x7f"
) -> list[Row]:
    """Every row of a range, by default of the whole partition, with the selected properties; None: with all."""
    rows: list[Row] = []
    at: str | None = start
    while at is not None:
        page = await storage.tables.query(table, partition, start=at, end=end, select=select)
        rows.extend(page.rows)
        at = page.resume
    return rows


async def delete_unchanged(storage: Storage, table: str, partition: str, rows: Sequence[Row]) -> None:
    """Deletes the rows that are still as they were read, a hundred a request; what has changed since stays.

    `rows` are of one partition, in the order of their keys. A repeat of a request whose answer was lost deletes
    nothing that was created under the same key in between.
    """
    remaining = list(rows)
    while remaining:
        batch = remaining[:MAX_OPERATIONS]
        if await delete_together(storage, table, partition, batch):
            del remaining[: len(batch)]
        else:
            first, last = batch[0].key, batch[-1].key
            there = await read_all(storage, table, partition, (), start=first, end=f"{last} ")
            etags = {row.key: row.etag for row in there}
            remaining[: len(batch)] = [row for row in batch if etags.get(row.key) == row.etag]


async def delete_together(storage: Storage, table: str, partition: str, rows: Sequence[Row]) -> bool:
    """Deletes up to a hundred rows in one transaction; False, and nothing is deleted, when one of them has changed."""
    try:
        await storage.tables.transact(table, partition, [Delete(row.key, row.etag) for row in rows])
    except TransactionRefused:
        return False
    return True
