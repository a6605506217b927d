"""The order of a claim loses nothing in any interleaving of small models, and each of its rules is needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from tests.orders import claims
from tests.orders.claims import Without
from tests.orders.explorer import Explorer, Process


def _models(without: Without) -> Mapping[str, tuple[Mapping[str, Process], int]]:
    """Processes by name, and how many of their requests fail."""
    first, second = claims.Claim("first", "w", without), claims.Claim("second", "v", without, by=3)
    same, again = claims.Claim("same/first", "w", without), claims.Claim("same/second", "v", without)
    remembers = claims.Claim("first", "w", without, by=2, remembers=True)
    back = claims.Claim("first", "w", without, hangs_up=True)
    on = {"on": partial(claims.on_claim, "on", without)}
    return {
        "a claim": ({"first": first, **on}, 2),
        "a claim that nobody is given": ({"first": back, **on}, 1),
        "two claims": ({"first": first, "second": second, **on}, 0),
        "two claims of one moment": ({"same/first": same, "same/second": again}, 1),
        "two claims of one moment and the end of a worker": (
            {"same/first": same, "same/second": again, "removed": partial(claims.removed, "v", without)},
            0,
        ),
        "a claim and a cancellation": ({"first": first, "cancel": claims.cancel, **on}, 1),
        "a claim and another commit": ({"first": first, "touch": claims.touch, **on}, 1),
        "a claim of a remembered version": ({"first": remembers, "touch": claims.touch, **on}, 1),
        "two claims, one of a remembered version": ({"first": remembers, "second": second, **on}, 0),
        "a claim and its retry": ({"first": first, "retry": partial(claims.retry, "first"), **on}, 1),
        "a claim and the end of its worker": (
            {"first": first, "removed": partial(claims.removed, "w", without), **on},
            0,
        ),
        "a claim and a listing": ({"first": first, "listing": claims.listing}, 0),
        "two handlers": ({"first": first, **on, "on2": partial(claims.on_claim, "on2", without)}, 1),
    }


SHOWN_IN: Mapping[Without, str] = {
    Without.MESSAGE_FIRST: "a claim",
    Without.ROWS_FIRST: "a claim",
    Without.LOOK_AT_PENDING: "a claim",
    Without.AGE: "a claim",
    Without.KEPT_MESSAGE: "a claim",
    Without.PENDING_BACK: "a claim",
    Without.NAMED_ROW: "a claim",
    Without.WORKER: "two claims of one moment and the end of a worker",
    Without.FENCE: "two claims of one moment and the end of a worker",
    Without.MESSAGE_LAST: "a claim that nobody is given",
    Without.FENCED_DOUBT: "a claim",
    Without.PENDING_REMOVED: "a claim and a listing",
    Without.CREATED: "two claims of one moment",
    Without.OWN_ROW: "two claims of one moment",
}
"""The model in which something is lost without the rule."""


def _look(model: str, without: Without, more_faults: int = 0, *, only_first: bool = False) -> dict[str, list[str]]:
    processes, faults = _models(without)[model]
    end = 0 if "listing" in processes else 9
    faulty = tuple(name for name in processes if name in ("first", "same/first", "on", "retry"))
    at_the_end = claims.at_the_end if "on" in processes else lambda _: ""
    explorer = Explorer(processes, end=end, faults=faults + more_faults, faulty=faulty)
    return explorer.holes(claims.start(), claims.always, at_the_end, most=4_000_000, only_first=only_first)


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
