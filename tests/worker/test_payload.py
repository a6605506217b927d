"""What the reference worker makes of payloads."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.payload import MalformedPayload, Payload, parse


def test_the_command_alone_is_enough() -> None:
    assert parse({"command": ["true"]}) == Payload(command=("true",))


def test_every_property_is_taken() -> None:
    payload = parse(
        {
            "command": ["sh", "-c", "make"],
            "env": {"CC": "gcc", "_X1": ""},
            "maxRunTime": 60,
            "artifacts": {"public/build.tar": "out/build.tar"},
        }
    )
    assert payload == Payload(
        command=("sh", "-c", "make"),
        env={"CC": "gcc", "_X1": ""},
        max_run_time=60.0,
        artifacts={"public/build.tar": PurePosixPath("out/build.tar")},
    )


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ([], "payload"),
        (None, "payload"),
        ({}, "command"),
        ({"command": []}, "command"),
        ({"command": "ls"}, "command"),
        ({"command": [""]}, "command"),
        ({"command": ["ls", 1]}, "command"),
        ({"command": ["a\0b"]}, "command"),
        ({"command": ["ls"], "env": ["A=b"]}, "env"),
        ({"command": ["ls"], "env": {"A": 1}}, "env.A"),
        ({"command": ["ls"], "env": {"A=B": "1"}}, "'A=B'"),
        ({"command": ["ls"], "env": {"A": "\0"}}, "env.A"),
        ({"command": ["ls"], "maxRunTime": 0}, "maxRunTime"),
        ({"command": ["ls"], "maxRunTime": True}, "maxRunTime"),
        ({"command": ["ls"], "maxRunTime": "60"}, "maxRunTime"),
        ({"command": ["ls"], "artifacts": []}, "artifacts"),
        ({"command": ["ls"], "artifacts": {"a": "/etc/passwd"}}, "'a'"),
        ({"command": ["ls"], "artifacts": {"a": "../a"}}, "'a'"),
        ({"command": ["ls"], "artifacts": {"a": ""}}, "'a'"),
        ({"command": ["ls"], "artifacts": {"a": 1}}, "'a'"),
        ({"command": ["ls"], "artifacts": {"é": "e"}}, "artifact"),
        ({"command": ["ls"], "image": "ubuntu"}, "image"),
    ],
)
def test_what_is_wrong_is_named(payload: Any, named: str) -> None:
    with pytest.raises(MalformedPayload) as refused:
        parse(payload)
    assert named in str(refused.value)


def test_everything_that_is_wrong_is_listed() -> None:
    with pytest.raises(MalformedPayload) as refused:
        parse({"command": [], "env": 1, "maxRunTime": -1, "artifacts": 2, "more": 3})
    assert len(str(refused.value).splitlines()) == 5


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_ALMOST = st.fixed_dictionaries({}, optional=dict.fromkeys(("command", "env", "maxRunTime", "artifacts"), _JSON))


@given(_JSON | _ALMOST)
def test_any_json_is_run_or_refused_with_words(value: Any) -> None:
    try:
        payload = parse(value)
    except MalformedPayload as refused:
        assert str(refused)
    else:
        assert payload.command
        assert all(isinstance(text, str) for text in (*payload.command, *payload.env.values()))
        assert all(".." not in path.parts and not path.is_absolute() for path in payload.artifacts.values())
