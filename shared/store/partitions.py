"""Reading rows by pages, and deleting what has expired a page at a time. All code that reads more than one page of a
range does so through this module.

Memory is bounded by two pages, whatever there is to read. Every delete is conditional on the row being as it was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.base.errors import InputError, ServiceError
from shared.store.interface import MAX_OPERATIONS, MAX_PAGE, Delete, Operation, Row, Tables, TransactionRefused

T = TypeVar("T")

END = "\x7f"
"""A key that sorts after all others."""


class OutOfTime(ServiceError):
    """Time ran out. The deletions so far stand. `resume` is the key at which to continue, None for the beginning."""

    def __init__(self, resume: str | None = None) -> None:
        super().__init__("there was not enough time for all of it")
        self.resume = resume


def page_start(start: str, within: tuple[str, str]) -> str:
    """Returns where a page starts: at the first key, or at that of a token. Raises InputError for other listings'
    tokens."""
    if not start:
        return within[0]
    if not within[0] <= start < within[1]:
        raise InputError("invalid continuationToken")
    return start


class PageReader(Generic[T]):
    """Reads page after page; `resume` is where the next one starts, None after the last one."""

    def __init__(
        self, read: Callable[[str | None], Awaitable[tuple[Sequence[T], str | None]]], start: str | None = None
    ) -> None:
        """Takes a function that returns a page and where the next one starts. It is given where the page starts, None
        for the first one."""
        self._read = read
        self._is_begun = False
        self.resume = start

    def __aiter__(self) -> PageReader[T]:
        return self

    async def __anext__(self) -> Sequence[T]:
        if self._is_begun and self.resume is None:
            raise StopAsyncIteration
        items, self.resume = await self._read(self.resume)
        self._is_begun = True
        return items

    def skip_to(self, start: str) -> None:
        """Leaves out what lies before that key, if a next page exists."""
        if self.resume is not None:
            self.resume = max(self.resume, start)


def rows_of(
    tables: Tables,
    table: str,
    partition: str,
    *,
    start: str = "",
    end: str = END,
    limit: int = MAX_PAGE,
    select: Sequence[str] | None = None,
) -> PageReader[Row]:
    """Returns a reader of the rows of a range, by default the whole partition, with all or the selected properties."""

    async def read_rows(at: str | None) -> tuple[Sequence[Row], str | None]:
        page = await tables.query(table, partition, start=at or "", end=end, limit=limit, select=select)
        return page.rows, page.resume

    return PageReader(read_rows, start)


async def sweep(
    tables: Tables, table: str, pages: PageReader[Row], *, is_over: Callable[[Row], bool], has_time: Callable[[], bool]
) -> bool:
    """Deletes rows of a partition page by page; returns whether any stay. The first hundred are deleted however little
    time there is. Raises OutOfTime."""
    some_stay = False
    first = True
    async for page in pages:
        over = [row for row in page if is_over(row)]
        some_stay = some_stay or len(over) < len(page)
        for start in range(0, len(over), MAX_OPERATIONS):
            batch = over[start : start + MAX_OPERATIONS]
            if not first and not has_time():
                raise OutOfTime(batch[0].key)
            first = False
            await delete_unchanged(tables, table, batch)
        if pages.resume is not None and not has_time():
            raise OutOfTime(pages.resume)
    return some_stay


async def delete_unchanged(tables: Tables, table: str, rows: Sequence[Row]) -> None:
    """Deletes the rows that are still as they were read, a hundred a request; what has changed since stays. `rows` are
    of one partition, in the order of their keys. A repeat of a request whose answer was lost deletes nothing that was
    created under the same key in between."""
    remaining = list(rows)
    while remaining:
        batch = remaining[:MAX_OPERATIONS]
        if await delete_together(tables, table, batch):
            del remaining[: len(batch)]
        else:
            partition, end = batch[0].partition, f"{batch[-1].key} "
            wanted, etags = {row.key for row in batch}, dict[str, str]()
            async for page in rows_of(tables, table, partition, start=batch[0].key, end=end, select=()):
                etags |= {row.key: row.etag for row in page if row.key in wanted}
            remaining[: len(batch)] = [row for row in batch if etags.get(row.key) == row.etag]


async def delete_together(tables: Tables, table: str, rows: Sequence[Row]) -> bool:
    """Deletes up to a hundred rows of one partition in one transaction. Returns False, and deletes nothing, if one of
    them has changed."""
    operations = [Delete(row.key, row.etag) for row in rows]
    return await try_transact(tables, table, rows[0].partition, operations) is not None


async def try_transact(tables: Tables, table: str, partition: str, operations: Sequence[Operation]) -> list[str] | None:
    """Returns the new ETags, or None if the transaction was refused: another call has changed the rows."""
    try:
        return await tables.transact(table, partition, operations)
    except TransactionRefused:
        return None
