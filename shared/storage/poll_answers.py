"""Answers of Azure to a Get Messages request, as workers hand them in: nothing in them can be trusted (contract 15)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]  # it has no type hints

from shared.errors import ServiceError
from shared.storage.interface import Message, Receipt

LONGEST = 256 * 1024
"""Characters: 32 messages take a quarter of it."""
MOST = 32
"""Messages that one answer may hold."""

_ID = re.compile(r"[0-9A-Fa-f-]{36}")
_RECEIPT = re.compile(r"[\x21-\x7e]{1,512}")


class MalformedAnswer(ServiceError, ValueError):
    """Not an answer of Azure."""


def parse_poll_answer(text: str, now: datetime) -> list[Message]:
    """The messages of an answer, each once. Entities are not expanded, nor is anything loaded.

    A message without a usable id and receipt is left out; one without a time counts as inserted now.
    Raises MalformedAnswer.
    """
    if len(text) > LONGEST:
        raise MalformedAnswer(f"longer than {LONGEST} characters")
    try:
        root = fromstring(text.removeprefix("\ufeff").encode(), forbid_dtd=True)
    except (ParseError, ValueError, LookupError) as error:  # LookupError: it declares an unknown encoding
        raise MalformedAnswer("not XML, or with a document type") from error
    if root.tag != "QueueMessagesList":
        raise MalformedAnswer("not a QueueMessagesList")
    found = [message for element in root.findall("QueueMessage")[:MOST] if (message := _message(element, now))]
    return list({message.receipt.message_id: message for message in found}.values())


def _message(element: Element, now: datetime) -> Message | None:
    message_id, pop_receipt = _text(element, "MessageId"), _text(element, "PopReceipt")
    if not _ID.fullmatch(message_id) or not _RECEIPT.fullmatch(pop_receipt):
        return None
    count = _text(element, "DequeueCount")
    return Message(
        receipt=Receipt(
            message_id=message_id, pop_receipt=pop_receipt, visible=_time(_text(element, "TimeNextVisible"), now)
        ),
        text=_text(element, "MessageText"),
        inserted=min(_time(_text(element, "InsertionTime"), now), now),
        dequeue_count=int(count) if re.fullmatch("[1-9][0-9]{0,5}", count) else 1,
    )


def _text(element: Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _time(text: str, now: datetime) -> datetime:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return now
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
