"""Azure Queues behind `interface.Queues`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import ResourceExistsError

from shared.storage import limits, queue_requests
from shared.storage.interface import Message, Receipt, ReceiptLost, StorageUnavailable
from shared.storage.refusals import REFUSALS
from shared.storage.wire import Answer, Endpoint, Refused, Request, Wire, unavailable

if TYPE_CHECKING:
    from azure.storage.queue.aio import QueueClient

_NO_QUEUE = "QueueNotFound"
_BEING_DELETED = "QueueBeingDeleted"
_GONE = frozenset({_NO_QUEUE, _BEING_DELETED})
_LOST = frozenset({"MessageNotFound", "PopReceiptMismatch", *_GONE})


class AzureQueues:
    """Queues of one account."""

    def __init__(
        self, wire: Wire, endpoint: Endpoint, name: Callable[[str], str], open_client: Callable[[str], QueueClient]
    ) -> None:
        """`name` gives a queue's name in the account, `open_client` the SDK's client of that name, for what is rare."""
        self._wire = wire
        self._endpoint = endpoint
        self._name = name
        self._open_client = open_client

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
        request = queue_requests.put(self._endpoint, self._name(queue), text, delay)
        try:
            return queue_requests.read_put(await self._wire.send(request))
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        await _make(self._client(queue))
        return queue_requests.read_put(await self._wire.send(request))

    async def get(self, queue: str, *, count: int = 1, hidden_for: float) -> list[Message]:
        """See `interface.Queues.get`. Messages are hidden for a second at least."""
        limits.check_count(count)
        seconds = max(1, limits.whole_delay(hidden_for))
        request = queue_requests.get(self._endpoint, self._name(queue), count, seconds)
        try:
            return queue_requests.read_messages(await self._wire.send(request))
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        return []

    async def peek(self, queue: str, *, count: int = 1) -> list[Message]:
        """See `interface.Queues.peek`. A peeked message's `receipt.visible` is the time of its insertion."""
        limits.check_count(count)
        request = queue_requests.peek(self._endpoint, self._name(queue), count)
        try:
            return queue_requests.read_peeked(await self._wire.send(request))
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        return []

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
        delay = limits.whole_delay(visible_in)
        answer = await self._hold(queue_requests.update(self._endpoint, self._name(queue), receipt, text, delay))
        return queue_requests.read_update(answer, receipt)

    async def delete(self, queue: str, receipt: Receipt) -> None:
        """See `interface.Queues.delete`."""
        await self._hold(queue_requests.delete(self._endpoint, self._name(queue), receipt))

    async def _hold(self, request: Request) -> Answer:
        """The answer to a request that needs the message's latest receipt."""
        try:
            return await self._wire.send(request)
        except Refused as answer:
            if answer.code in _LOST:
                raise ReceiptLost(answer.code) from None
            raise

    def _client(self, queue: str) -> QueueClient:
        return self._open_client(self._name(queue))


async def _make(client: QueueClient) -> None:
    try:
        with unavailable(), suppress(ResourceExistsError):  # what the SDK makes of 204: it exists just so
            await client.create_queue(error_map=REFUSALS)
    except Refused as answer:
        if answer.code == _BEING_DELETED:
            raise StorageUnavailable(answer.code) from None
        if answer.code != "QueueAlreadyExists":
            raise
