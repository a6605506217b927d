"""Where the topics are: a connection string, or a namespace and the identity of the user who runs the command."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient


@dataclass(frozen=True, slots=True)
class Namespace:
    """A Service Bus namespace; the connection string is preferred when both are given."""

    connection_string: str | None
    name: str | None

    def __str__(self) -> str:
        """Returns its address, for messages."""
        found = re.search(r"(?:^|;)\s*Endpoint=(\w+://[^/;]+)", self.connection_string or "", re.IGNORECASE)
        return found[1] if found else self.name or "the namespace"

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[tuple[ServiceBusClient, ServiceBusAdministrationClient]]:
        """Yields a client for messages and one for subscriptions, closed at the end.

        Raises ValueError if the connection string cannot be read, or neither it nor a name is given.
        """
        if self.connection_string:
            transport = _transport(self.connection_string)
            async with (
                ServiceBusClient.from_connection_string(self.connection_string) as client,
                ServiceBusAdministrationClient.from_connection_string(self.connection_string, **transport) as admin,
            ):
                yield client, admin
        elif self.name:
            from azure.identity.aio import DefaultAzureCredential

            async with (
                DefaultAzureCredential() as credential,
                ServiceBusClient(self.name, credential) as client,
                ServiceBusAdministrationClient(self.name, credential) as admin,
            ):
                yield client, admin
        else:
            raise ValueError(
                "say where to listen: --connection-string or --namespace, or set the variable of either. "
                'For the local stack: ./dev up --detach, then eval "$(./dev env)".'
            )


def _transport(connection_string: str) -> dict[str, Any]:
    """Returns the option by which the SDK administers the local broker over plain HTTP; elsewhere no option."""
    if "usedevelopmentemulator=true" not in connection_string.lower():
        return {}
    from tools.local.service_bus_admin import AsyncPlainHttpTransport

    return {"transport": AsyncPlainHttpTransport()}
