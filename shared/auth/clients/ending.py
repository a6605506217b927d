"""Clients whose credentials end soon or have ended, and clients that are refused repeatedly (design 10).

Processes note refusals; `health` names both kinds before work stops. Nothing else of a deployment's credentials has an
end that the service could see: docs/operations.md lists them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

from shared.auth.clients.rows import ClientStore, Refusal, row_key
from shared.base import remembered
from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass, replace
from shared.base.memo import Memo
from shared.runtime import Runtime
from shared.store.interface import MAX_OPERATIONS, Delete, Row, StorageUnavailable, Tables, Upsert
from shared.store.keys import HEALTH
from shared.store.partitions import END, try_transact
from shared.telemetry.instruments import ENDING_CREDENTIALS

_PARTITION = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedClient:
    """A refused client: why it is refused, and when it was last."""

    why: Refusal
    last: datetime


def _refused(row: Row) -> RefusedClient:
    return RefusedClient(why=cast(Refusal, row.values["why"]), last=parse_date(str(row.values["last"])))


NOTICE = timedelta(days=30)
"""How long before its expiration a client is reported."""
SHORTEST = 3
"""The notice is at most this fraction of a client's lifetime: a client that lives for a week has two days of notice."""
FLUSH_SECONDS = 60.0
"""Interval in which a process writes the refused clients, if there are any."""
AGAIN = timedelta(minutes=2)
"""If a client is still refused this long after its first refusal, a program keeps trying. A person who mistyped a token
has stopped by then, and every process knows a changed token after a minute."""
WITHIN = timedelta(hours=1)
"""A refusal this long after the previous one counts as a first refusal again."""
WRITTEN_EVERY = timedelta(minutes=10)
"""How often a process rewrites the row of a client that it keeps refusing."""
LATELY = timedelta(minutes=30)
"""How long a client is reported after its last known refusal."""

log = logging.getLogger("taskcluster.housekeeping")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """A client that expires soon or has expired, which somebody has to prolong or to remove."""

    expires: datetime
    client_id: str
    has_ended: bool


class EndingCredentials:
    """Finds clients that expire soon or have expired: a small page per thousand clients, at most every ten minutes."""

    def __init__(self, clients: ClientStore, runtime: Runtime) -> None:
        self._clients = clients
        self._runtime = runtime
        self._kept: Memo[str, Sequence[Ending]] = Memo(remembered.ENDING, runtime.now)

    async def current(self) -> Sequence[Ending]:
        """Returns the clients that expire soon or have expired, in the order of their expirations. Raises
        StorageUnavailable."""
        return await self._kept.read("", self._find_ending)

    async def measure(self) -> None:
        """Sets the gauges of ended and of ending credentials. Raises StorageUnavailable."""
        known = await self.current()
        ended = sum(each.has_ended for each in known)
        self._runtime.meter.set(ENDING_CREDENTIALS, ended, "ended")
        self._runtime.meter.set(ENDING_CREDENTIALS, len(known) - ended, "ending")

    async def _find_ending(self) -> Sequence[Ending]:
        now, found = self._runtime.now(), list[Ending]()
        async for page in self._clients.terms():
            for row in page:
                created, expires = (parse_date(str(row.values[name])) for name in ("created", "expires"))
                goes = row.values["disabled"] or row.values["deleteOnExpiration"]  # nobody misses it
                if not goes and expires <= now + min(NOTICE, (expires - created) / SHORTEST):
                    client_id = str(row.values["clientId"])
                    found.append(Ending(expires=expires, client_id=client_id, has_ended=expires <= now))
        return sorted(found, key=lambda each: (each.expires, each.client_id))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """The state that this process keeps of a client that is refused."""

    why: Refusal
    first: datetime
    last: datetime
    written: datetime | None = None


class RefusedCredentials:
    """Clients that exist and are refused again and again, in any process: what fails already, and why. A refusal costs
    its caller nothing: it is noted in memory, and written later. Forged requests are not noted, since anybody can send
    the name of a client."""

    def __init__(self, tables: Tables, runtime: Runtime) -> None:
        self._tables = tables
        self._runtime = runtime
        self._seen: dict[str, _Seen] = {}
        """By client id, at most as many as one request can write. Clients refused later are noted only when an earlier
        one is dropped because its refusals have stopped."""
        self._forgotten: datetime | None = None
        self._kept: Memo[str, Mapping[str, RefusedClient]] = Memo(remembered.REFUSED, runtime.now)

    def note_refusal(self, client_id: str, why: Refusal) -> None:
        """Notes a refusal that has just happened."""
        now, seen = self._runtime.now(), self._seen.get(client_id)
        if seen is not None and now - seen.last <= WITHIN:
            self._seen[client_id] = replace(seen, why=why, last=now)
            return
        if seen is None and len(self._seen) >= MAX_OPERATIONS:
            self._seen = {each: kept for each, kept in self._seen.items() if now - kept.last <= WITHIN}
        if seen is not None or len(self._seen) < MAX_OPERATIONS:
            self._seen[client_id] = _Seen(why=why, first=now, last=now)

    async def flush(self) -> None:
        """Writes the clients that are refused repeatedly: one request, or none if there are no such clients. Raises
        StorageUnavailable."""
        due = {
            client_id: seen
            for client_id, seen in self._seen.items()
            if (seen.last - seen.first >= AGAIN if seen.written is None else seen.last - seen.written >= WRITTEN_EVERY)
        }
        if not due:
            return
        rows = [
            Upsert(row_key(client_id), {"clientId": client_id, "why": seen.why, "last": format_date(seen.last)})
            for client_id, seen in due.items()
        ]
        await self._tables.transact(HEALTH, _PARTITION, rows)
        for client_id, seen in due.items():
            if (goes_on := self._seen.get(client_id)) is not None:
                self._seen[client_id] = replace(goes_on, written=seen.last)

    async def keep_flushing(self) -> None:
        """Flushes every minute, for as long as the process lives. What cannot be written waits for the next time."""
        while True:
            await self._runtime.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except StorageUnavailable:
                log.warning("refused clients cannot be written yet", extra={"action": "refused_wait"})

    async def current(self) -> Mapping[str, RefusedClient]:
        """Clients that were refused lately. Raises StorageUnavailable."""
        return await self._kept.read("", self._find_refused)

    async def measure(self) -> None:
        """Sets the gauge of refused credentials. Raises StorageUnavailable."""
        self._runtime.meter.set(ENDING_CREDENTIALS, len(await self.current()), "refused")

    async def forget(self) -> None:
        """Removes clients that are no longer refused, once an hour, a page at most. Raises StorageUnavailable."""
        now = self._runtime.now()
        if self._forgotten is not None and now - self._forgotten < WITHIN:
            return
        page = await self._tables.query(HEALTH, _PARTITION, start="", end=END)
        for row in page.rows:
            if _refused(row).last < now - LATELY:  # refused where it has just been refused once more
                await try_transact(self._tables, HEALTH, _PARTITION, [Delete(row.key, row.etag)])
        self._forgotten = now

    async def _find_refused(self) -> Mapping[str, RefusedClient]:
        page = await self._tables.query(HEALTH, _PARTITION, start="", end=END)
        found = {str(row.values["clientId"]): _refused(row) for row in page.rows}
        lately = self._runtime.now() - LATELY
        return {client_id: each for client_id, each in sorted(found.items()) if each.last >= lately}
