"""JSON texts: what is refused before it is read, what reading gives, and that what is written is JSON."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.base.jsontext import (
    MAX_DIGITS,
    MAX_NESTING,
    MAX_VALUES,
    BeyondLimits,
    in_javascript,
    measure,
    memory_of,
    read,
    read_back,
    write,
)
from tests.selection import examples

NUMBERS = json.loads(Path(__file__).with_name("numbers_of_javascript.json").read_text())
"""Numbers as a caller may write them, each with what Node.js 20 makes of it by JSON.stringify(JSON.parse(…))."""
TEXTS = st.text() | st.text(alphabet='\\"[]{},:eE0123456789', max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**MAX_DIGITS) + 1, max_value=10**MAX_DIGITS - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def nesting_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(map(nesting_of, inner), default=0) + isinstance(value, dict | list)


def size_of(value: Any) -> int:
    """Returns what a value adds to the limit: each list or object counts once more, with what is in it."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else max(len(inner), 1) + sum(map(size_of, inner))


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_is_read_is_what_was_written(value: Any, ascii_only: bool, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(errors="replace")
    found = read(text)
    assert found == in_javascript(json.loads(text))
    assert read(write(found)) == read_back(write(found)) == found
    assert json.loads(write(found)) == found


@given(VALUES, st.integers(min_value=0, max_value=30))
def test_nesting_is_counted_outside_of_strings(value: Any, around: int) -> None:
    depth = around + nesting_of(value)
    text = json.dumps(value).encode(errors="replace")
    more = MAX_NESTING - depth
    read(b"[" * (around + more) + text + b"]" * (around + more))
    with pytest.raises(BeyondLimits, match=f"{MAX_NESTING} levels"):
        read(b"[" * (around + more + 1) + text + b"]" * (around + more + 1))


@settings(max_examples=examples(30), deadline=None)
@given(VALUES)
def test_values_are_counted_outside_of_strings(value: Any) -> None:
    text = json.dumps(value).encode(errors="replace")
    most = (MAX_VALUES - 1) // (1 + size_of(value))
    measure(b"[" + b",".join([text] * most) + b"]")
    with pytest.raises(BeyondLimits, match=f"{MAX_VALUES} values"):
        measure(b"[" + b",".join([text] * (most + 1)) + b"]")


@given(st.text(alphabet='[]{},"\\ 1eE+-.tfx', max_size=60))
def test_any_text_is_read_as_json_does_or_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r".*"):
            read(text.encode())
    else:
        assert read(text.encode()) == in_javascript(expected)


def exactly(text: bytes | str) -> str:
    """Returns a JSON text in which 1 and 1.0 differ, but 1e-6 and 0.000001 do not."""
    return json.dumps(json.loads(text), sort_keys=True)


@pytest.mark.parametrize("around", ["{}", '{{"e.5": ["1.0", {{"a": {}, "b": true}}, 1]}}'])
def test_number_is_written_as_javascript_writes_it(around: str) -> None:
    for number, expected in NUMBERS:
        written = write(read(around.format(number).encode()))
        assert exactly(written) == exactly(around.format(expected)), number
        assert write(read(written)) == written, number


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, {"a": [math.nan]}])
def test_written_text_is_json_whatever_the_value(value: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    json.loads(write(value), parse_constant=refuse)


def test_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(Exception, match="object has no JSON form"):
        write([object()])


def task(**payload: Any) -> dict[str, Any]:
    return {
        "provisionerId": "prov", "workerType": "wt", "taskQueueId": "prov/wt", "schedulerId": "-",
        "taskGroupId": "x" * 22, "dependencies": [], "requires": "all-completed", "routes": ["a.b.c"],
        "priority": "lowest", "retries": 5, "created": "2026-01-01T00:00:00.000Z",
        "deadline": "2026-01-01T00:00:00.000Z",
        "scopes": ["a:b", "c:d"],
        "metadata": {"name": "n", "description": "d", "owner": "o", "source": "https://x"}, "tags": {"a": "b"},
        "payload": payload, "extra": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        task(),
        task(command=["/bin/bash", "-c", "x" * 2000], env={f"NAME_{number}": "v" * 20 for number in range(60)}),
        task(text="x" * 1_000_000),
        task(text="\U0001f600" + "x" * 100_000),
        task(text="é" * 100_000),
        task(numbers=list(range(1000, 50_000))),
        task(floats=[number / 7 for number in range(20_000)]),
        task(objects=[{"id": number, "name": f"name {number}"} for number in range(20_000)]),
        task(lists=[[]] * 10, more=[[number % 200] for number in range(20_000)]),
        task(names={f"name{number}": True for number in range(20_000)}),
    ],
    ids=["small", "usual", "text", "emoji", "accents", "numbers", "floats", "objects", "lists", "names"],
)
def test_memory_is_about_what_the_values_take(value: Mapping[str, Any]) -> None:
    text = write(value)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = json.loads(text)  # as many objects as the compiled parser makes, which tracemalloc sees as well
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept == value
    assert 0.8 * taken <= memory_of(text) <= 3 * taken
