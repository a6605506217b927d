"""The rules of the index: paths, which entry wins, what a completed task asks for, how long namespaces are listed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.dates import format_date
from shared.base.types import LONGEST_PATH
from shared.index.rules import IndexEntry, entries_of, is_path, namespaces_above, replaces, split
from shared.queue.tasks.definition import Definition

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TASK = "fN1SbArXTPSVFNUvaOlinQ"


def entry(rank: int = 0, at: datetime = NOW, expires: datetime = NOW + timedelta(days=1)) -> IndexEntry:
    return IndexEntry(path="a.b", task_id=TASK, rank=rank, data={}, expires=expires, at=at)


def definition(routes: list[str], **extra: Any) -> Definition:
    body = {"routes": routes, "extra": extra, "expires": format_date(NOW + timedelta(days=30))}
    return Definition(task_id=TASK, body=body)


@pytest.mark.parametrize(
    ("path", "parts"),
    [("foo.bar.bing", ("foo.bar", "bing")), ("foo.bar", ("foo", "bar")), ("foo", ("", "foo")), ("", ("", ""))],
)
def test_a_path_is_split_at_its_last_dot(path: str, parts: tuple[str, str]) -> None:
    assert split(path) == parts


@pytest.mark.parametrize("path", ["a", "a.b", "A-9_!~*'()%.x", "x" * LONGEST_PATH])
def test_texts_that_are_paths(path: str) -> None:
    assert is_path(path)


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "a/b", "a b", "a\n", "ä", "x" * (LONGEST_PATH + 1)])
def test_texts_that_are_no_paths(path: str) -> None:
    assert not is_path(path)


def test_the_higher_rank_wins() -> None:
    assert replaces(entry(rank=2), entry(rank=1, at=NOW + timedelta(hours=1)), None, NOW)
    assert not replaces(entry(rank=1, at=NOW + timedelta(hours=1)), entry(rank=2), None, NOW)


def test_of_equal_ranks_the_later_wins_and_a_repeat_of_an_earlier_one_does_not() -> None:
    first, second = entry(at=NOW - timedelta(minutes=5)), entry(at=NOW)
    assert replaces(second, first, None, NOW)
    assert not replaces(first, second, None, NOW)
    assert replaces(second, second, None, NOW)


def test_what_was_deleted_comes_back_only_by_what_came_after() -> None:
    before, after = entry(at=NOW - timedelta(minutes=5), rank=5), entry(at=NOW + timedelta(minutes=5))
    for stored in (None, before):
        assert not replaces(before, stored, NOW, NOW)
    assert replaces(after, None, NOW, NOW)


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.integers(0, 5)).map(lambda pair: entry(pair[0], NOW + timedelta(pair[1]))),
        min_size=1,
        max_size=6,
    )
)
def test_the_winner_does_not_depend_on_the_order_of_arrival(entries: list[IndexEntry]) -> None:
    def winner(order: list[IndexEntry]) -> tuple[int, datetime]:
        stored: IndexEntry | None = None
        for one in order:
            if replaces(one, stored, None, NOW - timedelta(days=1)):
                stored = one
        assert stored is not None
        return stored.rank, stored.at

    assert winner(entries) == winner(entries[::-1]) == winner(sorted(entries, key=lambda one: (one.at, one.rank)))


def test_namespaces_are_listed_a_day_longer_at_each_level() -> None:
    found = namespaces_above("a.b.c", datetime(2026, 12, 24, 0, tzinfo=UTC))
    assert found == [("a.b", datetime(2026, 12, 25, tzinfo=UTC)), ("a", datetime(2026, 12, 26, tzinfo=UTC))]
    assert namespaces_above("top", NOW) == []


def test_what_a_completed_task_asks_for() -> None:
    routes = ["index", "index.", "index.demo.a", "index.demo.b/c", "other.x", "index.demo.a", "index.x y", "index.top"]
    found = entries_of(definition(routes, index={"rank": 7, "data": {"k": 1}}), NOW)
    assert [(one.path, one.rank, one.data) for one in found] == [("demo.a", 7, {"k": 1}), ("top", 7, {"k": 1})]
    assert {one.expires for one in found} == {NOW + timedelta(days=30)}
    assert {one.at for one in found} == {NOW}


@pytest.mark.parametrize(
    "wanted",
    [
        {"rank": "7"},
        {"rank": None},
        {"rank": True},
        {"rank": 1.5},
        {"rank": 2**31},
        {"rank": -(2**31) - 1},
        {"rank": float("inf")},
        {"data": None},
        {"data": "x"},
        {"data": [1]},
        {"expires": "soon"},
        {"expires": None},
        {"expires": True},
        {"expires": 1e300},
    ],
)
def test_a_value_that_cannot_be_used_leaves_the_task_out(wanted: dict[str, Any]) -> None:
    assert entries_of(definition(["index.a"], index=wanted), NOW) == []
