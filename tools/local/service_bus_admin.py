"""Transports that let Microsoft's administration client talk to the local Service Bus.

`ServiceBusAdministrationClient` always asks for https, even where the connection string says
UseDevelopmentEmulator=true; the local broker speaks plain HTTP, on the port of the connection string. A transport is
what the client's constructors take to change that:

    ServiceBusAdministrationClient.from_connection_string(text, transport=PlainHttpTransport())
"""

from typing import Any

from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport


class PlainHttpTransport(RequestsTransport):  # type: ignore[misc] # azure-core loads its transports lazily, untyped
    """Transport for `azure.servicebus.management.ServiceBusAdministrationClient`."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        """Sends the request over plain HTTP."""
        request.url = _plain(request.url)
        return super().send(request, **kwargs)


class AsyncPlainHttpTransport(AioHttpTransport):  # type: ignore[misc] # the same
    """Transport for `azure.servicebus.aio.management.ServiceBusAdministrationClient`."""

    async def send(self, request: Any, **config: Any) -> Any:
        """Sends the request over plain HTTP."""
        request.url = _plain(request.url)
        return await super().send(request, **config)


def _plain(url: str) -> str:
    return url.replace("https://", "http://", 1)
