"""Azure Queues in memory: receipts, visibility on the virtual clock, and on demand the freedom that Azure takes."""

from __future__ import annotations

import base64
import itertools
import random
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.store import limits
from shared.store.counting import Kind
from shared.store.interface import Message, Receipt, ReceiptLost, StorageUnavailable
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Call, Gate, perform
from tests.parts.twin.names import check_dashed


@dataclass(kw_only=True)
class Disorder:
    """What a queue may do although it seldom does. Chances are for each message at each Get, decided by `chance`."""

    chance: random.Random
    reordered: bool = True
    """Whether visible messages come in any order."""
    late: float = 0.0
    """Chance that a visible message is not shown this time."""
    duplicated: float = 0.0
    """Chance that a message that somebody took and has not moved since is given out again before its time."""
    lapsed_receipts_lost: bool = False
    """Whether a receipt is no good any more once its message has become visible again, even if no one took it since."""


@dataclass(kw_only=True)
class StoredMessage:
    """A message as the queue knows it."""

    message_id: str
    text: str
    inserted: datetime
    visible: datetime
    pop_receipt: str
    dequeue_count: int = 0
    taken: bool = False
    """Whether the message was hidden by a Get, not by its owner's Put or Update."""


class MemoryQueues:
    """`interface.Queues`, and `messages` and `names` for a look inside."""

    def __init__(self, clock: VirtualClock, gate: Gate, disorder: Disorder | None = None) -> None:
        self._clock = clock
        self._gate = gate
        self._disorder = disorder
        self._queues: dict[str, dict[str, StoredMessage]] = {}
        self._dropped: dict[str, datetime] = {}
        self.being_deleted_for = 40.0
        self._numbers = itertools.count(1)

    def names(self) -> list[str]:
        """Returns the names of all queues, without a counted request."""
        return sorted(self._queues)

    def messages(self, queue: str) -> list[StoredMessage]:
        """Returns all messages of a queue, hidden ones too, as they were put, without a counted request."""
        return list(self._queues.get(queue, {}).values())

    def state(self) -> str:
        """Returns all messages with their receipts as text, without a counted request."""
        return repr([(queue, self.messages(queue)) for queue in self.names()])

    async def create_queue(self, queue: str) -> None:
        check_dashed(queue)
        await perform(self._gate, Call(Kind.MAKE, queue), lambda: self._make(queue))

    async def drop(self, queue: str) -> None:
        """Deletes the queue. As in Azure, it cannot be made again for `being_deleted_for` seconds."""
        check_dashed(queue)

        def effect() -> None:
            if self._queues.pop(queue, None) is not None:
                self._dropped[queue] = self._clock.exact()

        await perform(self._gate, Call(Kind.MAKE, queue), effect)

    def _make(self, queue: str) -> None:
        dropped = self._dropped.get(queue)
        if dropped is not None and (self._clock.exact() - dropped).total_seconds() < self.being_deleted_for:
            raise StorageUnavailable("QueueBeingDeleted")
        self._queues.setdefault(queue, {})

    async def put_message(self, queue: str, text: str, *, visible_in: float = 0) -> Receipt:
        check_dashed(queue)
        limits.check_text(text)
        delay = limits.whole_delay(visible_in)

        def effect() -> Receipt:
            now = self._clock.exact()
            message = StoredMessage(
                message_id=str(uuid.UUID(int=next(self._numbers))),
                text=text,
                inserted=now,
                visible=now + timedelta(seconds=delay),
                pop_receipt=self._new_receipt(),
            )
            self._make(queue)
            self._queues[queue][message.message_id] = message
            return _receipt(message)

        return await perform(self._gate, Call(Kind.QUEUE_PUT, queue), effect)

    async def get_messages(self, queue: str, *, count: int = 1, hidden_for: float) -> list[Message]:
        check_dashed(queue)
        limits.check_count(count)
        seconds = max(1, limits.whole_delay(hidden_for))

        def effect() -> list[Message]:
            taken = self._offered(queue)[:count]
            for message in taken:
                message.visible = self._clock.exact() + timedelta(seconds=seconds)
                message.pop_receipt = self._new_receipt()
                message.dequeue_count += 1
                message.taken = True
            return [_message(message, _receipt(message)) for message in taken]

        return await perform(self._gate, Call(Kind.QUEUE_GET, queue), effect)

    async def peek(self, queue: str, *, count: int = 1) -> list[Message]:
        """Returns visible messages. As in Azure's answer, `receipt.visible` is only the time of the insertion."""
        check_dashed(queue)
        limits.check_count(count)

        def effect() -> list[Message]:
            return [
                _message(
                    message,
                    Receipt(message_id=message.message_id, pop_receipt="", visible=_to_the_second(message.inserted)),
                )
                for message in self._visible(queue)[:count]
            ]

        return await perform(self._gate, Call(Kind.QUEUE_PEEK, queue), effect)

    async def length(self, queue: str) -> int:
        check_dashed(queue)
        return await perform(self._gate, Call(Kind.QUEUE_LENGTH, queue), lambda: len(self.messages(queue)))

    async def update(self, queue: str, receipt: Receipt, *, visible_in: float, text: str | None = None) -> Receipt:
        check_dashed(queue)
        if text is not None:
            limits.check_text(text)
        delay = limits.whole_delay(visible_in)

        def effect() -> Receipt:
            message = self._held(queue, receipt)
            message.text = message.text if text is None else text
            message.visible = self._clock.exact() + timedelta(seconds=delay)
            message.pop_receipt = self._new_receipt()
            message.taken = False
            return _receipt(message)

        return await perform(self._gate, Call(Kind.QUEUE_UPDATE, queue, receipt.message_id), effect)

    async def delete_message(self, queue: str, receipt: Receipt) -> None:
        check_dashed(queue)

        def effect() -> None:
            message = self._held(queue, receipt)
            del self._queues[queue][message.message_id]

        await perform(self._gate, Call(Kind.QUEUE_DELETE, queue, receipt.message_id), effect)

    def _visible(self, queue: str) -> list[StoredMessage]:
        """Returns what may be taken now, longest visible first (in the order of insertion among equals)."""
        now = self._clock.exact()
        return sorted(
            (message for message in self.messages(queue) if message.visible <= now),
            key=lambda message: message.visible,
        )

    def _offered(self, queue: str) -> list[StoredMessage]:
        """Returns what a Get is offered: the visible messages in order, or what disorder makes of them."""
        offered = self._visible(queue)
        disorder = self._disorder
        if disorder is None:
            return offered
        offered = [message for message in offered if disorder.chance.random() >= disorder.late]
        hidden = [message for message in self.messages(queue) if message.taken and message not in offered]
        offered += [message for message in hidden if disorder.chance.random() < disorder.duplicated]
        if disorder.reordered:
            disorder.chance.shuffle(offered)
        return offered

    def _held(self, queue: str, receipt: Receipt) -> StoredMessage:
        message = self._queues.get(queue, {}).get(receipt.message_id)
        if message is None:
            raise ReceiptLost("MessageNotFound")
        lapsed = message.taken and message.visible <= self._clock.exact()
        strict = self._disorder is not None and self._disorder.lapsed_receipts_lost
        if message.pop_receipt != receipt.pop_receipt or (strict and lapsed):
            raise ReceiptLost("PopReceiptMismatch")
        return message

    def _new_receipt(self) -> str:
        return base64.b64encode(f"receipt {next(self._numbers)}".encode()).decode()


def _to_the_second(moment: datetime) -> datetime:
    """Cuts off the fraction of a time, as Azure states the times of a message."""
    return moment.replace(microsecond=0)


def _receipt(message: StoredMessage) -> Receipt:
    return Receipt(
        message_id=message.message_id, pop_receipt=message.pop_receipt, visible=_to_the_second(message.visible)
    )


def _message(message: StoredMessage, receipt: Receipt) -> Message:
    return Message(
        receipt=receipt,
        text=message.text,
        inserted=_to_the_second(message.inserted),
        dequeue_count=message.dequeue_count,
    )
