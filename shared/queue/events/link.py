"""An open AMQP link to a topic, on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp.constants import ConnectionState, SessionState
from azure.servicebus._pyamqp.error import AMQPConnectionError, ErrorCondition, MessageException
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.base.frozen import dataclass
from shared.queue.events import frames
from shared.queue.events.rendering import EventMessage

CLOSE_SECONDS = 2.0

POLL_SECONDS = 0.001
"""Seconds between two polls of whether a link is open. Each poll itself waits for the next frame."""


_MAX_TAG = 0xFFFF_FFFF
_OUTCOMES_THAT_THE_SDK_FORGETS = frozenset({"released", "modified"})


class _Delivery:
    """A delivery that was sent and has no outcome yet. The SDK's link reads its fields and reports its outcome."""

    sent = True
    timeout = 0
    state: object
    """The state that the SDK sets. It is not used here: see `error`."""

    def __init__(self, handler: Any, delivery_id: int) -> None:
        self._handler = handler
        self.id = delivery_id
        self.frame = {"delivery_id": delivery_id}
        self.is_settled = False
        self.error: Exception | None = None

    async def on_settled(self, reason: Any, state: Any) -> None:
        """Takes the outcome as the SDK does, except for two that the SDK ignores, so that it would wait for ever."""
        self.is_settled = True
        if isinstance(state, dict) and not _OUTCOMES_THAT_THE_SDK_FORGETS.isdisjoint(state):
            description = f"The message was {next(iter(state))}."
            self.error = MessageException(ErrorCondition.UnknownError, description=description)
        else:
            await self._handler._on_send_complete_async(self, reason, state)


@dataclass(frozen=True, slots=True)
class Link:
    """An open sender, and its socket, which the SDK (7.15) leaves to the garbage collector if the connection fails.

    Private names of the SDK are used: test_link.py and test_frames.py (tests/promises/events) fail when they change."""

    _sender: Any
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
        """Sends as many of the messages, in order, as fit into one frame, and returns how many; a large one alone. It
        is 0 if the first alone is too large. Raises what the SDK raises."""
        count: int = await self._sender._do_retryable_operation(self._transfer, messages=messages)
        if count:
            return count
        try:
            await self._sender.send_messages(_to_service_bus(messages[0]))
        except MessageSizeExceededError:
            return 0
        return 1

    async def _transfer(self, messages: Sequence[EventMessage]) -> int:
        """Sends as many messages as fit into one frame, and returns how many; 0 if the SDK has to send. Only the frame
        is written here. The SDK does everything else: opening, tokens and their renewal, credit, incoming frames, the
        meaning of outcomes, and messages of several frames. Raises what the SDK raises."""
        handler = self._sender._handler
        if handler is None or not await handler.client_ready_async():
            return 0
        link, connection = handler._link, handler._connection
        if not _may_transfer(link, connection):
            return 0
        taken = _that_fit(messages, connection._remote_max_frame_size)
        if not taken:
            return 0
        session, first = link._session, messages[0].message_id
        delivery = _Delivery(handler, session.next_outgoing_id)
        tag = (link.delivery_count + 1) & _MAX_TAG
        frame = frames.transfer(
            taken, first, channel=session.channel, handle=link.handle, delivery_id=delivery.id, delivery_tag=tag
        )
        session.next_outgoing_id += 1
        session.remote_incoming_window -= 1
        session.outgoing_window -= 1
        link.delivery_count += 1
        link.current_link_credit -= 1
        link._pending_deliveries.append(delivery)
        connection._last_frame_sent_time = time.time()
        await connection._transport.write(frame)
        while not delivery.is_settled:
            await connection.listen(wait=True)
            if not delivery.is_settled and connection.state is not ConnectionState.OPENED:
                raise AMQPConnectionError(ErrorCondition.SocketError, description="The connection is not open.")
        if delivery.error is not None:
            raise delivery.error
        return len(taken)

    async def close(self) -> None:
        """Closes the connection, whatever state it is in, within a bounded time."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._sender.close()
        await self._socket.close()


def _prepare_handlers(sender: Any) -> list[Any]:
    """Returns the connections that the sender will make; it forgets those that fail, without closing their sockets.
    They open without pauses."""
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
    """Polls until the handler is ready. The SDK's own loop sleeps 50 ms after each of some ten polls."""

    async def until_ready() -> bool:
        while not await ready():  # noqa: ASYNC110  # each look reads a frame; no other task could set an event
            await asyncio.sleep(POLL_SECONDS)
        return True

    return until_ready


def _may_transfer(link: Any, connection: Any) -> bool:
    """Returns whether the link is in its normal state. Else the SDK sends: it repairs the link, or raises what is
    wrong."""
    return (
        connection._error is None
        and connection.state is ConnectionState.OPENED
        and link._session.state is SessionState.MAPPED
        and link._session.remote_incoming_window > 0
        and link.current_link_credit > 0
        and not link._pending_deliveries
    )


def _that_fit(messages: Sequence[EventMessage], limit: int) -> list[bytes]:
    """Returns as many of the messages, encoded, as fit into a frame of `limit` bytes."""
    taken: list[bytes] = []
    left = limit - frames.OVERHEAD
    for message in messages:
        encoded = frames.encoded(message)
        left -= len(encoded) + frames.OVERHEAD_EACH
        if left < 0:
            break
        taken.append(encoded)
    return taken


def _to_service_bus(message: EventMessage) -> ServiceBusMessage:
    return ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        subject=message.subject,
        content_type="application/json",
        application_properties=dict(message.properties.items()),
    )
