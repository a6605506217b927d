"""Clients as the auth API manages them: who may make, change and remove them, and what is shown of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any

from pydantic import StringConstraints

from shared.api.scopes import ScopeSet
from shared.auth.audit import Entry, describe, note_change
from shared.auth.clients.rows import (
    MAX_CLIENT_ID,
    Client,
    ClientChanged,
    ClientRecord,
    ClientStore,
    is_client_id,
    row_key,
)
from shared.auth.keyring import TableKeyring
from shared.auth.roles.expansion import ExpansionTooLarge
from shared.base import bounds
from shared.base.dates import format_date, parse_date
from shared.base.errors import InputError, RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.types import Closed, Date, Scope, Unique, optional
from shared.base.vault import CannotOpen, Vault
from shared.runtime import Runtime, attempts
from shared.store.expiring import ExpiryStore

REPEATABLE = timedelta(minutes=15)
"""How long after its creation an equal createClient counts as a repeat of the same call."""
ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""Creation and modification time shown for static clients, for which none are recorded."""
NEVER = datetime(3000, 1, 1, tzinfo=UTC)
"""Expiration shown for clients that never expire: the API requires a date."""

_CONTENDED = "the client is being changed by others; send the call again"

Authorise = Callable[[Sequence[str]], Awaitable[None]]
"""Raises InsufficientScopes unless the caller may make the call, granting these scopes."""

Description = Annotated[str, StringConstraints(max_length=10240)]


class CreateClientRequest(Closed):
    """The purpose, lifetime and scopes of a client. Without scopes an update leaves them as they are."""

    expires: Date
    deleteOnExpiration: bool = False
    description: Description
    scopes: Unique[Scope] = optional()


@dataclass(frozen=True, eq=False)
class ClientAccounts:
    """The registered clients. Static ones, from the settings, are not among them and can't be changed here. Everything
    may raise StorageUnavailable."""

    _clients: ClientStore
    _keyring: TableKeyring
    _vault: Vault
    _expiry: ExpiryStore
    _runtime: Runtime

    async def client_page(self, prefix: str, *, start: str, limit: int) -> tuple[list[dict[str, Any]], str | None]:
        """Clients whose id starts with the prefix, beginning at a key, and the key at which the next page starts.
        Static clients are among them. A page ends early if the expanded scopes of its clients have too many characters.
        """
        records, resume = await self._clients.client_row_page(prefix, start=start, limit=limit)
        keys = {row_key(record.client_id): record for record in records} | {
            key: _static_record(client)
            for client_id, client in self._keyring.static.items()
            if client_id.startswith(prefix)
            and start <= (key := row_key(client_id))
            and (resume is None or key < resume)
        }
        found: list[dict[str, Any]] = []
        text = 0
        for key in sorted(keys):
            if len(found) == limit or text > bounds.PAGE_OF_SCOPES:
                return found, key
            found.append(await self._described(keys[key]))
            text += sum(map(len, found[-1]["expandedScopes"])) + sum(map(len, found[-1]["scopes"]))
            await asyncio.sleep(0)  # lets other calls run: expansions take long
        return found, resume

    async def find_client(self, client_id: str) -> dict[str, Any]:
        """Returns one client, without its token; also a static one. Raises ResourceNotFound."""
        static = self._keyring.static.get(client_id)
        record = await self._existing(client_id) if static is None else _static_record(static)
        return await self._described(record)

    async def make_client(
        self,
        client_id: str,
        request: CreateClientRequest,
        authorise: Authorise,
        entry: Entry | None = None,
        *,
        creator: str | None = None,
    ) -> dict[str, Any]:
        """Makes a client and returns it with its token, which cannot be read again. A repeat by the same `creator`
        within 15 minutes returns the same. Raises InputError, InsufficientScopes, RequestConflict."""
        scopes = tuple(request.scopes or ())
        refuse_double_stars(scopes)
        self._refuse_static(client_id)
        if not is_client_id(client_id):
            raise InputError(f"a client id has at most {MAX_CLIENT_ID} characters")
        describe(entry, old=(), new=scopes, others={})
        await authorise(scopes)
        await self._refuse_too_many(scopes)
        now = self._runtime.now()
        token = self._new_token()
        record = ClientRecord(
            client_id=client_id,
            sealed_token=self._vault.seal(client_id, token),
            description=request.description,
            scopes=scopes,
            expires=parse_date(request.expires),
            disabled=False,
            delete_on_expiration=request.deleteOnExpiration,
            created=now,
            last_modified=now,
            last_date_used=now,
            last_rotated=now,
            creator=creator,
        )
        await self._schedule_deletion(record)
        try:
            async for _ in attempts(self._runtime):
                made = await self._written(self._clients.add_client_row(record), entry)
                if made is None:
                    note_change(entry, False)
                    made = await self._clients.load(client_id)
                    if made is None:
                        continue  # it has just been deleted
                    note_change(entry, made.sealed_token == record.sealed_token)  # the answer to our own write was lost
                    token = self._same_token(made, record)
                return {**await self._described(made), "accessToken": token}
        finally:
            self._keyring.forget_client(client_id)  # also when the answer was lost: the client may be there
        raise ServiceUnavailable(_CONTENDED)

    async def _written(
        self, write: Awaitable[ClientRecord], entry: Entry | None, *, happens: bool = True
    ) -> ClientRecord | None:
        """Returns what was written, None if somebody else has changed the client. Notes in the entry whether this
        changes something. Raises InputError if the client is too large."""
        note_change(entry, None)
        try:
            written = await write
        except ValueError as error:
            note_change(entry, False)
            raise InputError(f"the client is too large: {error}") from None
        except ClientChanged:
            return None
        note_change(entry, happens)
        return written

    async def update(
        self,
        client_id: str,
        request: CreateClientRequest,
        authorise: Authorise,
        entry: Entry | None = None,
        *,
        read: str = "",
    ) -> dict[str, Any]:
        """Changes a client, if it was last modified at the time `read`, where that is given. The caller needs only the
        scopes that are new to the client. Raises InputError, ResourceNotFound, RequestConflict, InsufficientScopes,
        ServiceUnavailable."""
        refuse_double_stars(request.scopes or ())
        expires, tried = parse_date(request.expires), list[ClientRecord]()

        async def changed(record: ClientRecord) -> ClientRecord:
            if not any(_is_same(record, each) for each in tried):
                refuse_changed(record.last_modified, read)
            had = ScopeSet(record.scopes)
            scopes = record.scopes if request.scopes is None else tuple(request.scopes)
            others = {
                "description": record.description != request.description,
                "expires": record.expires != expires,
                "deleteOnExpiration": record.delete_on_expiration != request.deleteOnExpiration,
            }
            describe(entry, old=record.scopes, new=scopes, others=others)
            await authorise([scope for scope in scopes if scope not in had])
            if request.scopes is not None:
                await self._refuse_too_many(scopes)
            changed = replace(
                record,
                description=request.description,
                expires=expires,
                scopes=scopes,
                delete_on_expiration=request.deleteOnExpiration,
                last_modified=self._runtime.now(),
            )
            await self._schedule_deletion(changed)
            tried.append(changed)
            return changed

        return await self._change_client(client_id, changed, entry)

    async def set_disabled(self, client_id: str, disabled: bool, entry: Entry | None = None) -> dict[str, Any]:
        """Switches a client off or on. Raises InputError, ResourceNotFound, ServiceUnavailable."""

        async def changed(record: ClientRecord) -> ClientRecord:
            return replace(record, disabled=disabled)

        return await self._change_client(client_id, changed, entry)

    async def reset_access_token(self, client_id: str, entry: Entry | None = None) -> dict[str, Any]:
        """Returns a new token in place of the old one. Raises InputError, ResourceNotFound, ServiceUnavailable."""
        token = self._new_token()

        async def changed(record: ClientRecord) -> ClientRecord:
            sealed = self._vault.seal(client_id, token)
            now = self._runtime.now()
            return replace(
                record, sealed_token=sealed, replaced_token=record.sealed_token, last_rotated=now, last_modified=now
            )

        return {**await self._change_client(client_id, changed, entry), "accessToken": token}

    async def remove_client(self, client_id: str, entry: Entry | None = None) -> None:
        """Removes a client, if there is one of that id. Raises InputError."""
        self._refuse_static(client_id)
        try:
            if is_client_id(client_id):
                was_there = await self._clients.load(client_id) is not None
                note_change(entry, None if was_there else False)
                if await self._clients.delete_client_row(client_id):
                    note_change(entry, True)
        finally:
            self._keyring.forget_client(client_id)

    async def _change_client(
        self, client_id: str, changed: Callable[[ClientRecord], Awaitable[ClientRecord]], entry: Entry | None
    ) -> dict[str, Any]:
        """Reads the client, computes the changed one, and writes it on condition that nobody else has changed it
        (ETag). Starts again if somebody has. Returns the client as it is shown."""
        self._refuse_static(client_id)
        tried: list[ClientRecord] = []
        async for _ in attempts(self._runtime):
            existing = await self._existing(client_id)
            record = await changed(existing)
            # The answer to an earlier write of this call may have been lost. In that case the record is what that write
            # has written.
            happens = any(_is_same(existing, each) for each in tried) or not _is_same(existing, record)
            tried.append(record)
            try:
                written = await self._written(self._clients.replace(record), entry, happens=happens)
            finally:
                self._keyring.forget_client(client_id)
            if written is not None:
                return await self._described(written)
        raise ServiceUnavailable(_CONTENDED)

    async def _existing(self, client_id: str) -> ClientRecord:
        record = await self._clients.load(client_id)
        if record is None:
            raise ResourceNotFound(f"Client {client_id} not found")
        return record

    def _same_token(self, record: ClientRecord, wanted: ClientRecord) -> str:
        """Returns the token of a client that is there already, if this call repeats the one that made it. Somebody else
        who may create the client does not get it so: what is done with it would be noted as the client's. Raises
        RequestConflict."""
        compared = attrgetter("creator", "description", "expires", "scopes", "delete_on_expiration")
        is_same = compared(record) == compared(wanted) and not record.disabled
        if is_same and wanted.created - record.created <= REPEATABLE:
            with suppress(CannotOpen):  # encrypted with a key that is no longer configured: this is no repeat
                return self._vault.open(record.client_id, record.sealed_token)
        raise RequestConflict(f"There is a client {record.client_id} already, and it is another one")

    async def _schedule_deletion(self, record: ClientRecord) -> None:
        """Schedules the client's deletion before the client is written. The expiry job checks the client first."""
        if record.delete_on_expiration:
            due = max(record.expires, self._runtime.now())
            words, values = (row_key(record.client_id),), {"clientId": record.client_id}
            await self._expiry.schedule(due, "client", words, values)

    async def _described(self, record: ClientRecord) -> dict[str, Any]:
        roles = await self._keyring.roles()
        return {
            "clientId": record.client_id,
            "expires": format_date(record.expires),
            "deleteOnExpiration": record.delete_on_expiration,
            "description": record.description,
            "created": format_date(record.created),
            "lastModified": format_date(record.last_modified),
            "lastDateUsed": format_date(record.last_date_used),
            "lastRotated": format_date(record.last_rotated),
            "scopes": list(record.scopes),
            "expandedScopes": roles.shown(record.scopes),
            "disabled": record.disabled,
        }

    async def _refuse_too_many(self, scopes: Sequence[str]) -> None:
        """Raises InputError if the expansion of the scopes would exceed what one request may cost."""
        roles = await self._keyring.roles()
        try:
            roles.expand(scopes)
        except ExpansionTooLarge as error:
            raise InputError(str(error)) from None

    def _new_token(self) -> str:
        return self._runtime.slugid() + self._runtime.slugid()

    def _refuse_static(self, client_id: str) -> None:
        if client_id in self._keyring.static or client_id.startswith("static/"):
            raise InputError(f"{client_id} is a static client: it can be changed in the settings only")


def _is_same(one: ClientRecord, other: ClientRecord) -> bool:
    """Returns whether two records are equal, apart from the times of their last use and change."""
    return one == replace(other, etag=one.etag, last_modified=one.last_modified, last_date_used=one.last_date_used)


def _static_record(client: Client) -> ClientRecord:
    """Returns a client from the settings, as if it were registered: created long ago, and without an end."""
    return ClientRecord(
        client_id=client.client_id,
        sealed_token=b"",
        description="Static client: it comes from the settings of the deployment, and can be changed there only",
        scopes=client.scopes,
        expires=client.expires or NEVER,
        disabled=client.disabled,
        delete_on_expiration=False,
        created=ALWAYS,
        last_modified=ALWAYS,
        last_date_used=ALWAYS,
        last_rotated=ALWAYS,
    )


def refuse_changed(last_modified: datetime, read: str) -> None:
    """Raises RequestConflict if the caller has read something else than what is there now; `read` empty: whatever is
    there may be changed."""
    if read and format_date(last_modified) != read:
        raise RequestConflict("It has been changed since it was read; read it again")


def refuse_double_stars(scopes: Sequence[str]) -> None:
    """Raises InputError for scopes that end in two stars (contract 11.5)."""
    for scope in scopes:
        if scope.endswith("**"):
            raise InputError(f"scopes must not end with `**`: {scope}")
