"""Clients as authentication sees them, and the keyring that it asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import Literal, Protocol

from shared.auth.expansion import Roles
from shared.frozen import dataclass

CLIENT_ID = re.compile(r"[A-Za-z0-9!@/:.+|_-]+")
ROOT_CLIENT_ID = "static/taskcluster/root"
"""As in every deployment of Taskcluster: it has the scopes `*`, for bootstrapping, and issues what the queue signs."""
ACCESS_TOKEN = re.compile(r"[a-zA-Z0-9_-]{22,66}")

Refusal = Literal["disabled", "ended", "token", "unreadable"]
"""Why a client that exists is refused: somebody has disabled it; its time is over; what was signed was signed with
another token, or for another URL; no key of the deployment opens its token."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """A registered client with its access token in the clear. Nothing prints the token."""

    client_id: str
    access_token: str = field(repr=False)
    scopes: tuple[str, ...]
    """As registered: not expanded."""
    expires: datetime | None = None
    """When it stops to work; None for never."""
    disabled: bool = False
    retired_tokens: tuple[str, ...] = field(default=(), repr=False)
    """Tokens from before a rotation: what was issued with them stays valid, requests signed with them are not."""

    @property
    def issuing_tokens(self) -> tuple[str, ...]:
        """Every token that a certificate of this client may have been signed with."""
        return (self.access_token, *self.retired_tokens)


class Keyring(Protocol):
    """Where authentication finds clients and roles. Answers may be up to 60 s old (design 2.8)."""

    async def client(self, client_id: str) -> Client | None:
        """The client of that id, disabled or expired ones included; None when there is none.

        Raises shared.storage.interface.StorageUnavailable.
        """
        ...

    async def roles(self) -> Roles:
        """All roles. Raises shared.storage.interface.StorageUnavailable."""
        ...

    async def used(self, client: Client) -> None:
        """Notes that this client has just proved itself, or has issued credentials that were. Never fails."""
        ...

    def refused(self, client: Client, why: Refusal) -> None:
        """Notes that credentials of this client, or ones that it has issued, were just refused. No request."""
        ...


class StaticClients:
    """A keyring of clients that come from settings, as the root client does. It knows the roles it was given."""

    def __init__(self, clients: Iterable[Client], roles: Roles | None = None) -> None:
        self._clients = {client.client_id: client for client in clients}
        self._roles = roles or Roles({})

    async def client(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    async def roles(self) -> Roles:
        return self._roles

    async def used(self, client: Client) -> None:
        """Nothing is noted of static clients."""

    def refused(self, client: Client, why: Refusal) -> None:
        """Nothing is noted of static clients."""


def root_client(client_id: str, access_token: str, previous_token: str | None = None) -> Client:
    """The client of a deployment's operator, which may do everything; it also issues the credentials of claims.

    Raises ValueError for an id or a token that clients may not have (contract 11.3).
    """
    if CLIENT_ID.fullmatch(client_id) is None:
        raise ValueError(f"{client_id!r} cannot be a client id")
    if not all(ACCESS_TOKEN.fullmatch(token) for token in (access_token, previous_token) if token is not None):
        raise ValueError(f"the access token of {client_id} must be 22 to 66 letters, digits, - or _")
    retired = () if previous_token is None else (previous_token,)
    return Client(client_id=client_id, access_token=access_token, scopes=("*",), retired_tokens=retired)
