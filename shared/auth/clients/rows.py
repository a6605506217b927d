"""Clients as authentication sees them, and the Clients table, with encrypted access tokens (design 3)."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Literal

from shared.auth.roles.expansion import Roles
from shared.base.dates import format_date
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass, replace
from shared.runtime import Runtime, attempts
from shared.store.columns import Columns
from shared.store.interface import (
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
from shared.store.partitions import PageReader, rows_of

CLIENT_ID = re.compile(r"[A-Za-z0-9!@/:.+|_-]+")
ROOT_CLIENT_ID = "static/taskcluster/root"
"""Id of the root client, as in every deployment of Taskcluster. It has the scopes `*`, for bootstrapping, and issues
the credentials that the queue hands out."""

Refusal = Literal["disabled", "ended", "token", "unreadable"]
"""Why a client that exists is refused: somebody has disabled it; its time is over; it signs with a token that was
replaced; no key of the deployment opens its token."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """A registered client with its access token in the clear. Nothing prints the token."""

    client_id: str
    access_token: str = field(repr=False)
    scopes: tuple[str, ...]
    """The client's scopes as registered, not expanded."""
    expires: datetime | None = None
    """When the client expires; None if it never does."""
    disabled: bool = False
    retired_tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens from before a rotation: credentials issued with them stay valid, requests signed with them are refused."""
    replaced_token: str | None = field(default=None, repr=False)
    """The token from before a reset: nothing that it signs is valid."""

    @property
    def former_tokens(self) -> tuple[str, ...]:
        """Tokens that only this client can have signed a request with, although such requests are refused."""
        return self.retired_tokens if self.replaced_token is None else (*self.retired_tokens, self.replaced_token)

    @property
    def issuing_tokens(self) -> tuple[str, ...]:
        """Every token that a certificate of this client may have been signed with."""
        return (self.access_token, *self.retired_tokens)


class Keyring:
    """Finds clients and roles for authentication: here those that it was given, whose use and refusals are not noted.
    Answers of `keyring.TableKeyring` may be up to 60 s old (design 2.8), and it may raise StorageUnavailable."""

    def __init__(self, clients: Iterable[Client], roles: Roles | None = None) -> None:
        self._given = {client.client_id: client for client in clients}
        self._roles_given = roles or Roles({})

    async def client(self, client_id: str) -> Client | None:
        """Returns the client of that id, also if it is disabled or expired; None when there is none."""
        return self._given.get(client_id)

    async def roles(self) -> Roles:
        """Returns all roles."""
        return self._roles_given

    async def used(self, client: Client) -> None:
        """Notes that a request was signed by this client, or with credentials that it has issued. Never fails."""

    def refused(self, client: Client, why: Refusal) -> None:
        """Notes that this client, or credentials that it has issued, was just refused. Only a request that somebody
        with a token of the client has signed counts: anybody can send its name. Makes no storage request."""


TABLE = "Clients"
_PARTITION = "clients"
MAX_CLIENT_ID = 500
"""Characters of a client id: it is part of row keys, which hold 512."""
_TERM = ("clientId", "created", "expires", "disabled", "deleteOnExpiration")
_CHUNK = 30_000
"""Characters of the scopes' JSON in one property; a text property holds 32 K."""


class ClientChanged(ServiceError):
    """Somebody else has made, changed or removed the client since it was read."""


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
    creator: str | None = None
    """Id of the client that created it. No other caller gets its token by repeating the call."""
    replaced_token: bytes | None = field(default=None, repr=False)
    """The token from before the last reset, encrypted: what is signed with it comes from this client, and fails."""
    etag: str = ""


class ClientStore:
    """Reads and writes the Clients table. Everything may raise StorageUnavailable."""

    def __init__(self, tables: Tables, runtime: Runtime | None = None) -> None:
        self._tables = tables
        self._runtime = runtime or Runtime()

    async def load(self, client_id: str) -> ClientRecord | None:
        """Returns the client, or None, also for what cannot be a client's id: the caller chooses it."""
        if not is_client_id(client_id):
            return None
        row = await self._tables.get_row(TABLE, _PARTITION, row_key(client_id))
        return None if row is None else _decode(row)

    async def client_row_page(self, prefix: str, *, start: str, limit: int) -> tuple[list[ClientRecord], str | None]:
        """Clients whose id starts with the prefix, from the key `start` on, and where the next page starts."""
        first = row_key(prefix)
        page = await self._tables.query(TABLE, _PARTITION, start=max(first, start), end=first + "\x7f", limit=limit)
        return [_decode(row) for row in page.rows], page.resume

    def terms(self) -> PageReader[Row]:
        """Returns the rows of all clients, page by page, with only the columns that say how long each client works."""
        return rows_of(self._tables, TABLE, _PARTITION, select=_TERM)

    async def add_client_row(self, record: ClientRecord) -> ClientRecord:
        """Adds a client. Raises ClientChanged if there is one, and ValueError when it is too large for a row."""
        (etag,) = await self._write_client(Create(row_key(record.client_id), _encode(record)))
        return replace(record, etag=etag)

    async def replace(self, record: ClientRecord) -> ClientRecord:
        """Writes a client that has been read before. Raises ClientChanged, and ValueError when it is too large."""
        (etag,) = await self._write_client(Replace(row_key(record.client_id), _encode(record), record.etag))
        return replace(record, etag=etag)

    async def mark_used(self, record: ClientRecord, now: datetime, sealed_token: bytes) -> ClientRecord:
        """Notes the time of use and, after a rotation of keys, the token sealed anew. Raises ClientChanged."""
        values: dict[str, Value] = {"lastDateUsed": format_date(now), "accessToken": sealed_token}
        (etag,) = await self._write_client(Merge(row_key(record.client_id), values, record.etag))
        return replace(record, last_date_used=now, sealed_token=sealed_token, etag=etag)

    async def delete_client_row(self, client_id: str) -> bool:
        """Removes a client if it is unchanged since it was read, so that a late request cannot remove a client that was
        created since. Returns whether there was one."""
        return bool(await self._delete_if(client_id))

    async def delete_expired(
        self, client_id: str, now: datetime, ahead: Callable[[], Awaitable[None]] | None = None
    ) -> bool:
        """Removes a client that has expired and is to be deleted then. Returns whether it is gone. `ahead` is awaited
        before the deletion. The expiry job calls this; it leaves a client that was prolonged, since that one has a
        later row in the Expiry table. If the client changes meanwhile, it is judged again."""

        async def may_go(record: ClientRecord) -> bool:
            has_expired = record.delete_on_expiration and record.expires <= now
            if has_expired and ahead is not None:
                await ahead()
            return has_expired

        return await self._delete_if(client_id, may_go) is not False

    async def _delete_if(
        self, client_id: str, may_go: Callable[[ClientRecord], Awaitable[bool]] | None = None
    ) -> bool | None:
        """Removes a client if `may_go` allows it; returns whether it did, None if there is no such client."""
        async for _ in attempts(self._runtime):
            record = await self.load(client_id)
            if record is None:
                return None
            if may_go is not None and not await may_go(record):
                return False
            with suppress(ClientChanged):
                await self._write_client(Delete(row_key(client_id), record.etag))
                return True
        raise StorageUnavailable("the client is being changed all the time")

    async def _write_client(self, operation: Create | Merge | Replace | Delete) -> list[str]:
        try:
            return await self._tables.transact(TABLE, _PARTITION, [operation])
        except TransactionRefused:
            raise ClientChanged from None


def is_client_id(client_id: str) -> bool:
    """Returns whether a registered client may have this id (contract 11.3), and a row this key."""
    return CLIENT_ID.fullmatch(client_id) is not None and len(client_id) <= MAX_CLIENT_ID


def row_key(client_id: str) -> str:
    """Returns the id with tildes for slashes, which keys forbid. Client ids hold no tilde, so the key of a prefix is a
    prefix of the key."""
    return client_id.replace("/", "~")


def pack_scopes(scopes: Sequence[str]) -> dict[str, Value]:
    """Properties that hold a list of scopes as JSON; a long list takes several."""
    text = json.dumps(scopes, separators=(",", ":"))
    return {f"scopes{number:02}": text[at : at + _CHUNK] for number, at in enumerate(range(0, len(text), _CHUNK))}


def unpack_scopes(values: Mapping[str, Value]) -> tuple[str, ...]:
    """Returns the scopes that `pack_scopes` has packed into properties."""
    parts = sorted(name for name in values if name.startswith("scopes"))
    return tuple(json.loads("".join(str(values[name]) for name in parts)))


_COLUMNS = Columns(ClientRecord, without={"scopes", "etag"}, renamed={"sealed_token": "accessToken"})


def _encode(record: ClientRecord) -> dict[str, Value]:
    return {**_COLUMNS.encode(record), **pack_scopes(record.scopes)}


def _decode(row: Row) -> ClientRecord:
    return _COLUMNS.decode(row.values, scopes=unpack_scopes(row.values), etag=row.etag)
