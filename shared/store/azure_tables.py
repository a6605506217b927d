"""Azure Tables behind `interface.Tables`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from shared.base.frozen import dataclass
from shared.store import limits, table_requests
from shared.store.interface import MAX_PAGE, Operation, Page, Refusal, Row, StorageUnavailable, TransactionRefused
from shared.store.wire import Refused, StorageEndpoint, Wire

_NO_TABLE = "TableNotFound"
_TOO_LARGE = frozenset({"EntityTooLarge", "PropertyValueTooLarge", "RequestBodyTooLarge", "TooManyProperties"})
_REFUSAL = {404: Refusal.MISSING, 409: Refusal.EXISTS, 412: Refusal.STALE}


@dataclass(frozen=True, eq=False)
class AzureTables:
    """Tables of one account. A table that does not exist yet reads as empty and is made by the first write."""

    _wire: Wire
    _endpoint: StorageEndpoint
    _make: Callable[[str], Awaitable[None]]
    """Makes the table of that name, with the SDK. Raises Refused if there is one, StorageUnavailable."""

    async def get_row(self, table: str, partition: str, key: str) -> Row | None:
        """Returns one row, or None. Raises StorageUnavailable."""
        limits.check_key(partition)
        limits.check_key(key)
        try:
            answer = await self._wire.send(table_requests.row_request(self._endpoint, table, partition, key))
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise
        return table_requests.read_row(answer)

    async def query(
        self,
        table: str,
        partition: str,
        *,
        start: str,
        end: str,
        limit: int = MAX_PAGE,
        select: Sequence[str] | None = None,
    ) -> Page:
        """Returns a page. An empty one with a continuation is followed up by one more. Azure's continuation is opaque,
        so `resume` is made from the last key: the next legal key after it is at least that key and a space, the lowest
        character that keys may hold."""
        limits.check_key(partition)
        limits.check_page(limit)
        ask = partial(
            table_requests.query, self._endpoint, table, partition, start=start, end=end, limit=limit, select=select
        )
        rows: Sequence[Row] = []
        more: table_requests.Continuation = {}
        requests = 0
        try:
            while not requests or (more and not rows):
                requests += 1
                rows, more = table_requests.read_page(await self._wire.send(ask(continuation=more)))
        except Refused as answer:
            if answer.code != _NO_TABLE:
                raise
        resume = f"{rows[-1].key} " if rows and more else None
        return Page(rows=rows, resume=resume, is_of_one_moment=requests == 1)

    async def transact(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        limits.check_transaction(partition, operations)
        try:
            return await self._send_operations(table, partition, operations)
        except Refused as answer:
            if answer.code != _NO_TABLE:
                raise
        try:
            await self._make(table)
        except Refused as answer:
            if answer.code != "TableAlreadyExists":
                raise
        return await self._send_operations(table, partition, operations)

    async def _send_operations(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        """Sends the operations in one request. Raises Refused when the table is missing, and for unknown refusals."""
        try:
            if len(operations) == 1:
                request = table_requests.request_of(self._endpoint, table, partition, operations[0])
                return [table_requests.read_etag(await self._wire.send(request), operations[0])]
            request = table_requests.encode(self._endpoint, table, partition, operations)
            answer = await self._wire.send(request)
            if answer.status != 202:
                raise StorageUnavailable(f"a transaction was answered with {answer.status}")
            return table_requests.decode(answer.content, operations)
        except Refused as refused:
            if refused.code == _NO_TABLE:
                raise
            if refused.status == 413 or refused.code in _TOO_LARGE:
                raise ValueError(f"Azure Tables finds it too large: {refused.code}") from None
            if refusal := _REFUSAL.get(refused.status):
                raise TransactionRefused(refused.index, refusal) from None
            raise
