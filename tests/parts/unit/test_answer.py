"""The error envelope: whatever the caller sent, it is short and it is JSON (contract 12)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.answer import MOST_ECHOED, MOST_REFUSED, Answer, echo, error_answer, header_value
from shared.base.errors import InputError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def refusal(message: str = "no", body: bytes = b"", payload: Any = None, **params: str) -> Answer:
    shown = echo(body, payload)
    return error_answer(InputError(message), method="createTask", params=params, payload=shown, now=NOW)


def test_short_body_is_repeated_as_it_was_sent() -> None:
    answer = json.loads(refusal(body=b'{"a": [1]}', payload={"a": [1]}).body)
    assert answer["requestInfo"]["payload"] == {"a": [1]}


def test_long_body_is_repeated_as_it_begins_and_says_that_it_was_cut() -> None:
    body = b'{"a": "' + b"x" * 10_000_000 + b'"}'
    answer = json.loads(refusal(body=body, payload={"a": "x"}).body)
    assert answer["requestInfo"]["payload"].startswith('{"a": "xxx')
    assert answer["requestInfo"]["payload"].endswith(f"… (cut: the body has {len(body)} bytes)")


def test_long_message_is_cut_before_its_facts() -> None:
    message = json.loads(refusal("x" * 1_000_000).body)["message"]
    assert "… (cut: 1000000 characters)\n\n---" in message
    assert message.endswith("* time:       2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize("character", ["x", "\0", '"', "é", "\U0001f600", "\x7f", "\\"])
def test_no_refusal_is_longer_than_its_limit(character: str) -> None:
    long = character * 1_000_000
    names = ("taskId", "runId", "provisionerId", "workerType", "workerGroup", "workerId", "name")
    for body in (long.encode(), json.dumps([character * (MOST_ECHOED // 8)]).encode()):
        payload = [character * (MOST_ECHOED // 8)]
        for message in (long, character * 24_000, character * 4_000):
            answer = refusal(message, body, payload, **dict.fromkeys(names, long))
            assert len(answer.body) <= MOST_REFUSED
            json.loads(answer.body)


@given(st.text(), st.binary(), st.dictionaries(st.sampled_from(["name", "taskId"]), st.text()))
def test_any_refusal_is_json(message: str, body: bytes, params: dict[str, str]) -> None:
    text = message.encode(errors="replace").decode()
    cleaned = {name: value.encode(errors="replace").decode() for name, value in params.items()}
    answer = json.loads(refusal(text, body, **cleaned).body)
    assert answer["message"].startswith(text)
    assert answer["requestInfo"]["params"] == cleaned


@given(st.text())
def test_a_header_holds_what_any_host_takes(text: str) -> None:
    value = header_value(text)
    assert value.isascii()
    assert value.isprintable()
    assert header_value(value) == value
    assert (value == text) == (text.isascii() and text.isprintable())


def test_a_location_stays_the_same_url() -> None:
    assert header_value("https://x.example/b%2Fc?d=é 世\r\n") == "https://x.example/b%2Fc?d=%C3%A9 %E4%B8%96%0D%0A"
