"""Clients and roles of a process on the in-memory twin, for the tests of both."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.api.scopes import ScopeSet, satisfies
from shared.auth.clients.accounts import Authorise, ClientAccounts, CreateClientRequest
from shared.auth.clients.rows import Client, ClientStore, Refusal
from shared.auth.keyring import TableKeyring
from shared.auth.roles.accounts import CreateRoleRequest, RoleAccounts
from shared.auth.roles.rows import RoleStore
from shared.base.dates import format_date
from shared.base.errors import InsufficientScopes
from shared.base.vault import Vault
from shared.runtime import Runtime
from shared.store.expiring import ExpiryStore
from shared.store.interface import MAX_PAGE, Page, Tables
from tests.parts.twin import MemoryStorage

OLD_KEY = base64.urlsafe_b64encode(b"o" * 32).decode()
KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
ROOT = Client(client_id="root", access_token="root-token-0123456789abcdef", scopes=("*",))


@dataclass
class Deployment:
    """One process on the storage, and its parts."""

    keyring: TableKeyring
    refused: list[tuple[str, Refusal]]
    """The refusals that the keyring has reported."""
    clients: ClientAccounts
    roles: RoleAccounts


class ShortPages:
    """Tables whose pages end early, as those of Azure may."""

    def __init__(self, tables: Tables, size: int) -> None:
        self.get_row = tables.get_row
        self.transact = tables.transact
        self._tables = tables
        self._size = size

    async def query(self, *place: str, limit: int = MAX_PAGE, **given: Any) -> Page:
        return await self._tables.query(*place, limit=min(limit, self._size), **given)


def process(twin: MemoryStorage, keys: Sequence[str] = (KEY,), *, page_size: int = 1000) -> Deployment:
    """Returns a process that has read nothing yet."""
    runtime = Runtime(now=twin.clock.now, sleep=twin.clock.sleep)
    tables = ShortPages(twin.tables, page_size)
    clients, roles, vault = ClientStore(tables), RoleStore(tables, runtime), Vault(keys)
    refused = list[tuple[str, Refusal]]()
    keyring = TableKeyring([ROOT], clients, roles, vault, runtime.now, lambda *each: refused.append(each))
    return Deployment(
        refused=refused,
        keyring=keyring,
        clients=ClientAccounts(clients, keyring, vault, ExpiryStore(twin.storage, runtime.now), runtime),
        roles=RoleAccounts(roles, keyring, runtime),
    )


def holding(*scopes: str) -> Authorise:
    async def authorise(granted: Sequence[str]) -> None:
        if not satisfies(ScopeSet(scopes), {"AllOf": list(granted)}):
            raise InsufficientScopes("missing")

    return authorise


ANYTHING = holding("*")


def client(twin: MemoryStorage, **changes: Any) -> CreateClientRequest:
    body = {
        "description": "a client",
        "expires": format_date(twin.clock.now() + timedelta(days=1)),
        "scopes": ["a", "assume:r"],
        "deleteOnExpiration": False,
    }
    given = {name: value for name, value in {**body, **changes}.items() if value is not ...}
    return CreateClientRequest.model_validate(given)


def role(*scopes: str, description: str = "a role") -> CreateRoleRequest:
    return CreateRoleRequest(description=description, scopes=list(scopes))
