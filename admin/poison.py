"""Messages that were given up: looked at, sent once more, or dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from shared.domain.dates import format_date
from shared.storage.interface import Message, Queues
from shared.storage.messages import INTERNAL_QUEUES, MalformedMessage, decode_body, encode_body

SHOWN = 32
"""Azure shows no more messages of a queue without taking them."""
_BATCH = 32
_HELD = 120.0
"""Seconds for which a message is hidden while it is moved."""


@dataclass(frozen=True)
class Moved:
    """What came of a command: how many messages were moved, and how many stayed as they can't be read."""

    done: int
    left: int


def poison_queue(queue: str) -> str:
    """The queue of what an internal queue gave up. Raises ValueError for a queue that has none."""
    if queue not in INTERNAL_QUEUES:
        raise ValueError(f"there is no queue {queue!r}; the queues are {', '.join(INTERNAL_QUEUES)}")
    return f"{queue}-poison"


async def depths(queues: Queues) -> list[dict[str, Any]]:
    """How many messages each internal queue holds, hidden ones included, and how many it gave up."""
    return [
        {"queue": queue, "messages": await queues.length(queue), "poison": await queues.length(poison_queue(queue))}
        for queue in INTERNAL_QUEUES
    ]


async def listed(queues: Queues, queue: str) -> list[dict[str, Any]]:
    """The first messages that a queue gave up."""
    return [_shown(message) for message in await queues.peek(poison_queue(queue), count=SHOWN)]


async def redrive(queues: Queues, queue: str, message_id: str | None = None) -> Moved:
    """Sends messages (or one) to their queue once more, with all attempts before them. What can't be read stays.

    A message is put before it is removed: if this dies in between it is handled twice, which every handler allows.
    """
    done = left = 0
    async for message in _taken(queues, queue, message_id):
        try:
            body = decode_body(message.text)
        except MalformedMessage:
            left += 1
            continue
        body.pop("attempts", None)
        await queues.put(queue, encode_body(body))
        await queues.delete(poison_queue(queue), message.receipt)
        done += 1
    return Moved(done, left)


async def drop(queues: Queues, queue: str, message_id: str | None = None) -> Moved:
    """Removes messages, or one, for good."""
    done = 0
    async for message in _taken(queues, queue, message_id):
        await queues.delete(poison_queue(queue), message.receipt)
        done += 1
    return Moved(done, 0)


async def _taken(queues: Queues, queue: str, message_id: str | None) -> AsyncIterator[Message]:
    """Every message, or the one of that id; the others are visible again at once."""
    others: list[Message] = []
    while messages := await queues.get(poison_queue(queue), count=_BATCH, hidden_for=_HELD):
        for message in messages:
            if message_id in (None, message.receipt.message_id):
                yield message
            else:
                others.append(message)
    for message in others:
        await queues.update(poison_queue(queue), message.receipt, visible_in=0)


def _shown(message: Message) -> dict[str, Any]:
    try:
        body: Any = decode_body(message.text)
    except MalformedMessage:
        body = message.text
    return {"id": message.receipt.message_id, "put": format_date(message.inserted), "body": body}
