"""Messages that were given up: looked at, sent once more, or dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from shared.concurrency import in_waves
from shared.domain.dates import format_date
from shared.frozen import dataclass
from shared.storage.interface import Message, Queues, ReceiptLost
from shared.storage.internal_messages import INTERNAL_QUEUES, MalformedMessage, decode_body, encode_body

SHOWN = 32
"""Azure shows no more messages of a queue without taking them."""
_BATCH = 32
_HELD = 120.0
"""Seconds for which a message is hidden while it is moved: a batch takes some seconds at the most."""
_WIDTH = 16
"""Messages moved or given back in parallel."""

Report = Callable[[str], object]
"""Is told how far it is."""


def unwatched(text: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Moved:
    """What came of a command: how many messages were moved, and how many of those it looked at stayed."""

    done: int
    left: int


def poison_queue(queue: str) -> str:
    """The queue of what an internal queue gave up. Raises ValueError for a queue that has none."""
    if queue not in INTERNAL_QUEUES:
        raise ValueError(f"there is no queue {queue!r}; the queues are {', '.join(INTERNAL_QUEUES)}")
    return f"{queue}-poison"


async def depths(queues: Queues) -> list[dict[str, Any]]:
    """How many messages each internal queue holds, hidden ones included, and how many it gave up."""
    names = [*INTERNAL_QUEUES, *map(poison_queue, INTERNAL_QUEUES)]
    lengths = dict(zip(names, await in_waves(_WIDTH, queues.length, names), strict=True))
    return [
        {"queue": queue, "messages": lengths[queue], "poison": lengths[poison_queue(queue)]}
        for queue in INTERNAL_QUEUES
    ]


async def listed(queues: Queues, queue: str) -> list[dict[str, Any]]:
    """The first messages that a queue gave up."""
    return [_shown(message) for message in await queues.peek(poison_queue(queue), count=SHOWN)]


async def redrive(
    queues: Queues,
    queue: str,
    message_id: str | None = None,
    report: Report = unwatched,
    has_time: Callable[[], bool] = lambda: True,
) -> Moved:
    """Sends messages (or one) to their queue once more, with all attempts before them. What can't be read stays.

    A message is put before it is removed: if this dies in between it is handled twice, which every handler allows.
    Messages that are refused once more come back to the poison queue. They are left there: no more messages are sent
    than there were at the start, and none that has come since.
    """

    async def move(message: Message) -> bool:
        try:
            body = decode_body(message.text)
        except MalformedMessage:
            return False
        body.pop("attempts", None)
        await queues.put(queue, encode_body(body))
        await _remove(queues, queue, message)
        return True

    return await _move(queues, queue, message_id, move, report, has_time)


async def drop(
    queues: Queues,
    queue: str,
    message_id: str | None = None,
    report: Report = unwatched,
    has_time: Callable[[], bool] = lambda: True,
) -> Moved:
    """Removes messages, or one, for good. Those that come meanwhile stay."""

    async def move(message: Message) -> bool:
        await _remove(queues, queue, message)
        return True

    return await _move(queues, queue, message_id, move, report, has_time)


async def _move(
    queues: Queues,
    queue: str,
    message_id: str | None,
    move: Callable[[Message], Awaitable[bool]],
    report: Report,
    has_time: Callable[[], bool],
) -> Moved:
    """Moves each message that was there at the start, or the one of that id; the others are visible again at once."""
    left = there = await queues.length(poison_queue(queue))
    done = unseen = 0
    others: dict[str, Message] = {}
    started: datetime | None = None

    async def attempt(message: Message) -> None:
        nonlocal done
        if await move(message):
            del others[message.receipt.message_id]
            done += 1

    try:
        while left > 0:
            messages = await queues.get(poison_queue(queue), count=min(_BATCH, left), hidden_for=_HELD)
            if not messages:
                break
            left -= len(messages)
            others |= {message.receipt.message_id: message for message in messages}
            if started is None:  # by the service's clock, which may differ from this machine's
                started = messages[0].receipt.visible - timedelta(seconds=_HELD)
            chosen = [
                message
                for message in messages
                if message_id in (None, message.receipt.message_id) and message.inserted <= started
            ]
            await in_waves(_WIDTH, attempt, chosen)
            report(f"{there - left:,} of {there:,} messages done")
            if message_id is not None and chosen:
                return Moved(done, 1 - done)
            if not has_time():
                unseen = left
                break
    finally:
        await in_waves(_WIDTH, lambda message: _give_back(queues, queue, message), others.values())
    return Moved(done, 0 if message_id is not None else len(others) + unseen)


async def _remove(queues: Queues, queue: str, message: Message) -> None:
    with suppress(ReceiptLost):  # it was hidden for too long, and somebody else has it
        await queues.delete(poison_queue(queue), message.receipt)


async def _give_back(queues: Queues, queue: str, message: Message) -> None:
    with suppress(ReceiptLost):  # as above
        await queues.update(poison_queue(queue), message.receipt, visible_in=0)


def _shown(message: Message) -> dict[str, Any]:
    try:
        body: Any = decode_body(message.text)
    except MalformedMessage:
        body = message.text
    return {"id": message.receipt.message_id, "put": format_date(message.inserted), "body": body}
