"""Clients and roles of a process on the in-memory twin, for the tests of both."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.auth.client_store import ClientStore
from shared.auth.clients import root_client
from shared.auth.keyring import TableKeyring
from shared.auth.role_store import RoleStore
from shared.auth.scopes import satisfies
from shared.auth.vault import Vault
from shared.domain.dates import format_date
from shared.errors import (
    InsufficientScopes,
)
from shared.runtime import Runtime
from shared.storage.expiry import ExpiryStore
from shared.usecases.clients import Authorise, ClientAccounts, ClientRequest
from shared.usecases.roles import RoleAccounts, RoleRequest
from tests.twin import MemoryStorage

OLD_KEY = base64.urlsafe_b64encode(b"o" * 32).decode()
KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
ROOT = root_client("root", "root-token-0123456789abcdef")


@dataclass
class Deployment:
    """One process on the storage."""

    keyring: TableKeyring
    clients: ClientAccounts
    roles: RoleAccounts


def process(twin: MemoryStorage, keys: Sequence[str] = (KEY,)) -> Deployment:
    runtime = Runtime(now=twin.clock.now, sleep=twin.clock.sleep)
    clients, roles, vault = ClientStore(twin.tables), RoleStore(twin.tables), Vault(keys)
    keyring = TableKeyring([ROOT], clients, roles, vault, runtime.now)
    return Deployment(
        keyring=keyring,
        clients=ClientAccounts(clients, keyring, vault, ExpiryStore(twin.storage), runtime),
        roles=RoleAccounts(roles, keyring, runtime),
    )


def holding(*scopes: str) -> Authorise:
    async def authorise(granted: Sequence[str]) -> None:
        if not satisfies(scopes, {"AllOf": list(granted)}):
            raise InsufficientScopes("missing")

    return authorise


ANYTHING = holding("*")


def client(twin: MemoryStorage, **changes: Any) -> ClientRequest:
    body = {
        "description": "a client",
        "expires": format_date(twin.clock.now() + timedelta(days=1)),
        "scopes": ["a", "assume:r"],
        "deleteOnExpiration": False,
    }
    return ClientRequest.of({name: value for name, value in {**body, **changes}.items() if value is not ...})


def role(*scopes: str, description: str = "a role") -> RoleRequest:
    return RoleRequest.of({"description": description, "scopes": list(scopes)})
