"""Worlds on a real Azurite, for the simulator's scenarios and invariants."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Mapping, Sequence

import aiohttp

from shared.store.connection import AzureStorage
from shared.store.http_connections import Connections
from shared.store.interface import Row, Storage
from shared.store.names import Names
from shared.store.pipeline import Transport
from shared.store.wire import Patience
from tests.azurite.inside import BlobInside, Inside, MessageInside, View
from tests.azurite.killing import Killing, KillingExchange, KillingTransport
from tests.azurite.simulation import AzuriteSimulation, RequestLoop
from tests.simulator.world import World
from tests.twin.clock import VirtualClock
from tests.twin.gate import Gate
from tools.local.azurite import Azurite

_PATIENCE = Patience(jitter=lambda: 0.5)
_KEPT_SECONDS = 1e9
"""Virtual time for which an idle connection is kept."""


class AzuriteAccount:
    """`tests.simulator.account.Account` on Azurite, under a prefix of its own."""

    def __init__(
        self,
        connection_string: str,
        names: Names,
        view: View,
        exchange: KillingExchange,
        transport: KillingTransport,
    ) -> None:
        self._connection_string = connection_string
        self._names = names
        self._view = view
        self._exchange = exchange
        self._transport = transport

    def connect(self) -> Storage:
        """The adapters of another process: what they keep in memory dies with it."""
        return AzureStorage.from_connection_string(
            self._connection_string,
            prefix=self._names.prefix,
            patience=_PATIENCE,
            exchange=self._exchange,
            transport=self._transport,
        ).storage

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """What the table service holds."""
        return self._view.rows(table, partition)

    def messages(self, queue: str) -> Sequence[MessageInside]:
        """What the queue service holds."""
        return self._view.messages(queue)

    def committed(self, container: str) -> Mapping[str, BlobInside]:
        """What the blob service holds."""
        return self._view.committed(container)

    def staged(self, container: str, path: str) -> Collection[str]:
        """Blocks that the blob service holds."""
        return self._view.staged(container, path)


class Worlds:
    """Opens worlds on one Azurite, each under names of its own; one at a time."""

    def __init__(self, azurite: Azurite) -> None:
        self._connection_string = azurite.connection_string
        self._inside = Inside(azurite)
        self._loop = RequestLoop()
        self._connections = Connections(_PATIENCE, kept_seconds=_KEPT_SECONDS)
        self._transport = self._loop.run_until_complete(_lasting_transport())
        self._prefix = f"c{uuid.uuid4().hex[:8]}"
        self._numbers = itertools.count(1)

    def open(self, *gates: Gate) -> World:
        """An empty world whose requests pass these gates."""
        return World(AzuriteSimulation(self._loop), *gates, open_account=self._open_account)

    def close(self) -> None:
        """End the connections."""
        self._inside.close()
        self._loop.run_until_complete(self._connections.close())
        self._loop.run_until_complete(self._transport.close())
        self._loop.close()

    def _open_account(self, clock: VirtualClock, gate: Gate) -> AzuriteAccount:
        names = Names(f"{self._prefix}x{next(self._numbers)}y")
        view = View(self._inside, names)
        killing = Killing(self._loop, clock, gate, view, names)
        exchange = KillingExchange(self._connections, killing)
        transport = KillingTransport(self._transport, killing)
        return AzuriteAccount(self._connection_string, names, view, exchange, transport)


async def _lasting_transport() -> Transport:
    """Connections that live on when virtual time jumps."""
    transport = Transport(_PATIENCE)
    transport.session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(keepalive_timeout=_KEPT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )
    return transport
