"""Answers of poll URLs as workers hand them in: read, or refused, and never expanded."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.queue.claims.poll_urls import LONGEST_ANSWER, MalformedAnswer, parse_poll_answer
from shared.store.limits import MAX_MESSAGES

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ID = "12345678-1234-1234-1234-123456789abc"


def message(**changes: str) -> str:
    values = {
        "MessageId": ID,
        "InsertionTime": "Sat, 21 Nov 2026 11:58:00 GMT",
        "ExpirationTime": "Fri, 31 Dec 9999 23:59:59 GMT",
        "PopReceipt": "AgAAAAMAAAAAAAAA+abc/==",
        "TimeNextVisible": "Sat, 21 Nov 2026 12:05:00 GMT",
        "DequeueCount": "3",
        "MessageText": "eyJ9",
        **changes,
    }
    inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in values.items() if text)
    return f"<QueueMessage>{inside}</QueueMessage>"


def answer(*messages: str) -> str:
    listed = "".join(messages)
    return f'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>{listed}</QueueMessagesList>'


def test_a_message_is_read_with_its_receipt_and_times() -> None:
    (found,) = parse_poll_answer(answer(message()), NOW)
    assert found.receipt.message_id == ID
    assert found.receipt.pop_receipt == "AgAAAAMAAAAAAAAA+abc/=="
    assert found.receipt.visible == NOW + timedelta(minutes=5)
    assert found.inserted == NOW - timedelta(minutes=2)
    assert found.dequeue_count == 3
    assert found.text == "eyJ9"


def test_several_in_their_order_and_each_once() -> None:
    ids = [f"{number:08d}-1234-1234-1234-123456789abc" for number in (3, 1, 2, 1)]
    found = parse_poll_answer(answer(*(message(MessageId=each) for each in ids)), NOW)
    assert [each.receipt.message_id for each in found] == ids[:3]


def test_no_more_messages_than_azure_returns_are_read() -> None:
    listed = [message(MessageId=f"{number:08d}-1234-1234-1234-123456789abc") for number in range(MAX_MESSAGES + 1)]
    assert len(parse_poll_answer(answer(*listed), NOW)) == MAX_MESSAGES


@pytest.mark.parametrize(
    "changes",
    [
        {"MessageId": ""},
        {"MessageId": "../../other-queue/messages/" + ID},
        {"MessageId": ID + "?x"},
        {"PopReceipt": ""},
        {"PopReceipt": "a b"},
        {"PopReceipt": "é"},
        {"PopReceipt": "x" * 513},
    ],
)
def test_what_has_no_usable_id_or_receipt_is_left_out(changes: dict[str, str]) -> None:
    assert parse_poll_answer(answer(message(**changes)), NOW) == []


BOMB = """<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">{}]><QueueMessagesList>&z;</QueueMessagesList>"""
ENTITIES = "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghz", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no XML",
        "<Error><Code>AuthenticationFailed</Code></Error>",
        "<QueueMessagesList>",
        BOMB.format(ENTITIES),
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><QueueMessagesList/>',
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><QueueMessagesList>&e;</QueueMessagesList>',
        '<?xml version="1.0" encoding="utf-16"?><QueueMessagesList/>',
        '<?xml version="1.0" encoding="klingon"?><QueueMessagesList/>',
        "<QueueMessagesList>\ud800</QueueMessagesList>",
        "<QueueMessagesList>" + "<a>" * 1000,
        answer(message()) + " " * LONGEST_ANSWER,
    ],
)
def test_anything_else_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(MalformedAnswer):
        parse_poll_answer(text, NOW)
    assert time.process_time() - started < 1


_WORDS = st.sampled_from(
    ["<", ">", "/", "QueueMessagesList", "QueueMessage", "MessageId", ID, "&amp;", "<!DOCTYPE", "é"]
)


@given(st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=12).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (text, answer(text)):
        try:
            parse_poll_answer(each, NOW)
        except MalformedAnswer:
            continue
