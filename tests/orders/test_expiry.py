"""The orders of joining a group and of sweeping it lose nothing in small models, and each of their rules is needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from tests.orders import expiry
from tests.orders.expiry import Create, Without
from tests.orders.explorer import Database, Explorer, Process


def _models(without: Without) -> Mapping[str, tuple[Database, Mapping[str, Process], int]]:
    """What is there, processes by name, and how many of their requests fail."""
    on: Mapping[str, Process] = {"on": partial(expiry.on_expiry, without)}
    new, again = Create("a", 0, without), Create("a", 1, without)
    joins, older = Create("b", 1, without), Create("b", 1, without, is_older=True)
    return {
        "a task": ({}, {"create": new, **on}, 2),
        "two tasks of a new group": ({}, {"create": new, "create b": Create("b", 0, without), **on}, 0),
        "a task that joins a group which ends": (expiry.start("a"), {"create": joins, **on}, 1),
        "an id that is used again": (expiry.start("a"), {"create": again, **on}, 1),
        "three tasks, page by page": (expiry.start("a", "b", "c"), on, 2),
        "a task that fails": (expiry.start("a", "b", fails="a"), on, 1),
        "two jobs": (expiry.start("a", "b"), {**on, "on too": partial(expiry.on_expiry, without)}, 0),
        "a task of older code, and its job": (
            expiry.start("a"),
            {"create": older, **on, "on older": partial(expiry.on_expiry, without, is_older=True)},
            0,
        ),
    }


SHOWN_IN: Mapping[Without, str] = {
    Without.ROW_FIRST: "a task",
    Without.MEMBER_LAST: "a task",
    Without.GROUP_LAST: "a task that joins a group which ends",
    Without.AGE: "a task that joins a group which ends",
    Without.REWRITTEN: "an id that is used again",
    Without.MEMBER_ETAG: "an id that is used again",
    Without.HEADER_ETAG: "a task that joins a group which ends",
    Without.OWN_ROW_FIRST: "a task that fails",
    Without.MOVED_ON: "a task",
    Without.ROW_LAST: "a task",
}
"""The model in which something is lost without the rule."""


def _look(model: str, without: Without, more_faults: int = 0, *, only_first: bool = False) -> dict[str, list[str]]:
    start, processes, faults = _models(without)[model]
    explorer = Explorer(processes, end=expiry.END, faults=faults + more_faults, faulty=tuple(processes))
    return explorer.holes(start, expiry.always, expiry.at_the_end, most=4_000_000, only_first=only_first)


@pytest.mark.parametrize("model", _models(Without.NOTHING))
def test_nothing_is_lost(model: str) -> None:
    assert _look(model, Without.NOTHING) == {}


@pytest.mark.large
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("model", _models(Without.NOTHING))
def test_nothing_is_lost_when_one_more_request_fails(model: str) -> None:
    assert _look(model, Without.NOTHING, more_faults=1) == {}


@pytest.mark.parametrize("without", [rule for rule in Without if rule is not Without.NOTHING])
def test_each_rule_is_needed(without: Without) -> None:
    assert _look(SHOWN_IN[without], without, only_first=True)
