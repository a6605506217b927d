"""Registered clients whose credentials are refused again and again, as processes have seen it (design 10)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import cast

from shared.auth.client_store import row_key
from shared.auth.clients import Refusal
from shared.domain.dates import format_date, parse_date
from shared.frozen import dataclass
from shared.storage.interface import MAX_OPERATIONS, Delete, Row, Tables, TransactionRefused, Upsert
from shared.storage.keys import HISTORY

_PARTITION = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """Why a client is refused, and when it was last."""

    why: Refusal
    last: datetime


class RefusedStore:
    """A row a client, in the History table. All methods may raise StorageUnavailable."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def put(self, refused: Mapping[str, Refused]) -> None:
        """Writes what a process has seen, by client id, a hundred at most: one request."""
        assert len(refused) <= MAX_OPERATIONS
        rows = [
            Upsert(row_key(client_id), {"clientId": client_id, "why": each.why, "last": format_date(each.last)})
            for client_id, each in refused.items()
        ]
        await self._tables.transact(HISTORY, _PARTITION, rows)

    async def since(self, time: datetime) -> dict[str, Refused]:
        """Clients that were refused since then, a page at most: one request."""
        page = await self._tables.query(HISTORY, _PARTITION, start="", end="\x7f")
        found = {str(row.values["clientId"]): _refused(row) for row in page.rows}
        return {client_id: each for client_id, each in found.items() if each.last >= time}

    async def forget(self, until: datetime) -> None:
        """Removes clients that have not been refused since then, a page at most: a request, and one for each."""
        page = await self._tables.query(HISTORY, _PARTITION, start="", end="\x7f")
        for row in page.rows:
            if _refused(row).last < until:
                try:
                    await self._tables.transact(HISTORY, _PARTITION, [Delete(row.key, row.etag)])
                except TransactionRefused:
                    continue  # it has just been refused once more


def _refused(row: Row) -> Refused:
    return Refused(why=cast(Refusal, row.values["why"]), last=parse_date(str(row.values["last"])))
