"""Storage connections that triggers name: a connection string, or the `<name>__…` family of settings for identities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.queue.aio import QueueServiceClient

from tools.local.host.errors import HostError

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential

# Short, since the listeners come back by themselves; the SDK's own defaults wait for minutes.
_RETRIES: dict[str, Any] = {"retry_total": 3, "initial_backoff": 0.2, "increment_base": 0.3, "random_jitter_range": 0.1}


class Connections:
    """The queue services of an app's connections, one client for each name. Use within a running event loop."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._services: dict[str, QueueServiceClient] = {}
        self._credentials: list[DefaultAzureCredential] = []

    def queue_service(self, name: str, function: str) -> QueueServiceClient:
        """The service that the setting `name` leads to; a setting `AzureWebJobs<name>` has precedence.

        Raises HostError naming the function if there is no such setting, or it is malformed.
        """
        if name not in self._services:
            self._services[name] = self._open(name, function)
        return self._services[name]

    def _open(self, name: str, function: str) -> QueueServiceClient:
        for key in (f"AzureWebJobs{name}", name):
            if self._settings.get(key):
                return self._from_string(self._settings[key], key, function)
            if self._settings.get(f"{key}__queueServiceUri"):
                return self._from_identity(key)
        raise HostError(
            f"function {function}: its connection is not set; set {name} to a connection string, "
            f"or {name}__queueServiceUri to the address of a queue service"
        )

    def _from_string(self, connection_string: str, key: str, function: str) -> QueueServiceClient:
        try:
            return QueueServiceClient.from_connection_string(connection_string, transport=_transport(), **_RETRIES)
        except ValueError as error:
            # The message must not show the setting's value: it holds a key.
            raise HostError(f"function {function}: {key} is not a storage connection string ({error})") from None

    def _from_identity(self, key: str) -> QueueServiceClient:
        from azure.identity.aio import DefaultAzureCredential  # only if used: it adds a quarter to all imports

        client_id = self._settings.get(f"{key}__clientId")
        credential = DefaultAzureCredential(managed_identity_client_id=client_id)
        self._credentials.append(credential)
        return QueueServiceClient(
            self._settings[f"{key}__queueServiceUri"], credential=credential, transport=_transport(), **_RETRIES
        )

    async def close(self) -> None:
        """Close all clients."""
        for service in self._services.values():
            await service.close()
        for credential in self._credentials:
            await credential.close()


def _transport() -> AioHttpTransport:
    # With use_env_settings, aiohttp looks for netrc and proxies in a thread, twice per request.
    return AioHttpTransport(use_env_settings=False)
