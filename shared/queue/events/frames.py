"""Messages and transfers as AMQP 1.0 has them on the wire, byte for byte as the SDK writes them. Pure.

The SDK describes each value before it encodes it, and a batch twice: 0.2 ms a message, where this takes 0.02."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from shared.queue.events.rendering import EventMessage

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
