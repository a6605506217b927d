"""What operators look at and change: internal queues, timers and dead-lettered messages (contract 2.7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal

from shared.auth.audit import Entry, note_change
from shared.base import bounds
from shared.base.concurrency import both, in_waves, together
from shared.base.dates import format_date
from shared.base.errors import ResourceNotFound
from shared.base.frozen import dataclass
from shared.queue.pools.rows import PoolStore
from shared.queue.pools.states import WaitingStore
from shared.queue.tasks.internal_messages import BODIES, INTERNAL_QUEUES, MalformedMessage, decode_body, encode_body
from shared.queue.tasks.messages import poison_queue
from shared.runtime import Runtime
from shared.store.expiring import ExpiryStore
from shared.store.interface import Message, Queues, ReceiptLost
from shared.store.limits import MAX_MESSAGES
from shared.telemetry.instruments import TOLD

_HELD = 120.0
"""Seconds for which a message is hidden while it is moved: a batch takes some seconds at the most."""

How = Literal["redrive", "delete"]


@dataclass(frozen=True)
class Moved:
    """The outcome of a command: how many messages were moved, and how many of those that it considered stayed."""

    done: int
    left: int


async def queue_depths(queues: Queues) -> list[dict[str, Any]]:
    """Returns how many messages each internal queue holds, hidden ones included, and how many it gave up."""
    names = [*INTERNAL_QUEUES, *map(poison_queue, INTERNAL_QUEUES)]
    lengths = dict(zip(names, await in_waves(bounds.BACKGROUND, queues.length, names), strict=True))
    return [
        {"queue": queue, "messages": lengths[queue], "poison": lengths[poison_queue(queue)]}
        for queue in INTERNAL_QUEUES
    ]


async def given_up_messages(queues: Queues, queue: str) -> list[dict[str, Any]]:
    """Returns the first messages that a queue gave up."""
    return [_shown(message) for message in await queues.peek(poison_queue(queue), count=MAX_MESSAGES)]


async def move_poison(
    queues: Queues,
    queue: str,
    how: How,
    message_id: str | None = None,
    report: Callable[[str], object] = lambda said: None,
    has_time: Callable[[], bool] = lambda: True,
) -> Moved:
    """Sends messages (or one) that a queue gave up to it once more, with all attempts before them, or deletes them.
    What can't be read is not sent, and stays. `report` is called with the progress.

    A message is put before it is removed: if this dies in between it is handled twice, which every handler allows.
    Messages that are refused once more come back to the poison queue. Messages that arrive meanwhile stay there: no
    more are moved than there were at the start. Those that are not moved are visible again at once."""
    given_up = poison_queue(queue)
    left = there = await queues.length(given_up)
    done = unseen = 0
    others: dict[str, Message] = {}
    started: datetime | None = None

    async def attempt(message: Message) -> None:
        nonlocal done
        if how == "redrive":
            try:
                body = decode_body(message.text)
            except MalformedMessage:
                return
            body.pop("attempts", None)
            await queues.put_message(queue, encode_body(body))
        with suppress(ReceiptLost):  # its visibility timeout ended, and somebody else has received it
            await queues.delete_message(given_up, message.receipt)
        del others[message.receipt.message_id]
        done += 1

    async def give_back(message: Message) -> None:
        with suppress(ReceiptLost):  # as above
            await queues.update(given_up, message.receipt, visible_in=0)

    try:
        while left > 0:
            messages = await queues.get_messages(given_up, count=min(MAX_MESSAGES, left), hidden_for=_HELD)
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
            await in_waves(bounds.BACKGROUND, attempt, chosen)
            report(f"{there - left:,} of {there:,} messages done")
            if message_id is not None and chosen:
                return Moved(done, 1 - done)
            if not has_time():
                unseen = left
                break
    finally:
        await in_waves(bounds.BACKGROUND, give_back, others.values())
    return Moved(done, 0 if message_id is not None else len(others) + unseen)


def _shown(message: Message) -> dict[str, Any]:
    try:
        body: Any = decode_body(message.text)
    except MalformedMessage:
        body = message.text
    return {"id": message.receipt.message_id, "put": format_date(message.inserted), "body": body}


SECONDS = 15.0
"""Time budget of a call that moves messages; repeat the call to continue."""
SHOWN = ("taskId", "runId", "taskGroupId", "kind", "put", "attempts")
"""The fields of a message that are shown: they tell what it is about. Receipts and the content of events are left out,
as nobody should copy them."""


@dataclass(frozen=True, eq=False)
class Operations:
    """The use cases of operators. Every call may raise StorageUnavailable."""

    _queues: Queues
    _expiry: ExpiryStore
    _pools: PoolStore
    _waiting: WaitingStore
    _runtime: Runtime

    async def counts_and_times(self) -> tuple[Sequence[dict[str, Any]], dict[str, str]]:
        """Returns how many messages the internal queues hold and have given up, when each timer function last noted
        what it did, and before when everything due has been deleted."""
        depths, times = await both(
            queue_depths(self._queues),
            together(self._expiry.noted(), self._expiry.cursor(), self._pools.checked(), self._waiting.noted()),
        )
        names = "expiryNoted", "expiredBefore", "reconcilerNoted", "waitingNoted"
        return depths, {name: format_date(time) for name, time in zip(names, times, strict=True) if time is not None}

    def told(self) -> dict[str, int]:
        """Returns how many waits of workers this process has ended because there was work, by the kind of answer."""
        counted = {"repeat": 0, "empty": 0}
        for (*_, way), count in self._runtime.meter.values_of(TOLD).items():
            if way in counted:  # else one of the task queues that are beyond those that are told apart
                counted[way] += round(count)
        return counted

    async def given_up(self, queue: str) -> list[dict[str, Any]]:
        """Returns the first messages of an internal queue's poison queue, with what they are about if a handler can
        read them. Raises ResourceNotFound if there is no such internal queue."""
        _known(queue)
        found = []
        for message in await given_up_messages(self._queues, queue):
            body, about = message["body"], None
            if isinstance(body, dict):
                with suppress(MalformedMessage):
                    BODIES[queue].read(json.dumps(body))
                    about = {name: body[name] for name in SHOWN if name in body}
            readable = about is not None
            found.append(
                {"messageId": message["id"], "put": message["put"], "readable": readable, "about": about or {}}
            )
        return found

    async def move_given_up(self, queue: str, how: How, message_id: str | None, entry: Entry | None = None) -> Moved:
        """Redrives or deletes the messages of an internal queue's poison queue: one message, or as many as the time
        allows. `entry` is begun before. Raises ResourceNotFound if there is no such internal queue."""
        _known(queue)
        until = self._runtime.now() + timedelta(seconds=SECONDS)
        if entry is not None:
            await entry.begin_entry()
        note_change(entry, None)
        moved = await move_poison(self._queues, queue, how, message_id, has_time=lambda: self._runtime.now() < until)
        note_change(entry, moved.done > 0)
        return moved


def _known(queue: str) -> None:
    if queue not in INTERNAL_QUEUES:
        raise ResourceNotFound(f"there is no queue {queue}; the queues are {', '.join(INTERNAL_QUEUES)}")
