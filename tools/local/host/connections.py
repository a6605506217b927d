"""Storage connections that triggers name: a connection string, or the `<name>__…` family of settings for identities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from azure.core.exceptions import AzureError, HttpResponseError, ServiceResponseTimeoutError
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from tools.local.host.errors import HostError
from tools.local.host.times import Times

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential

HOST_STORAGE = "AzureWebJobsStorage"
"""The connection of what the host stores for itself."""

_RETRIES = 5
_Service = TypeVar("_Service", QueueServiceClient, BlobServiceClient)


class Retries(AsyncRetryPolicy[Any, Any]):
    """Five more tries after pauses that double, as Azure.Core makes them: within 25 seconds."""

    def __init__(self, first_pause: float) -> None:
        kinds = ("retry_total", "retry_connect", "retry_read", "retry_status")
        super().__init__(**dict.fromkeys(kinds, _RETRIES))
        self._first_pause = first_pause
        self._method_whitelist |= {"POST"}

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of retries of a request's pipeline, without those about a secondary location."""
        for name in ("hosts", "location_mode", "retry_to_secondary"):
            options.pop(name, None)
        return super().configure_retries(options)

    async def send(self, request: Any) -> Any:
        """Sends a request, several times if need be. The SDKs want to know which location has answered."""
        response = await super().send(request)
        response.http_response.location_mode = "primary"  # storage's policies set it as well
        return response

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Returns the seconds to wait, knowing what has failed so far."""
        pause: float = self._first_pause * 2 ** (len(settings["history"]) - 1)
        return pause


class Connections:
    """The storage services of an app's connections, one client for each name. Use within a running event loop."""

    def __init__(self, settings: Mapping[str, str], times: Times, transport: Callable[[], Any] | None = None) -> None:
        """Takes the app settings, and from tests a `transport` of their own."""
        self._settings = settings
        self._times = times
        self._transport = transport or self._aiohttp
        self._services: dict[tuple[type, str], Any] = {}
        self._credentials: list[DefaultAzureCredential] = []

    def queue_service(self, name: str, function: str) -> QueueServiceClient:
        """Returns the queues that the setting `name` leads to; a setting `AzureWebJobs<name>` has precedence. Raises
        HostError naming the function if there is no such setting, or it is malformed."""
        return self._service(QueueServiceClient, "queueServiceUri", name, function)

    def blob_service(self, name: str, function: str) -> BlobServiceClient:
        """Returns the blobs that the setting `name` leads to, as `queue_service` returns queues."""
        return self._service(BlobServiceClient, "blobServiceUri", name, function)

    def _service(self, kind: type[_Service], address: str, name: str, function: str) -> _Service:
        key = (kind, name)
        if key not in self._services:
            self._services[key] = self._open(kind, address, name, function)
        found: _Service = self._services[key]
        return found

    def _open(self, kind: type[_Service], address: str, name: str, function: str) -> _Service:
        options: dict[str, Any] = {"transport": self._transport(), "retry_policy": Retries(self._times.retry)}
        for key in (f"AzureWebJobs{name}", name):
            if text := self._settings.get(key):
                try:
                    return kind.from_connection_string(text, **options)
                except ValueError as error:
                    # The message must not show the setting's value: it holds a key.
                    why = f"function {function}: {key} is not a storage connection string ({error})"
                    raise HostError(why) from None
            if uri := self._settings.get(f"{key}__{address}"):
                return kind(uri, credential=self._credential(key), **options)
        raise HostError(
            f"function {function}: its connection is not set; set {name} to a connection string, "
            f"or {name}__{address} to the address of the service"
        )

    def _credential(self, key: str) -> DefaultAzureCredential:
        from azure.identity.aio import DefaultAzureCredential  # only if used: it adds a quarter to all imports

        credential = DefaultAzureCredential(managed_identity_client_id=self._settings.get(f"{key}__clientId"))
        self._credentials.append(credential)
        return credential

    def _aiohttp(self) -> AioHttpTransport:
        # With use_env_settings, aiohttp looks for netrc and proxies in a thread, twice per request.
        return AioHttpTransport(use_env_settings=False, read_timeout=self._times.answer)

    async def close(self) -> None:
        """Closes all clients."""
        for service in self._services.values():
            await service.close()
        for credential in self._credentials:
            await credential.close()


def is_server_side(error: AzureError) -> bool:
    """Returns whether storage has failed by itself (5xx): the host then waits and asks again."""
    return isinstance(error, HttpResponseError) and (error.status_code or 0) >= 500


def is_out_of_time(error: AzureError) -> bool:
    """Returns whether there was no answer in time."""
    return isinstance(error, ServiceResponseTimeoutError)


def name_of(error: AzureError) -> str:
    """Returns an error in words without addresses or keys: `403 AuthorizationFailure`, or its type."""
    if isinstance(error, HttpResponseError):
        return f"{error.status_code} {getattr(error, 'error_code', None) or ''}".rstrip()
    return type(error).__name__
