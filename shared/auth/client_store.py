"""The Clients table: one row a client, its access token encrypted (design 3)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import cast

from shared.auth.clients import CLIENT_ID
from shared.domain.dates import format_date, parse_date
from shared.errors import ServiceError
from shared.frozen import dataclass
from shared.runtime import Runtime, attempts
from shared.storage.interface import (
    Create,
    Delete,
    Merge,
    Replace,
    Row,
    StorageUnavailable,
    Tables,
    TransactionRefused,
    Value,
)
from shared.storage.partitions import PageReader

TABLE = "Clients"
_PARTITION = "clients"
MAX_CLIENT_ID = 500
"""Characters of a client id: it is part of row keys, which hold 512."""
_TERM = ("clientId", "created", "expires", "disabled", "deleteOnExpiration")
_CHUNK = 30_000
"""Characters of the scopes' JSON per property; a text property holds 32 K."""


class ClientExists(ServiceError):
    """There is a client of that id already."""


class ClientChanged(ServiceError):
    """Somebody else has changed or removed the client since it was read."""


@dataclass(frozen=True, kw_only=True)
class ClientRecord:
    """All that is stored of a client. `etag` is empty for one that has not been read from the table."""

    client_id: str
    sealed_token: bytes = field(repr=False)
    description: str
    scopes: tuple[str, ...]
    expires: datetime
    disabled: bool
    delete_on_expiration: bool
    created: datetime
    last_modified: datetime
    last_date_used: datetime
    last_rotated: datetime
    etag: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientTerm:
    """How long a client works."""

    client_id: str
    created: datetime
    expires: datetime
    stays: bool
    """Somebody has to prolong it: it is not disabled, and does not ask to be removed at its end."""


class ClientStore:
    """Reads and writes the Clients table. Everything may raise StorageUnavailable."""

    def __init__(self, tables: Tables, runtime: Runtime | None = None) -> None:
        self._tables = tables
        self._runtime = runtime or Runtime()

    async def load(self, client_id: str) -> ClientRecord | None:
        """The client, or None, also for what cannot be a client's id: the caller chooses it."""
        if not is_client_id(client_id):
            return None
        row = await self._tables.get(TABLE, _PARTITION, row_key(client_id))
        return None if row is None else _decode(row)

    async def page(self, prefix: str, *, start: str, limit: int) -> tuple[list[ClientRecord], str | None]:
        """Clients whose id starts with the prefix, from the key `start` on, and where the next page starts."""
        first = row_key(prefix)
        page = await self._tables.query(TABLE, _PARTITION, start=max(first, start), end=first + "\x7f", limit=limit)
        return [_decode(row) for row in page.rows], page.resume

    def terms(self) -> PageReader[ClientTerm]:
        """How long each client works, page after page; of each row only what tells that."""

        async def read(start: str | None) -> tuple[list[ClientTerm], str | None]:
            page = await self._tables.query(TABLE, _PARTITION, start=start or "", end="\x7f", select=_TERM)
            return [_term(row) for row in page.rows], page.resume

        return PageReader(read)

    async def create(self, record: ClientRecord) -> ClientRecord:
        """Adds a client. Raises ClientExists, and ValueError when it is too large for a row."""
        try:
            (etag,) = await self._tables.transact(
                TABLE, _PARTITION, [Create(row_key(record.client_id), _encode(record))]
            )
        except TransactionRefused:
            raise ClientExists from None
        return replace(record, etag=etag)

    async def replace(self, record: ClientRecord) -> ClientRecord:
        """Writes a client that has been read before. Raises ClientChanged, and ValueError when it is too large."""
        (etag,) = await self._write(Replace(row_key(record.client_id), _encode(record), record.etag))
        return replace(record, etag=etag)

    async def mark_used(self, record: ClientRecord, now: datetime, sealed_token: bytes) -> ClientRecord:
        """Notes the time of use and, after a rotation of keys, the token sealed anew. Raises ClientChanged."""
        values: dict[str, Value] = {"lastDateUsed": format_date(now), "accessToken": sealed_token}
        (etag,) = await self._write(Merge(row_key(record.client_id), values, record.etag))
        return replace(record, last_date_used=now, sealed_token=sealed_token, etag=etag)

    async def delete(self, client_id: str) -> bool:
        """Removes a client as it was read, so that a request that takes effect late removes none that came since.

        Returns whether there was one.
        """
        async for _ in attempts(self._runtime):
            record = await self.load(client_id)
            if record is None:
                return False
            try:
                await self._write(Delete(row_key(client_id), record.etag))
            except ClientChanged:
                continue
            return True
        raise StorageUnavailable("the client is being changed all the time")

    async def delete_expired(
        self, client_id: str, now: datetime, ahead: Callable[[], Awaitable[None]] | None = None
    ) -> bool:
        """Removes the client if it has expired and asked for that. Returns whether it is gone;
        `ahead` comes before that.

        For the cleaning up of what the Expiry table says is due; a client that was prolonged stays, as it has a later
        row there. One that was changed meanwhile is judged again: a change need not prolong it.
        """
        async for _ in attempts(self._runtime):
            record = await self.load(client_id)
            if record is None:
                return True
            if not record.delete_on_expiration or record.expires > now:
                return False
            if ahead is not None:
                await ahead()
            try:
                await self._write(Delete(row_key(client_id), record.etag))
            except ClientChanged:
                continue
            return True
        raise StorageUnavailable("the client is being changed all the time")

    async def _write(self, operation: Merge | Replace | Delete) -> list[str]:
        try:
            return await self._tables.transact(TABLE, _PARTITION, [operation])
        except TransactionRefused:
            raise ClientChanged from None


def is_client_id(client_id: str) -> bool:
    """Whether a registered client may have this id (contract 11.3), and a row this key."""
    return CLIENT_ID.fullmatch(client_id) is not None and len(client_id) <= MAX_CLIENT_ID


def row_key(client_id: str) -> str:
    """The slash is not allowed in keys, and the tilde not in client ids: prefixes stay prefixes."""
    return client_id.replace("/", "~")


def pack_scopes(scopes: Sequence[str]) -> dict[str, Value]:
    """Properties that hold a list of scopes as JSON; a long list takes several."""
    text = json.dumps(scopes, separators=(",", ":"))
    return {f"scopes{number:02}": text[at : at + _CHUNK] for number, at in enumerate(range(0, len(text), _CHUNK))}


def unpack_scopes(values: Mapping[str, Value]) -> tuple[str, ...]:
    """The scopes again."""
    parts = sorted(name for name in values if name.startswith("scopes"))
    return tuple(json.loads("".join(str(values[name]) for name in parts)))


def _encode(record: ClientRecord) -> dict[str, Value]:
    return {
        "clientId": record.client_id,
        "accessToken": record.sealed_token,
        "description": record.description,
        "expires": format_date(record.expires),
        "disabled": record.disabled,
        "deleteOnExpiration": record.delete_on_expiration,
        "created": format_date(record.created),
        "lastModified": format_date(record.last_modified),
        "lastDateUsed": format_date(record.last_date_used),
        "lastRotated": format_date(record.last_rotated),
        **pack_scopes(record.scopes),
    }


def _decode(row: Row) -> ClientRecord:
    values = row.values
    return ClientRecord(
        client_id=str(values["clientId"]),
        sealed_token=cast("bytes", values["accessToken"]),
        description=str(values["description"]),
        scopes=unpack_scopes(values),
        expires=parse_date(str(values["expires"])),
        disabled=bool(values["disabled"]),
        delete_on_expiration=bool(values["deleteOnExpiration"]),
        created=parse_date(str(values["created"])),
        last_modified=parse_date(str(values["lastModified"])),
        last_date_used=parse_date(str(values["lastDateUsed"])),
        last_rotated=parse_date(str(values["lastRotated"])),
        etag=row.etag,
    )


def _term(row: Row) -> ClientTerm:
    values = row.values
    return ClientTerm(
        client_id=str(values["clientId"]),
        created=parse_date(str(values["created"])),
        expires=parse_date(str(values["expires"])),
        stays=not (values["disabled"] or values["deleteOnExpiration"]),
    )
