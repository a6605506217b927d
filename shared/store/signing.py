"""Signed URLs (SAS): access to one queue or blob for a while, without credentials of the account (design 4 and 8).

Signed with the account's key where there is one, else with a key that Azure delegates to the app's identity
("user delegation")."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from shared.base.concurrency import OneByOne
from shared.base.frozen import dataclass
from shared.store.interface import SignedQueue

DELEGATED_FOR = timedelta(days=4)
"""Life of a delegated key (Azure: 7 days at most). It is replaced at half of it, so that URLs can live for two days."""


class DelegatedKey:
    """A key of the app's identity that Azure delegates: it is asked for once in two days, and kept. Each service has a
    type of its own for it."""

    def __init__(self, fetch: Callable[[datetime, datetime], Awaitable[object]]) -> None:
        """Takes a function that asks Azure for a key that is valid from the first time to the second."""
        self._fetch = fetch
        self._renewals = OneByOne()
        self._key: tuple[datetime, object] | None = None

    async def current(self, start: datetime, expiry: datetime) -> object:
        """Returns the key at hand, or a fresh one when the key would not outlast the expiry by half its life."""

        async def renewed() -> object:
            if self._key is None or not self._key[0] <= start or expiry > self._key[0] + DELEGATED_FOR / 2:
                self._key = start, await self._fetch(start, start + DELEGATED_FOR)
            return self._key[1]

        return await self._renewals.run(renewed)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SignedAccess:
    """Signs URLs of one account, with its key or with delegated ones. Implements `interface.Access`."""

    account: str
    queue_endpoint: str
    blob_endpoint: str
    queue_key: str | DelegatedKey
    blob_key: str | DelegatedKey
    ensure_container: Callable[[str], Awaitable[None]]
    """Creates a missing container, which the holder of a signed URL cannot do."""

    async def process_queue(self, queue: str, *, start: datetime, expiry: datetime) -> SignedQueue:
        from azure.storage.queue import QueueSasPermissions, generate_queue_sas

        sas = generate_queue_sas(
            self.account,
            queue,
            permission=QueueSasPermissions(process=True),
            **await _signing(self.queue_key, self.queue_endpoint, start, expiry),
        )
        return SignedQueue(url=f"{self.queue_endpoint}/{queue}", sas=sas)

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
        await self.ensure_container(container)
        return await self._blob(container, path, "w", start, expiry)

    def plain_url(self, container: str, path: str) -> str:
        return f"{self.blob_endpoint}/{container}/{quote(path)}"

    async def _blob(
        self, container: str, path: str, permission: str, start: datetime, expiry: datetime, **headers: Any
    ) -> str:
        from azure.storage.blob import BlobSasPermissions, generate_blob_sas

        sas = generate_blob_sas(
            self.account,
            container,
            path,
            permission=BlobSasPermissions.from_string(permission),
            **await _signing(self.blob_key, self.blob_endpoint, start, expiry),
            **headers,
        )
        return f"{self.plain_url(container, path)}?{sas}"


async def _signing(key: str | DelegatedKey, endpoint: str, start: datetime, expiry: datetime) -> dict[str, Any]:
    """Returns the arguments for the SDK's signing of a URL that is valid for that time. It allows https alone for a
    service that has it."""
    by: dict[str, Any] = {"account_key": key} if isinstance(key, str) else {}
    if not isinstance(key, str):
        by["user_delegation_key"] = await key.current(start, expiry)
    protocol = "https" if endpoint.startswith("https:") else "https,http"
    return {**by, "start": start, "expiry": expiry, "protocol": protocol}
