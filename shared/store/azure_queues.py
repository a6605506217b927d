"""Azure Queues behind `interface.Queues`. Requests and answers are as in the Queue service's REST reference: bodies are
XML, and receipts are in headers unless stated otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from xml.etree.ElementTree import ParseError, fromstring  # of answers that the account's own service sends
from xml.sax.saxutils import escape

from shared.base.frozen import dataclass
from shared.store import limits
from shared.store.counting import Kind
from shared.store.interface import Message, Receipt, ReceiptLost, StorageUnavailable
from shared.store.wire import USER_AGENT, Refused, Request, StorageAnswer, StorageEndpoint, Wire, in_path, in_query

_NO_QUEUE = "QueueNotFound"
_BEING_DELETED = "QueueBeingDeleted"
_GONE = frozenset({_NO_QUEUE, _BEING_DELETED})
_LOST = frozenset({"MessageNotFound", "PopReceiptMismatch", *_GONE})

VERSION = "2024-11-04"
"""Version of the Queue service's protocol."""
_FOREVER = -1
_DECLARATION = "<?xml version='1.0' encoding='utf-8'?>\n"
_COMMON = {"Accept": "application/xml", "User-Agent": USER_AGENT, "x-ms-version": VERSION}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PUT = re.compile(r"<(MessageId|PopReceipt|TimeNextVisible)>([^<&]+)</")
"""Matches the elements that make a receipt. None needs escapes, and a parser of XML takes eight times as long."""


@dataclass(frozen=True, eq=False)
class AzureQueues:
    """Queues of one account."""

    _wire: Wire
    _endpoint: StorageEndpoint

    async def create_queue(self, queue: str) -> None:
        """Makes the queue if it does not exist. Raises StorageUnavailable."""
        try:
            await self._wire.send(self._request(Kind.MAKE, "PUT", f"/{queue}"))
        except Refused as answer:
            if answer.code == _BEING_DELETED:
                raise StorageUnavailable(answer.code) from None
            if answer.code != "QueueAlreadyExists":
                raise

    async def drop(self, queue: str) -> None:
        await self._send_request(self._request(Kind.MAKE, "DELETE", f"/{queue}"))

    async def put_message(self, queue: str, text: str, *, visible_in: float = 0) -> Receipt:
        limits.check_text(text)
        options = f"visibilitytimeout={limits.whole_delay(visible_in)}&messagettl={_FOREVER}"
        request = self._request(Kind.QUEUE_PUT, "POST", f"/{queue}/messages", options, text)
        answer = await self._send_request(request)
        if answer is None:
            await self.create_queue(queue)
            answer = await self._wire.send(request)
        try:
            return _receipt(dict(_PUT.findall(answer.content.decode())))
        except (ValueError, KeyError):
            raise StorageUnavailable("an answer that names no message") from None

    async def get_messages(self, queue: str, *, count: int = 1, hidden_for: float) -> list[Message]:
        """See `interface.Queues`. Messages are hidden for a second at least."""
        limits.check_count(count)
        options = f"numofmessages={count}&visibilitytimeout={max(1, limits.whole_delay(hidden_for))}"
        request = self._request(Kind.QUEUE_GET, "GET", f"/{queue}/messages", options)
        return _messages(await self._send_request(request), _receipt)

    async def peek(self, queue: str, *, count: int = 1) -> list[Message]:
        """See `interface.Queues`. A peeked message's `receipt.visible` is the time of its insertion."""
        limits.check_count(count)
        options = f"peekonly=true&numofmessages={count}"
        request = self._request(Kind.QUEUE_PEEK, "GET", f"/{queue}/messages", options)
        return _messages(await self._send_request(request), _no_receipt)

    async def length(self, queue: str) -> int:
        answer = await self._send_request(self._request(Kind.QUEUE_LENGTH, "GET", f"/{queue}", "comp=metadata"))
        return int(answer.header("x-ms-approximate-messages-count") or 0) if answer is not None else 0

    async def update(self, queue: str, receipt: Receipt, *, visible_in: float, text: str | None = None) -> Receipt:
        if text is not None:
            limits.check_text(text)
        options = f"popreceipt={in_query(receipt.pop_receipt)}&visibilitytimeout={limits.whole_delay(visible_in)}"
        answer = await self._hold(self._request(Kind.QUEUE_UPDATE, "PUT", _of_message(queue, receipt), options, text))
        pop_receipt, visible = answer.header("x-ms-popreceipt"), answer.header("x-ms-time-next-visible")
        if pop_receipt and visible:
            with suppress(ValueError):
                return Receipt(message_id=receipt.message_id, pop_receipt=pop_receipt, visible=_time(visible))
        raise StorageUnavailable("an answer without a receipt")

    async def delete_message(self, queue: str, receipt: Receipt) -> None:
        options = f"popreceipt={in_query(receipt.pop_receipt)}"
        await self._hold(self._request(Kind.QUEUE_DELETE, "DELETE", _of_message(queue, receipt), options))

    async def _send_request(self, request: Request) -> StorageAnswer | None:
        """Returns the answer, or None if there is no such queue."""
        try:
            return await self._wire.send(request)
        except Refused as answer:
            if answer.code not in _GONE:
                raise
        return None

    async def _hold(self, request: Request) -> StorageAnswer:
        """Sends a request that needs the message's latest receipt. Raises ReceiptLost."""
        try:
            return await self._wire.send(request)
        except Refused as answer:
            if answer.code in _LOST:
                raise ReceiptLost(answer.code) from None
            raise

    def _request(self, kind: Kind, method: str, resource: str, options: str = "", text: str | None = None) -> Request:
        """Returns a request, with a message's text as its body if one is given."""
        headers, content = dict(_COMMON), b""
        if text is not None:
            headers["Content-Type"] = "application/xml"
            content = f"{_DECLARATION}<QueueMessage><MessageText>{escape(text)}</MessageText></QueueMessage>".encode()
        return Request(kind, method, self._endpoint, resource, headers, content, query=options)


def _of_message(queue: str, receipt: Receipt) -> str:
    return f"/{queue}/messages/{in_path(receipt.message_id)}"


_Words = Mapping[str, str]
"""The texts of an element of a list, by the names of its children."""


def _messages(answer: StorageAnswer | None, receipt: Callable[[_Words], Receipt]) -> list[Message]:
    """Returns the messages in an answer; none without an answer. Raises StorageUnavailable for another answer."""
    if answer is None:
        return []
    try:
        root = fromstring(answer.content)  # noqa: S314 - see the import
        if root.tag != "QueueMessagesList":
            raise ValueError(root.tag)
        elements = (
            {child.tag: child.text for child in element if child.text}
            for element in root
            if element.tag == "QueueMessage"
        )
        return [
            Message(
                receipt=receipt(words),
                text=words.get("MessageText", ""),
                inserted=_time(words["InsertionTime"]),
                dequeue_count=int(words["DequeueCount"]),
            )
            for words in elements
        ]
    except (ParseError, ValueError, KeyError):
        raise StorageUnavailable("an answer that is not a list of messages") from None


def _receipt(words: _Words) -> Receipt:
    return Receipt(
        message_id=words["MessageId"], pop_receipt=words["PopReceipt"], visible=_time(words["TimeNextVisible"])
    )


def _no_receipt(words: _Words) -> Receipt:
    """Returns a receipt that only names the message: it moves nothing, and its time is the insertion's."""
    return Receipt(message_id=words["MessageId"], pop_receipt="", visible=_time(words["InsertionTime"]))


def _time(text: str) -> datetime:
    """Parses a date of HTTP, which is always this long and in GMT ("Sun, 06 Nov 1994 08:49:37 GMT")."""
    day, month, year = int(text[5:7]), _MONTHS.index(text[8:11]) + 1, int(text[12:16])
    return datetime(year, month, day, int(text[17:19]), int(text[20:22]), int(text[23:25]), tzinfo=UTC)
