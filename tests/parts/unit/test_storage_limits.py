"""Checks that refuse a storage request before it is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store import limits
from shared.store.interface import Create, Delete, Merge, Operation, Value
from tests.parts.twin.names import check_dashed, check_table


@pytest.mark.parametrize(
    "key", ["k" * 513, "\U0001f600" * 257, "a/b", "a\\b", "a#b", "a?b", "a\nb", "\x00", "\x7f", "\x9f", "\ud800é"]
)
def test_illegal_keys(key: str) -> None:
    with pytest.raises(ValueError):
        limits.check_key(key)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({f"p{number}": 1 for number in range(253)}, "properties"),
        ({"text": "x" * 32_769}, "characters"),
        ({"text": "\U0001f600" * 16_385}, "characters"),
        ({"text": "\ud800"}, "surrogates"),
        ({"binary": b"x" * 65_537}, "bytes"),
        ({"n": 2**63}, "64 bits"),
        ({"n": -(2**63) - 1}, "64 bits"),
        ({"n": 1.5}, "float"),
        ({"n": None}, "NoneType"),
        ({"Timestamp": "x"}, "name"),
        ({"RowKey": "x"}, "name"),
        ({"odata.etag": "x"}, "name"),
        ({"1st": "x"}, "name"),
        ({"n" * 256: "x"}, "name"),
        ({f"p{number}": b"x" * 65_536 for number in range(16)}, "an entity"),
        ({f"p{number}": "x" * 32_768 for number in range(16)}, "an entity"),
        ({f"p{number}": "é" * 30_000 for number in range(8)}, "an entity"),
    ],
)
def test_illegal_values(values: dict[str, Value], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        limits.check_values("p", "k", values)


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([], "0 operations"),
        ([Create(str(number), {}) for number in range(101)], "101 operations"),
        ([Create("k", {}), Delete("k")], "twice"),
        ([Create("a/b", {})], "forbids"),
        ([Merge("k", {}, etag="")], "empty ETag"),
        ([Merge("k", {"x": 2**64})], "64 bits"),
        ([Create(str(number), {f"p{n}": b"x" * 60_000 for n in range(9)}) for number in range(7)], "about"),
    ],
)
def test_illegal_transactions(operations: list[Operation], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        limits.check_transaction("p", operations)


@pytest.mark.parametrize("text", ["", "x" * 65_537, "é" * 32_769, "a\x00b", "a\nb", "\ud800", "\uffff"])
def test_illegal_texts(text: str) -> None:
    with pytest.raises(ValueError):
        limits.check_text(text)


@pytest.mark.parametrize("count", [0, -1, 33])
def test_illegal_counts(count: int) -> None:
    with pytest.raises(ValueError):
        limits.check_count(count)


@pytest.mark.parametrize("limit", [0, 1001])
def test_illegal_pages(limit: int) -> None:
    with pytest.raises(ValueError):
        limits.check_page(limit)


@pytest.mark.parametrize("name", ["", "a", "a--b", "-ab", "ab-", "Abc", "a_b", "x" * 64])
def test_illegal_queue_names(name: str) -> None:
    with pytest.raises(ValueError, match="queue"):
        check_dashed(name)


@pytest.mark.parametrize("name", ["", "ab", "1ab", "a-b", "x" * 64])
def test_illegal_table_names(name: str) -> None:
    with pytest.raises(ValueError, match="table"):
        check_table(name)


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("'\U0001f600\u2028\x00%"), max_size=12)
_VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | _TEXTS | st.binary(max_size=12)
_ROWS = st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), _VALUES)


@given(_TEXTS, st.lists(st.tuples(_TEXTS, _ROWS), max_size=3))
def test_what_is_estimated_is_never_less_than_what_is_sent(
    partition: str, rows: list[tuple[str, dict[str, Value]]]
) -> None:
    """The estimated size of a row is never less than its exact size."""
    for key, values in rows:
        estimate = limits.check_values(partition, key, values)
        assert estimate >= limits.entity_size(partition, key, values)
        assert limits._OPERATION_OVERHEAD + estimate >= limits.transaction_size(partition, [Create(key, values)])
