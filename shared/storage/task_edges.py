"""Edges in the partition of the task that others wait for, and the uploads beside them (design 3)."""

from __future__ import annotations

from shared.storage import keys
from shared.storage.artifacts import Waiting, decode_waiting
from shared.storage.interface import Create, Delete, Row, Storage, TransactionRefused, Upsert


class TaskEdges:
    """Reads and writes edges of the Tasks table; those between tasks of one group are GroupEdges."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def rewrite(self, required: str, dependent: str) -> str | None:
        """Writes the edge "required unblocks dependent". The ETag if it is new, None if it existed: rewritten."""
        key = keys.dependent(dependent)
        try:
            return (await self._tables.transact(keys.TASKS, required, [Create(key, {})]))[0]
        except TransactionRefused:
            await self._tables.transact(keys.TASKS, required, [Upsert(key, {})])
            return None

    async def remove(self, required: str, dependent: str, etag: str) -> None:
        """Removes an edge if it is still as it was written or read."""
        try:
            await self._tables.transact(keys.TASKS, required, [Delete(keys.dependent(dependent), etag)])
        except TransactionRefused:
            return

    async def page(self, required: str, *, start: str | None = None, limit: int) -> tuple[list[Row], str | None]:
        """A page of edges out of a task in the order of taskId, and where the next one starts."""
        first, last = keys.DEPENDENTS
        return await self._range(required, start or first, last, limit)

    async def page_with_uploads(
        self, required: str, *, start: str | None = None, end: str | None = None, limit: int
    ) -> tuple[list[Row], list[Waiting], str | None]:
        """As `page`; after the last edge come the uploads that wait for their commit. `end` is not part of it."""
        first, last = keys.EDGES_AND_UPLOADS
        rows, resume = await self._range(required, start or first, end or last, limit)
        uploads = [decode_waiting(row) for row in rows if row.key.startswith(keys.IS_UPLOAD)]
        return rows[: len(rows) - len(uploads)], uploads, resume

    async def _range(self, task_id: str, start: str, end: str, limit: int) -> tuple[list[Row], str | None]:
        page = await self._tables.query(keys.TASKS, task_id, start=start, end=end, limit=limit)
        return list(page.rows), page.resume
