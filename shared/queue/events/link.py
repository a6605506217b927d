"""An open AMQP link to a topic, on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.base.frozen import dataclass
from shared.queue.events.messages import EventMessage

CLOSE_SECONDS = 2.0

POLL_SECONDS = 0.001
"""Between two looks at whether a link is open; each look waits for the next frame itself."""


@dataclass(frozen=True, slots=True)
class Link:
    """An open sender, and its socket, which the SDK (7.15) leaves to the garbage collector if the connection fails."""

    _sender: ServiceBusSender
    _socket: Any

    @classmethod
    async def open(cls, sender: ServiceBusSender) -> Self:
        """Connects. Raises what the SDK raises."""
        handlers = _prepare_handlers(sender)
        try:
            await sender.__aenter__()
        except BaseException:
            for handler in handlers:
                if handler._connection is not None:
                    await handler._connection._transport.close()
            raise
        return cls(sender, handlers[-1]._connection._transport)

    async def send(self, messages: Sequence[EventMessage]) -> int:
        """Sends as many of the messages, in order, as fit into one batch, and returns how many.

        It is 0 if the first alone is too large. Raises what the SDK raises.
        """
        if len(messages) == 1:
            # Without an envelope, which encodes a message once to know its size and once more to be sent itself.
            try:
                await self._sender.send_messages(_to_service_bus(messages[0]))
            except MessageSizeExceededError:
                return 0
            return 1
        envelope = await self._sender.create_message_batch()
        for message in messages:
            try:
                envelope.add_message(_to_service_bus(message))
            except MessageSizeExceededError:
                break
        if len(envelope) > 0:
            await self._sender.send_messages(envelope)
        return len(envelope)

    async def close(self) -> None:
        """Closes the connection, whatever state it is in, within a bounded time."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._sender.close()
        await self._socket.close()


def _prepare_handlers(sender: Any) -> list[Any]:
    """The connections that the sender will make; it forgets those that fail, without closing their sockets.

    They open without pauses. These are private names of the SDK: tests/events/test_link.py fails when they change.
    """
    handlers: list[Any] = []
    create = sender._create_handler

    def create_and_remember(auth: Any) -> None:
        create(auth)
        handler = sender._handler
        handler.client_ready_async = _until_ready(handler.client_ready_async)
        handlers.append(handler)

    sender._create_handler = create_and_remember
    return handlers


def _until_ready(ready: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    """Looks until the handler is ready, for the SDK sleeps for 50 ms after each of some ten looks at a handshake."""

    async def until_ready() -> bool:
        while not await ready():  # noqa: ASYNC110  # each look reads a frame; no other task could set an event
            await asyncio.sleep(POLL_SECONDS)
        return True

    return until_ready


def _to_service_bus(message: EventMessage) -> ServiceBusMessage:
    return ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        subject=message.subject,
        content_type="application/json",
        application_properties=dict(message.properties.items()),
    )
