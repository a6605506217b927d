"""Azure Queues behind `interface.Queues`: requests to put, take, move and remove messages.

Requests and answers are as in the Queue service's REST reference: bodies are XML, and receipts are in headers unless
stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError, fromstring  # of answers that the account's own service sends
from xml.sax.saxutils import escape

from azure.core.exceptions import ResourceExistsError

from shared.store import limits
from shared.store.counting import Kind
from shared.store.interface import Message, Receipt, ReceiptLost, StorageUnavailable
from shared.store.wire import (
    REFUSALS,
    USER_AGENT,
    Refused,
    Request,
    StorageAnswer,
    StorageEndpoint,
    Wire,
    in_path,
    in_query,
    unavailable,
)

if TYPE_CHECKING:
    from azure.storage.queue.aio import QueueClient


_NO_QUEUE = "QueueNotFound"
_BEING_DELETED = "QueueBeingDeleted"
_GONE = frozenset({_NO_QUEUE, _BEING_DELETED})
_LOST = frozenset({"MessageNotFound", "PopReceiptMismatch", *_GONE})


class AzureQueues:
    """Queues of one account."""

    def __init__(
        self,
        wire: Wire,
        endpoint: StorageEndpoint,
        name: Callable[[str], str],
        open_client: Callable[[str], QueueClient],
    ) -> None:
        """`name` maps to a queue's name in the account. `open_client` makes the SDK's client of a queue, for rare
        requests.
        """
        self._wire = wire
        self._endpoint = endpoint
        self._name = name
        self._open_client = open_client

    async def create(self, queue: str) -> None:
        """Make the queue if it does not exist. Raises StorageUnavailable."""
        await _make(self._client(queue))

    async def drop(self, queue: str) -> None:
        try:
            with unavailable():
                await self._client(queue).delete_queue(error_map=REFUSALS)
        except Refused as answer:
            if answer.code not in _GONE:
                raise

    async def put(self, queue: str, text: str, *, visible_in: float = 0) -> Receipt:
        limits.check_text(text)
        delay = limits.whole_delay(visible_in)
        request = put(self._endpoint, self._name(queue), text, delay)
        try:
            return read_put(await self._wire.send(request))
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        await _make(self._client(queue))
        return read_put(await self._wire.send(request))

    async def get(self, queue: str, *, count: int = 1, hidden_for: float) -> list[Message]:
        """Messages are hidden for a second at least."""
        limits.check_count(count)
        seconds = max(1, limits.whole_delay(hidden_for))
        request = get(self._endpoint, self._name(queue), count, seconds)
        try:
            return _messages(await self._wire.send(request), _receipt)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        return []

    async def peek(self, queue: str, *, count: int = 1) -> list[Message]:
        """A peeked message's `receipt.visible` is the time of its insertion."""
        limits.check_count(count)
        request = peek(self._endpoint, self._name(queue), count)
        try:
            return _messages(await self._wire.send(request), _no_receipt)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        return []

    async def length(self, queue: str) -> int:
        try:
            with unavailable():
                found = await self._client(queue).get_queue_properties(error_map=REFUSALS)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
            return 0
        return found.approximate_message_count or 0

    async def update(self, queue: str, receipt: Receipt, *, visible_in: float, text: str | None = None) -> Receipt:
        if text is not None:
            limits.check_text(text)
        delay = limits.whole_delay(visible_in)
        answer = await self._hold(update(self._endpoint, self._name(queue), receipt, text, delay))
        return read_update(answer, receipt)

    async def delete(self, queue: str, receipt: Receipt) -> None:
        await self._hold(delete(self._endpoint, self._name(queue), receipt))

    async def _hold(self, request: Request) -> StorageAnswer:
        """Sends a request that needs the message's latest receipt. Raises ReceiptLost."""
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
        with unavailable(), suppress(ResourceExistsError):  # the SDK raises this for 204: it exists already
            await client.create_queue(error_map=REFUSALS)
    except Refused as answer:
        if answer.code == _BEING_DELETED:
            raise StorageUnavailable(answer.code) from None
        if answer.code != "QueueAlreadyExists":
            raise


VERSION = "2024-11-04"
"""Of the Queue service's protocol."""
_FOREVER = -1
_DECLARATION = "<?xml version='1.0' encoding='utf-8'?>\n"
_COMMON = {"Accept": "application/xml", "User-Agent": USER_AGENT, "x-ms-version": VERSION}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def put(endpoint: StorageEndpoint, queue: str, text: str, delay: int) -> Request:
    """Adds a message, to be seen after `delay` seconds."""
    query = f"visibilitytimeout={delay}&messagettl={_FOREVER}"
    return Request(Kind.QUEUE_PUT, "POST", endpoint, f"/{queue}/messages", *_with_text(text), query=query)


def get(endpoint: StorageEndpoint, queue: str, count: int, hidden_for: int) -> Request:
    """Receives messages, and hides them for `hidden_for` seconds."""
    query = f"numofmessages={count}&visibilitytimeout={hidden_for}"
    return Request(Kind.QUEUE_GET, "GET", endpoint, f"/{queue}/messages", dict(_COMMON), query=query)


def peek(endpoint: StorageEndpoint, queue: str, count: int) -> Request:
    """Looks at messages without taking them."""
    query = f"peekonly=true&numofmessages={count}"
    return Request(Kind.QUEUE_PEEK, "GET", endpoint, f"/{queue}/messages", dict(_COMMON), query=query)


def update(endpoint: StorageEndpoint, queue: str, receipt: Receipt, text: str | None, delay: int) -> Request:
    """Moves a message, with a new text if there is one."""
    query = f"popreceipt={in_query(receipt.pop_receipt)}&visibilitytimeout={delay}"
    resource = f"/{queue}/messages/{in_path(receipt.message_id)}"
    headers, content = (dict(_COMMON), b"") if text is None else _with_text(text)
    return Request(Kind.QUEUE_UPDATE, "PUT", endpoint, resource, headers, content, query=query)


def delete(endpoint: StorageEndpoint, queue: str, receipt: Receipt) -> Request:
    """Removes a message."""
    query = f"popreceipt={in_query(receipt.pop_receipt)}"
    resource = f"/{queue}/messages/{in_path(receipt.message_id)}"
    return Request(Kind.QUEUE_DELETE, "DELETE", endpoint, resource, dict(_COMMON), query=query)


def read_put(answer: StorageAnswer) -> Receipt:
    """The receipt of the message that was put. Raises StorageUnavailable if the answer has none."""
    try:
        (words,) = _elements(answer)
        return _receipt(words)
    except (ParseError, ValueError, KeyError):
        raise StorageUnavailable("an answer that names no message") from None


_Words = Mapping[str, str]
"""What an element of a list says, by the names of its children."""


def _messages(answer: StorageAnswer, receipt: Callable[[_Words], Receipt]) -> list[Message]:
    """The messages in an answer. Raises StorageUnavailable if it is not a list of messages."""
    try:
        return [
            Message(
                receipt=receipt(words),
                text=words.get("MessageText", ""),
                inserted=_time(words["InsertionTime"]),
                dequeue_count=int(words["DequeueCount"]),
            )
            for words in _elements(answer)
        ]
    except (ParseError, ValueError, KeyError):
        raise StorageUnavailable("an answer that is not a list of messages") from None


def read_update(answer: StorageAnswer, receipt: Receipt) -> Receipt:
    """The new receipt of a message that was moved. Raises StorageUnavailable if the answer has none."""
    try:
        return Receipt(
            message_id=receipt.message_id,
            pop_receipt=answer.headers["x-ms-popreceipt"],
            visible=_time(answer.headers["x-ms-time-next-visible"]),
        )
    except (ValueError, KeyError):
        raise StorageUnavailable("an answer without a receipt") from None


def _with_text(text: str) -> tuple[dict[str, str], bytes]:
    content = f"{_DECLARATION}<QueueMessage><MessageText>{escape(text)}</MessageText></QueueMessage>"
    return {**_COMMON, "Content-Type": "application/xml"}, content.encode()


def _elements(answer: StorageAnswer) -> list[_Words]:
    root = fromstring(answer.content)  # noqa: S314 - see the import
    if root.tag != "QueueMessagesList":
        raise ValueError(root.tag)
    messages = [element for element in root if element.tag == "QueueMessage"]
    return [{child.tag: child.text for child in element if child.text} for element in messages]


def _receipt(words: _Words) -> Receipt:
    return Receipt(
        message_id=words["MessageId"], pop_receipt=words["PopReceipt"], visible=_time(words["TimeNextVisible"])
    )


def _no_receipt(words: _Words) -> Receipt:
    """A receipt that only names the message: nothing can be moved by it, and its time is that of the insertion."""
    return Receipt(message_id=words["MessageId"], pop_receipt="", visible=_time(words["InsertionTime"]))


def _time(text: str) -> datetime:
    """A date of HTTP, which is always this long and in GMT ("Sun, 06 Nov 1994 08:49:37 GMT")."""
    day, month, year = int(text[5:7]), _MONTHS.index(text[8:11]) + 1, int(text[12:16])
    return datetime(year, month, day, int(text[17:19]), int(text[20:22]), int(text[23:25]), tzinfo=UTC)
