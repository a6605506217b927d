"""Signed URLs (SAS): access to one queue or blob for a while, without credentials of the account (design 4 and 8).

Signed with the account's key where there is one, else with a key that Azure delegates to the app's identity
("user delegation").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from shared.base.concurrency import OneByOne
from shared.store.interface import SignedQueue
from shared.store.names import Names

if TYPE_CHECKING:  # loaded with the first URL
    from azure.storage.blob import UserDelegationKey as BlobDelegationKey
    from azure.storage.queue import UserDelegationKey

DELEGATED_FOR = timedelta(days=4)
"""Life of a delegated key (Azure: 7 days at most). It is replaced at half of it, so that URLs can live for two days."""


Delegated = TypeVar("Delegated")
"""A delegated key: each service has its own."""


class DelegatedKey(Generic[Delegated]):
    """A key of the app's identity: asked for once in two days, and kept."""

    def __init__(self, fetch: Callable[[datetime, datetime], Awaitable[Delegated]]) -> None:
        """`fetch` asks Azure for a key that is valid from the first time to the second."""
        self._fetch = fetch
        self._renewals = OneByOne()
        self._key: tuple[datetime, Delegated] | None = None

    async def current(self, start: datetime, expiry: datetime) -> Delegated:
        """The key at hand, or a fresh one when it would not outlast the expiry by half its life."""

        async def renewed() -> Delegated:
            if self._key is None or not self._key[0] <= start or expiry > self._key[0] + DELEGATED_FOR / 2:
                self._key = start, await self._fetch(start, start + DELEGATED_FOR)
            return self._key[1]

        return await self._renewals.run(renewed)


class SignedAccess:
    """Signs URLs of one account. Implements `interface.Access`."""

    def __init__(
        self,
        account: str,
        *,
        queue_endpoint: str,
        blob_endpoint: str,
        names: Names,
        queue_key: str | DelegatedKey[UserDelegationKey],
        blob_key: str | DelegatedKey[BlobDelegationKey],
        ensure_container: Callable[[str], Awaitable[None]],
    ) -> None:
        """Signs with the account's key, or with delegated ones. `ensure_container` creates a missing container, which
        the holder of a signed URL cannot do.
        """
        self._account = account
        self._queue_endpoint = queue_endpoint
        self._blob_endpoint = blob_endpoint
        self._names = names
        self._queue_key = queue_key
        self._blob_key = blob_key
        self._ensure_container = ensure_container

    async def process_queue(self, queue: str, *, start: datetime, expiry: datetime) -> SignedQueue:
        from azure.storage.queue import QueueSasPermissions, generate_queue_sas

        name = self._names.queue(queue)
        key = self._queue_key if isinstance(self._queue_key, str) else await self._queue_key.current(start, expiry)
        sas = generate_queue_sas(
            self._account,
            name,
            account_key=key if isinstance(key, str) else None,
            user_delegation_key=None if isinstance(key, str) else key,
            permission=QueueSasPermissions(process=True),
            start=start,
            expiry=expiry,
            protocol=_protocol(self._queue_endpoint),
        )
        return SignedQueue(url=f"{self._queue_endpoint}/{name}", sas=sas)

    async def read_blob(
        self,
        container: str,
        path: str,
        *,
        start: datetime,
        expiry: datetime,
        content_type: str,
        content_disposition: str,
    ) -> str:
        headers = {"content_type": content_type, "content_disposition": content_disposition}
        shown = {name: value for name, value in headers.items() if value}
        return await self._blob(container, path, "r", start, expiry, **shown)

    async def write_blob(self, container: str, path: str, *, start: datetime, expiry: datetime) -> str:
        await self._ensure_container(container)
        return await self._blob(container, path, "w", start, expiry)

    def plain_url(self, container: str, path: str) -> str:
        return f"{self._blob_endpoint}/{self._names.container(container)}/{quote(path)}"

    async def _blob(
        self, container: str, path: str, permission: str, start: datetime, expiry: datetime, **headers: Any
    ) -> str:
        from azure.storage.blob import BlobSasPermissions, generate_blob_sas

        key = self._blob_key if isinstance(self._blob_key, str) else await self._blob_key.current(start, expiry)
        sas = generate_blob_sas(
            self._account,
            self._names.container(container),
            path,
            account_key=key if isinstance(key, str) else None,
            user_delegation_key=None if isinstance(key, str) else key,
            permission=BlobSasPermissions.from_string(permission),
            start=start,
            expiry=expiry,
            protocol=_protocol(self._blob_endpoint),
            **headers,
        )
        return f"{self.plain_url(container, path)}?{sas}"


def _protocol(endpoint: str) -> str:
    """Signed URLs of an https service are restricted to https."""
    return "https" if endpoint.startswith("https:") else "https,http"
