"""Azure Queues behind `interface.Queues`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar, cast

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueMessage
from azure.storage.queue.aio import QueueClient

from shared.recent import Recent
from shared.storage import limits
from shared.storage.interface import Message, Receipt, ReceiptLost, StorageUnavailable
from shared.storage.pipeline import REFUSALS, Refused, unavailable

_NO_QUEUE = "QueueNotFound"
_BEING_DELETED = "QueueBeingDeleted"
_GONE = frozenset({_NO_QUEUE, _BEING_DELETED})
_LOST = frozenset({"MessageNotFound", "PopReceiptMismatch", *_GONE})
_FOREVER = -1
_CLIENTS = 10_000
"""Queues whose clients a process keeps; they share one transport, and cost only memory."""
T = TypeVar("T")


class AzureQueues:
    """Queues of one account."""

    def __init__(self, open_client: Callable[[str], QueueClient]) -> None:
        self._open_client = open_client
        self._clients: Recent[str, QueueClient] = Recent(_CLIENTS)

    async def create(self, queue: str) -> None:
        """Make the queue if it does not exist. Raises StorageUnavailable."""
        await _make(self._client(queue))

    async def drop(self, queue: str) -> None:
        """See `interface.Queues.drop`."""
        try:
            with unavailable():
                await self._client(queue).delete_queue(error_map=REFUSALS)
        except Refused as answer:
            if answer.code not in _GONE:
                raise

    async def put(self, queue: str, text: str, *, visible_in: float = 0) -> Receipt:
        """See `interface.Queues.put`."""
        limits.check_text(text)
        delay = limits.whole_delay(visible_in)
        client = self._client(queue)
        try:
            return await _put(client, text, delay)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        await _make(client)
        return await _put(client, text, delay)

    async def get(self, queue: str, *, count: int = 1, hidden_for: float) -> list[Message]:
        """See `interface.Queues.get`. Messages are hidden for a second at least."""
        limits.check_count(count)
        seconds = max(1, limits.whole_delay(hidden_for))
        pages = (
            self._client(queue)
            .receive_messages(
                messages_per_page=count, max_messages=count, visibility_timeout=seconds, error_map=REFUSALS
            )
            .by_page()
        )
        try:
            with unavailable():
                async for page in pages:
                    return [_message(taken) async for taken in page]
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        return []

    async def peek(self, queue: str, *, count: int = 1) -> list[Message]:
        """See `interface.Queues.peek`. A peeked message's `receipt.visible` is the time of its insertion."""
        limits.check_count(count)
        try:
            with unavailable():
                seen = await self._client(queue).peek_messages(count, error_map=REFUSALS)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
            return []
        return [_message(message) for message in seen]

    async def length(self, queue: str) -> int:
        """See `interface.Queues.length`."""
        try:
            with unavailable():
                found = await self._client(queue).get_queue_properties(error_map=REFUSALS)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
            return 0
        return found.approximate_message_count or 0

    async def update(self, queue: str, receipt: Receipt, *, visible_in: float, text: str | None = None) -> Receipt:
        """See `interface.Queues.update`."""
        if text is not None:
            limits.check_text(text)
        moved = await _held(
            self._client(queue).update_message(
                receipt.message_id,
                receipt.pop_receipt,
                text,
                visibility_timeout=limits.whole_delay(visible_in),
                error_map=REFUSALS,
            )
        )
        return _receipt(moved)

    async def delete(self, queue: str, receipt: Receipt) -> None:
        """See `interface.Queues.delete`."""
        await _held(self._client(queue).delete_message(receipt.message_id, receipt.pop_receipt, error_map=REFUSALS))

    def _client(self, queue: str) -> QueueClient:
        client = self._clients.get(queue)
        if client is None:
            client = self._clients[queue] = self._open_client(queue)
        return client


async def _make(client: QueueClient) -> None:
    try:
        with unavailable(), suppress(ResourceExistsError):  # what the SDK makes of 204: it exists just so
            await client.create_queue(error_map=REFUSALS)
    except Refused as answer:
        if answer.code == _BEING_DELETED:
            raise StorageUnavailable(answer.code) from None
        if answer.code != "QueueAlreadyExists":
            raise


async def _put(client: QueueClient, text: str, delay: int) -> Receipt:
    with unavailable():
        sent = await client.send_message(text, visibility_timeout=delay, time_to_live=_FOREVER, error_map=REFUSALS)
    return _receipt(sent)


async def _held(request: Awaitable[T]) -> T:
    """The answer to a request that needs the message's latest receipt."""
    try:
        with unavailable():
            return await request
    except Refused as answer:
        if answer.code in _LOST:
            raise ReceiptLost(answer.code) from None
        raise


def _receipt(message: QueueMessage) -> Receipt:
    return Receipt(
        message_id=message.id,
        pop_receipt=cast(str, message.pop_receipt),
        visible=cast(datetime, message.next_visible_on),
    )


def _message(message: QueueMessage) -> Message:
    content: Any = message.content
    inserted = cast(datetime, message.inserted_on)
    return Message(
        receipt=Receipt(
            message_id=message.id,
            pop_receipt=message.pop_receipt or "",
            visible=message.next_visible_on or inserted,
        ),
        text=content,
        inserted=inserted,
        dequeue_count=cast(int, message.dequeue_count),
    )
