"""Puts, moves, reads and removes messages in Azure queues: names, visibility, the text of pending ones (design 3)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache

from shared.base.concurrency import together
from shared.base.frozen import dataclass
from shared.base.priority import PRIORITIES, Priority
from shared.base.protocol import LONGEST_TIMER, RESOLVED_DELAY
from shared.queue.tasks import internal_messages as bodies
from shared.queue.tasks.effects import PendingContent, PutClaim, PutDeadline, PutResolved
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.queue.tasks.rules import MessageHandle
from shared.runtime import Runtime
from shared.store.interface import Message, Receipt, ReceiptLost, Storage, StorageUnavailable
from shared.store.limits import MAX_MESSAGE, MAX_MESSAGES
from shared.telemetry.instruments import EVENTS_DEFERRED, POISONED


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingMessage:
    """A message of a pending queue."""

    content: PendingContent
    handle: MessageHandle
    inserted: datetime
    dequeue_count: int


@lru_cache(maxsize=1024)  # a look for work names all bands of one pool, again and again
def pending_queue(task_queue_id: str, priority: Priority) -> str:
    """Returns the queue of a pool's band: hashed, since ids do not fit the rules for queue names; 1 is the highest."""
    digest = hashlib.sha256(task_queue_id.encode()).digest()[:15]
    name = base64.b32encode(digest).decode().lower()
    return f"pending-{name}-{PRIORITIES.index(priority) + 1}"


def poison_queue(queue: str) -> str:
    """Returns the queue for messages of an internal queue that cannot be handled, as the Functions host names it."""
    return f"{queue}-poison"


class Messages:
    """Puts, moves and removes the messages that the service knows of. It signs what a pending message says, so that a
    worker cannot name another task (design 4). The first key signs; all verify, so that keys can be rotated."""

    def __init__(
        self, storage: Storage, runtime: Runtime, signing_keys: Sequence[str], deadline_delay: timedelta
    ) -> None:
        self._queues = storage.queues
        self._now = runtime.now
        self._meter = runtime.meter
        self._keys = [key.encode() for key in signing_keys]
        self._deadline_delay = deadline_delay

    async def put_pending(self, content: PendingContent, priority: Priority, visible: datetime | None) -> MessageHandle:
        """Puts a pending message, to be seen at once or as a lease."""
        queue = pending_queue(content.task_queue_id, priority)
        text = self._pending_text(queue, content)
        return _handle(queue, await self._queues.put_message(queue, text, visible_in=self._delay(visible)))

    async def move_pending(
        self, handle: MessageHandle, content: PendingContent, visible: datetime | None
    ) -> MessageHandle:
        """Moves a pending message in time and to another run. Raises ReceiptLost."""
        return await self._update_message(handle, visible, self._pending_text(handle.queue, content))

    async def show(self, handle: MessageHandle) -> None:
        """Shows a message at once, unless somebody has received it meanwhile."""
        with suppress(ReceiptLost):
            await self._queues.update(handle.queue, _receipt(handle), visible_in=0)

    async def release(self, messages: Iterable[PendingMessage]) -> None:
        """Shows polled messages again that led to no claim."""

        async def release(message: PendingMessage) -> None:
            with suppress(StorageUnavailable):  # it becomes visible by itself, when its visibility timeout ends
                await self.show(message.handle)

        await together(*map(release, messages))

    async def poll(
        self, task_queue_id: str, priority: Priority, *, count: int, hidden_for: float
    ) -> list[PendingMessage]:
        """Takes up to `count` pending messages of a band. What this service did not write is removed, up to 32 of it,
        and others are taken in its place."""
        queue = pending_queue(task_queue_id, priority)
        messages: list[PendingMessage] = []
        removed = 0
        while True:
            taken = await self._queues.get_messages(queue, count=count - len(messages), hidden_for=hidden_for)
            before = removed
            for message in taken:
                try:
                    messages.append(self.read_pending(task_queue_id, message))
                except MalformedMessage:
                    removed += 1
                    with suppress(StorageUnavailable):  # it will be received again; do not lose the others
                        await self.remove_message(_handle(queue, message.receipt))
            if removed == before or removed >= MAX_MESSAGES:
                return messages

    async def head(self, task_queue_id: str, priority: Priority) -> datetime | None:
        """Returns when the first visible message of a band was put; None when nothing is visible."""
        found = await self._queues.peek(pending_queue(task_queue_id, priority))
        return found[0].inserted if found else None

    async def visible(self, task_queue_id: str, priority: Priority, count: int) -> list[str]:
        """Returns the ids of up to `count` visible messages of a band, which stay visible."""
        peeked = await self._queues.peek(pending_queue(task_queue_id, priority), count=count)
        return [message.receipt.message_id for message in peeked]

    def read_pending(self, task_queue_id: str, message: Message) -> PendingMessage:
        """Returns a pending message of that pool, its signature verified. Raises MalformedMessage. The band is not
        signed. A worker that states a wrong band gains nothing: the message's receipt is not valid in that queue."""
        body = bodies.PendingBody.decode(message.text)
        content = PendingContent(
            task_queue_id=task_queue_id, task_id=body.task_id, run_id=body.run_id, hint_id=body.hint_id
        )
        given, made = body.signature.encode(errors="replace"), [_signature(key, content).encode() for key in self._keys]
        if not any(hmac.compare_digest(given, each) for each in made):
            raise MalformedMessage("not signed by this service for this pool")
        return PendingMessage(
            content=content,
            handle=_handle(pending_queue(task_queue_id, body.priority), message.receipt),
            inserted=message.inserted,
            dequeue_count=message.dequeue_count,
        )

    async def put_claim(self, claim: PutClaim, put: datetime | None = None) -> MessageHandle:
        """Puts a claim message, visible at takenUntil. `put` says when it was first put."""
        body = bodies.ClaimBody(
            task_id=claim.task_id, run_id=claim.run_id, put=put or self._now(), started=claim.started
        )
        return await self.put_body(body, self._delay(claim.taken_until))

    async def move_claim(self, handle: MessageHandle, taken_until: datetime) -> MessageHandle:
        """Moves a claim message to another takenUntil. Raises ReceiptLost."""
        return await self._update_message(handle, taken_until, None)

    async def put_deadline(self, message: PutDeadline, put: datetime | None = None) -> MessageHandle:
        """Puts a deadline message, visible some time after the deadline, or earlier if that is over 7 days away."""
        body = bodies.DeadlineBody(
            task_id=message.task_id,
            task_group_id=message.task_group_id,
            scheduler_id=message.scheduler_id,
            put=put or self._now(),
        )
        return await self.put_body(body, self._delay(message.deadline + self._deadline_delay))

    async def put_resolved(self, message: PutResolved, visible_in: timedelta = RESOLVED_DELAY) -> MessageHandle:
        """Puts a resolved message, ahead of its commit."""
        body = bodies.ResolvedBody(
            task_id=message.task_id, run_id=message.run_id, put=self._now(), at_deadline=message.at_deadline
        )
        return await self.put_body(body, visible_in.total_seconds())

    async def put_pointer(self, pointer: str) -> MessageHandle:
        """Puts a pointer to an event that could not be sent."""
        self._meter.add(EVENTS_DEFERRED)
        return await self.put_body(bodies.EventBody(pointer=pointer), 0)

    async def poison(self, queue: str, text: str) -> None:
        """Puts a message that cannot be handled into its poison queue, cut to what fits. A message that this service
        did not write may have become too long: what is not valid UTF-8 was replaced by more bytes."""
        self._meter.add(POISONED, queue)
        content = text.encode()[: MAX_MESSAGE // 4 * 3]
        await self._queues.put_message(poison_queue(queue), base64.b64encode(content).decode())

    async def remove_message(self, handle: MessageHandle) -> None:
        """Removes a message; if another call holds it, that finds by `rules.judge_message` that it is an orphan."""
        with suppress(ReceiptLost):
            await self._queues.delete_message(handle.queue, _receipt(handle))

    async def put_body(self, body: bodies.Body, delay: float) -> MessageHandle:
        """Puts a message into its internal queue, to be seen after a delay in seconds."""
        return _handle(body.queue, await self._queues.put_message(body.queue, body.text(), visible_in=delay))

    async def _update_message(self, handle: MessageHandle, visible: datetime | None, text: str | None) -> MessageHandle:
        receipt = await self._queues.update(handle.queue, _receipt(handle), visible_in=self._delay(visible), text=text)
        return _handle(handle.queue, receipt)

    def _pending_text(self, queue: str, content: PendingContent) -> str:
        return bodies.PendingBody(
            task_id=content.task_id,
            run_id=content.run_id,
            hint_id=content.hint_id,
            signature=_signature(self._keys[0], content),
            priority=PRIORITIES[int(queue.rsplit("-", 1)[1]) - 1],
        ).text()

    def _delay(self, visible: datetime | None) -> float:
        """Returns the seconds from now until that time, within what a queue allows."""
        if visible is None:
            return 0
        return min(max((visible - self._now()).total_seconds(), 0), LONGEST_TIMER.total_seconds())


def _signature(key: bytes, content: PendingContent) -> str:
    text = "\n".join(("pending", content.task_queue_id, content.task_id, str(content.run_id), content.hint_id))
    return base64.b64encode(hmac.digest(key, text.encode(errors="replace"), "sha256")).decode()


def _handle(queue: str, receipt: Receipt) -> MessageHandle:
    return MessageHandle(queue=queue, message_id=receipt.message_id, pop_receipt=receipt.pop_receipt)


def _receipt(handle: MessageHandle) -> Receipt:
    """Returns the receipt of a message, of which only id and pop receipt are used."""
    return Receipt(message_id=handle.message_id, pop_receipt=handle.pop_receipt, visible=datetime.min)
