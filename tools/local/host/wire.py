"""Messages between the host's process and the app's: pickled objects, each with its length before it."""

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

_LENGTH_BYTES = 8


class Wire(asyncio.Protocol):
    """One end of a connection. Both ends are this program's own, so that incoming messages are trusted."""

    def __init__(self, received: Callable[[Any], None], lost: Callable[[], None]) -> None:
        """Takes functions: `received` is called with each message, `lost` when the other process has gone."""
        self._received = received
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the connection; asyncio calls this once it is made."""
        assert isinstance(transport, asyncio.WriteTransport), "a pair of sockets"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Passes on each message that is now complete; asyncio calls this with the bytes that have come."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES])
            if len(self._buffer) < end:
                return
            message = pickle.loads(bytes(self._buffer[_LENGTH_BYTES:end]))  # noqa: S301  # see the class
            del self._buffer[:end]
            self._received(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Calls `lost`; asyncio calls this when the connection has ended."""
        self.is_lost = True
        self._lost()

    def send(self, message: object) -> None:
        """Sends a message. If the other end has gone, `lost` is called."""
        assert self._transport is not None, "it is connected"
        content = pickle.dumps(message)
        self._transport.write(len(content).to_bytes(_LENGTH_BYTES) + content)

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        if self._transport is not None:
            self._transport.close()
