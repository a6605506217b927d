"""An open AMQP link to a topic, on a connection of its own, and the frames that it writes itself. Messages and
transfers are as AMQP 1.0 has them on the wire, byte for byte as the SDK writes them. The SDK describes each value
before it encodes it, and a batch twice: 0.2 ms a message, where this takes 0.02."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any, Self

from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp.constants import ConnectionState, SessionState
from azure.servicebus._pyamqp.error import AMQPConnectionError, ErrorCondition, MessageException
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.base.frozen import dataclass
from shared.queue.events.rendering import EventMessage

CLOSE_SECONDS = 2.0
POLL_SECONDS = 0.001
"""Seconds between two polls of whether a link is open. Each poll itself waits for the next frame."""
_MAX_TAG = 0xFFFF_FFFF
_OUTCOMES_THAT_THE_SDK_FORGETS = frozenset({"released", "modified"})
OVERHEAD = 700
"""Bytes of a frame that are no message, at most: its header, the transfer's fields, a batch's own message id."""
OVERHEAD_EACH = 8
"""Bytes that a message takes in a batch besides its own."""
_CONTENT_TYPE = b"\xa3\x10application/json"
_ABSENT = b"\x40"
_ONE_MESSAGE = b"\x43"
_BATCH = b"\x70\x80\x01\x37\x00"
_PROPERTIES = b"\x00\x53\x73"
_APPLICATION_PROPERTIES = b"\x00\x53\x74"
_DATA = b"\x00\x53\x75"
_TRANSFER = b"\x00\x53\x14"
_IN_ONE_FRAME_UNSETTLED = b"\x56\x00\x56\x00" + _ABSENT * 5
_SMALL = 255
_HEADER = struct.Struct(">IBBH")
_WORDS_OF_HEADER = 2


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
        frame = transfer(
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
    """Returns the connections that the sender makes, without pauses; it forgets those that fail, with open sockets."""
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
    """Returns whether the link is in its normal state. Else the SDK sends: it repairs it, or says what is wrong."""
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
    left = limit - OVERHEAD
    for message in messages:
        left -= len(one := encoded(message)) + OVERHEAD_EACH
        if left < 0:
            break
        taken.append(one)
    return taken


def _to_service_bus(message: EventMessage) -> ServiceBusMessage:
    return ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        subject=message.subject,
        content_type="application/json",
        application_properties=dict(message.properties.items()),
    )


def encoded(message: EventMessage) -> bytes:
    """Returns the bytes of one encoded message."""
    subject, content_type = _known_text(message.subject), _CONTENT_TYPE
    properties = (_text(message.message_id), _ABSENT * 2, subject, _ABSENT * 2, content_type, _ABSENT * 6)
    pairs = b"".join([_known_text(name) + _text(value) for name, value in message.properties.items()])
    return b"".join(
        (
            _PROPERTIES,
            _compound(b"\xc0", b"\xd0", 13, b"".join(properties)),
            _APPLICATION_PROPERTIES,
            _compound(b"\xc1", b"\xd1", 2 * len(message.properties), pairs),
            _DATA,
            _binary(message.body),
        )
    )


def transfer(
    messages: Sequence[bytes], first_id: str, *, channel: int, handle: int, delivery_id: int, delivery_tag: int
) -> bytes:
    """Returns the frame that transfers encoded messages on a link, as one delivery; `first_id` is the first one's id.
    It must not be longer than the receiver takes: OVERHEAD and OVERHEAD_EACH say what it has besides the messages."""
    if len(messages) == 1:
        message_format, payload = _ONE_MESSAGE, messages[0]
    else:
        envelope = _compound(b"\xc0", b"\xd0", 13, _text(first_id) + _ABSENT * 12)
        message_format = _BATCH
        payload = b"".join([_PROPERTIES, envelope, *[_DATA + _binary(message) for message in messages]])
    fields = b"".join(
        (
            _unsigned(handle),
            _unsigned(delivery_id),
            b"\xa0\x04",
            struct.pack(">I", delivery_tag),
            message_format,
            _IN_ONE_FRAME_UNSETTLED,
        )
    )
    performative = _TRANSFER + _compound(b"\xc0", b"\xd0", 11, fields)
    size = _HEADER.size + len(performative) + len(payload)
    return b"".join((_HEADER.pack(size, _WORDS_OF_HEADER, 0, channel), performative, payload))


def _text(value: str) -> bytes:
    encoded = value.encode()
    return b"\xa1%c%b" % (len(encoded), encoded) if len(encoded) <= _SMALL else _sized(b"\xa1", b"\xb1", encoded)


_known_text = lru_cache(maxsize=256)(_text)
"""Encodes texts that recur in messages, such as subjects and names of properties, and remembers them encoded."""


def _binary(value: bytes) -> bytes:
    return _sized(b"\xa0", b"\xb0", value)


def _sized(small: bytes, large: bytes, value: bytes) -> bytes:
    if len(value) <= _SMALL:
        return b"%b%c%b" % (small, len(value), value)
    return large + struct.pack(">I", len(value)) + value


def _unsigned(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52%c" % value if value <= _SMALL else b"\x70" + struct.pack(">I", value)


def _compound(small: bytes, large: bytes, count: int, items: bytes) -> bytes:
    """Returns a list or a map of `count` encoded items."""
    if len(items) < _SMALL and count <= _SMALL:
        return b"%b%c%c%b" % (small, len(items) + 1, count, items)
    return large + struct.pack(">II", len(items) + 4, count) + items
