"""The keyring of a deployment: static clients, then the Clients and Roles tables behind a short-lived cache."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from shared.auth.clients.rows import Client, ClientChanged, ClientRecord, ClientStore, Keyring, Refusal
from shared.auth.roles.expansion import Roles
from shared.auth.roles.rows import RoleSnapshot, RoleStore
from shared.base import remembered
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.vault import CannotOpen, Vault
from shared.store.interface import StorageUnavailable

USE_NOTED_EVERY = timedelta(hours=1)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Known:
    client: Client
    record: ClientRecord


class TableKeyring(Keyring):
    """The keyring of a deployment: clients from settings, and those of the tables. A change made through this process
    is seen by it at once, by others within 60 s."""

    def __init__(
        self,
        static: Iterable[Client],
        clients: ClientStore,
        roles: RoleStore,
        vault: Vault,
        now: Callable[[], datetime],
        note_refused: Callable[[str, Refusal], None] | None = None,
    ) -> None:
        """Makes the keyring. `note_refused` is told the id of each client that is refused, and why."""
        super().__init__(static)
        self._clients = clients
        self._roles = roles
        self._vault = vault
        self._now = now
        self._known: Memo[str, _Known | None] = Memo(remembered.CLIENTS, now)
        self._snapshot: Memo[str, RoleSnapshot] = Memo(remembered.ROLES, now)
        self._noting: set[str] = set()
        self._note_refused = note_refused

    @property
    def static(self) -> Mapping[str, Client]:
        """The clients that come from settings, which can't be changed through the API."""
        return self._given

    async def client(self, client_id: str) -> Client | None:
        if client_id in self._given:
            return self._given[client_id]
        known = await self._known.read(client_id, lambda: self._read_keys(client_id))
        return known.client if known else None

    async def roles(self) -> Roles:
        return (await self._snapshot.read("", self._roles.load)).roles

    async def used(self, client: Client) -> None:
        """Notes the use at most once an hour, all processes together. After a failure the next use is noted."""
        if client.client_id in self._given:
            return
        try:
            known = await self._known.read(client.client_id, lambda: self._read_keys(client.client_id))
            if known is not None and self._now() - known.record.last_date_used >= USE_NOTED_EVERY:
                await self._note_use(known)
        except (ClientChanged, StorageUnavailable) as error:
            _log.info("use of a client not noted", extra={"clientId": client.client_id, "reason": type(error).__name__})
            self.forget_client(client.client_id)

    def refused(self, client: Client, why: Refusal) -> None:
        if self._note_refused is not None:
            self._note_refused(client.client_id, why)

    async def _note_use(self, known: _Known) -> None:
        """Writes conditionally (ETag): one of several processes succeeds, and no concurrent change is overwritten."""
        client_id, sealed = known.client.client_id, known.record.sealed_token
        if client_id in self._noting:
            return
        if not self._vault.is_current(sealed):
            sealed = self._vault.seal(client_id, known.client.access_token)
        self._noting.add(client_id)
        changes = self._known.changes
        try:
            record = await self._clients.mark_used(known.record, self._now(), sealed)
        finally:
            self._noting.discard(client_id)
        # Skipped if the client was changed meanwhile, since `client` is the old version.
        self._known.put(client_id, _Known(known.client, record), since=changes)

    def forget_client(self, client_id: str) -> None:
        """Drops a client from the cache: it has just been changed, or may have been."""
        self._known.pop(client_id)

    def forget_roles(self) -> None:
        """Drops the roles from the cache: they have just been changed, or may have been."""
        self._snapshot.pop("")

    async def _read_keys(self, client_id: str) -> _Known | None:
        record = await self._clients.load(client_id)
        if record is None:
            return None
        try:
            token = self._vault.open(client_id, record.sealed_token)
        except CannotOpen:
            _log.error("access token cannot be decrypted with any key", extra={"clientId": client_id})
            if self._note_refused is not None:
                self._note_refused(client_id, "unreadable")
            return None
        replaced_token = None
        if record.replaced_token is not None:
            with suppress(CannotOpen):  # encrypted with a key that is no longer configured
                replaced_token = self._vault.open(client_id, record.replaced_token)
        client = Client(
            client_id=client_id,
            access_token=token,
            scopes=record.scopes,
            expires=record.expires,
            disabled=record.disabled,
            replaced_token=replaced_token,
        )
        return _Known(client, record)
