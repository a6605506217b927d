"""Connects to a storage account: the connections of hot requests, and the clients of the SDKs for all others."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.credentials_async import AsyncTokenCredential

from shared.base.frozen import dataclass
from shared.store.authorisation import authorisations
from shared.store.azure_blobs import AzureBlobs
from shared.store.azure_queues import AzureQueues
from shared.store.azure_tables import AzureTables
from shared.store.counting import Kind
from shared.store.http_connections import Connections
from shared.store.interface import Storage
from shared.store.signing import DelegatedKey, SignedAccess
from shared.store.wire import REFUSALS, Patience, Sender, StorageEndpoint, Watch, Wire, unavailable

if TYPE_CHECKING:
    from azure.storage.blob.aio import BlobServiceClient
    from azure.storage.queue.aio import QueueServiceClient

    from shared.store.pipeline import Transport


_EMULATOR = "UseDevelopmentStorage=true"
_EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_EMULATOR_PORTS = {"blob": 10000, "queue": 10001, "table": 10002}

Credential = AzureNamedKeyCredential | AsyncTokenCredential
"""An account key, or a managed identity."""


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """URLs of the three services of one account."""

    table: str
    queue: str
    blob: str

    @classmethod
    def of_account(cls, name: str) -> Self:
        """Returns an account of the public cloud by its name."""
        return cls(**{service: f"https://{name}.{service}.core.windows.net" for service in ("table", "queue", "blob")})

    @property
    def account(self) -> str:
        """Name of the account: the endpoints begin with it, or (emulators) have it as their path."""
        host, _, path = self.blob.partition("://")[2].partition("/")
        return path or host.split(".", 1)[0]


class AzureStorage:
    """A storage account. `storage` is what the use-cases see. Opens no connection until the first request, which must
    come from the event loop that will make all others. `close` ends the connections; the credential stays the caller's.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        credential: Credential,
        *,
        signing_key: str | None = None,
        patience: Patience | None = None,
        exchange: Sender | None = None,
        transport: Transport | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`signing_key` is an account key for signed URLs, where the credential is an identity; without it, Azure
        delegates a key. `exchange` sends hot requests in place of connections of its own, `transport` those of the
        SDKs."""
        self.endpoints = endpoints
        self.credential = credential
        self._patience = patience or Patience()
        self._exchange = exchange or Connections(self._patience)
        self._transport = transport
        self._watch = watch
        for_tables, for_queues = authorisations(credential)
        tables = Wire("table", self._exchange, for_tables, self._patience, watch)
        queues = Wire("queue", self._exchange, for_queues, self._patience, watch)
        blobs = AzureBlobs(lambda: self._blobs, self._patience)
        account = endpoints.account
        if isinstance(credential, AzureNamedKeyCredential):
            account, signing_key = credential.named_key
        self.storage = Storage(
            tables=AzureTables(tables, StorageEndpoint.of(endpoints.table), self._make_table),
            queues=AzureQueues(queues, StorageEndpoint.of(endpoints.queue)),
            blobs=blobs,
            access=SignedAccess(
                account=account,
                queue_endpoint=endpoints.queue,
                blob_endpoint=endpoints.blob,
                queue_key=signing_key or DelegatedKey(self._delegated_queue_key),
                blob_key=signing_key or DelegatedKey(self._delegated_blob_key),
                ensure_container=blobs.ensure,
            ),
        )

    @classmethod
    def from_connection_string(cls, text: str, **options: Any) -> Self:
        """Returns an account by its connection string with a key. Raises ValueError when it is not one."""
        return cls(*parse_connection_string(text), **options)

    async def close(self) -> None:
        """Ends the connections."""
        await self._exchange.close()
        if self._transport is not None:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _options(self, service: str) -> dict[str, Any]:
        """Returns the options with which the SDK's clients of a service are made."""
        from shared.store.pipeline import Transport, Tries

        if self._transport is None:
            self._transport = Transport(self._patience)
        tries = Tries(service, self._patience, self._watch)
        return {"credential": self.credential, "transport": self._transport, "retry_policy": tries}

    @cached_property
    def _queues(self) -> QueueServiceClient:
        """Returns the SDK's client of the queues. It is made at its first use, since loading SDKs is slow."""
        from azure.storage.queue.aio import QueueServiceClient

        return QueueServiceClient(self.endpoints.queue, **self._options("queue"))

    @cached_property
    def _blobs(self) -> BlobServiceClient:
        from azure.storage.blob.aio import BlobServiceClient

        return BlobServiceClient(self.endpoints.blob, **self._options("blob"))

    async def _delegated_queue_key(self, start: datetime, expiry: datetime) -> object:
        with unavailable():
            return await self._queues.get_user_delegation_key(start=start, expiry=expiry)

    async def _delegated_blob_key(self, start: datetime, expiry: datetime) -> object:
        with unavailable():
            return await self._blobs.get_user_delegation_key(start, expiry)

    async def _make_table(self, name: str) -> None:
        from azure.data.tables.aio import TableClient

        from shared.store.pipeline import noted

        transport = self._options("table")["transport"]
        made = TableClient(self.endpoints.table, name, credential=self.credential, transport=transport)
        with unavailable(), noted(self._watch, Kind.MAKE, "table", "POST", f"{self.endpoints.table}/{name}") as note:
            async with asyncio.timeout(self._patience.total):
                await made.create_table(error_map=REFUSALS)
            note(201)


def parse_connection_string(text: str) -> tuple[Endpoints, AzureNamedKeyCredential]:
    """Returns endpoints and account key of a connection string. Raises ValueError, which does not quote the text."""
    parts = dict(part.partition("=")[::2] for part in text.strip().strip(";").split(";"))
    if text.strip().strip(";") == _EMULATOR:
        endpoints = {service: f"http://127.0.0.1:{port}/devstoreaccount1" for service, port in _EMULATOR_PORTS.items()}
        return Endpoints(**endpoints), AzureNamedKeyCredential("devstoreaccount1", _EMULATOR_KEY)
    try:
        credential = AzureNamedKeyCredential(parts["AccountName"], parts["AccountKey"])
    except KeyError as error:
        raise ValueError(f"the storage connection string has no {error.args[0]}") from None
    protocol = parts.get("DefaultEndpointsProtocol", "https")
    suffix = parts.get("EndpointSuffix", "core.windows.net")
    endpoints = {
        service: parts.get(f"{service.capitalize()}Endpoint")
        or f"{protocol}://{parts['AccountName']}.{service}.{suffix}"
        for service in _EMULATOR_PORTS
    }
    return Endpoints(**{service: url.rstrip("/") for service, url in endpoints.items()}), credential
