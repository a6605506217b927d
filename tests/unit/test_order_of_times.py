"""No order is taken from two times that were written down, since the clocks of processes differ (design 2).

A time in a row or a message is shown, or compared with the present: that asks how old something is. Which of two things
came first is told by what storage orders: a number that was raised by ETag, or a guard row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tools.local.state import ROOT

OF_CLIENTS = {"created", "deadline", "expires", "until", "quarantine_until", "upload_until"}
"""Times that clients set, or that are computed from theirs."""
NO_TIMES = {"now", "_now", "read", "waiting", "reconciler", "later", "first", "last", "hour"}
"""Fields of these names are methods, keys or counts elsewhere."""
ALLOWED = {
    "since.at - known_since.at": "both of one process",
    "run.started - run.scheduled": "a metric",
    "run.resolved - run.taken_until": "a metric",
    "max(row.scheduled, row.written)": "the age of what was touched last, in minutes",
    "(new.rank, new.at) >= (stored.rank, stored.at)": "contract: of index entries of equal rank the later request wins",
}


def fields(trees: list[ast.Module]) -> set[str]:
    """The names of fields of records that are times."""
    return {
        node.target.id
        for tree in trees
        for record in ast.walk(tree)
        if isinstance(record, ast.ClassDef)
        for node in record.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if "datetime" in ast.unparse(node.annotation)
    } - {*OF_CLIENTS, *NO_TIMES}


def compared(tree: ast.AST, times: set[str]) -> Iterator[str]:
    """Where two times of records are compared: <, -, max and the like."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE(), *_], comparators=others):
                sides = [left, *others]
            case ast.Call(func=ast.Name(id="max" | "min"), args=sides):
                pass
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                sides = [left, right]
            case _:
                continue
        if sum(_has_time(side, times) for side in sides) > 1:
            yield ast.unparse(node)


def _has_time(side: ast.expr, times: set[str]) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in times for node in ast.walk(side))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("row.since < job.asked", True),
        ("max(self.since, job.asked)", True),
        ("job.asked - row.since > SKEW", True),
        ("job.asked > row.since", True),
        ("now - row.since > ORPHAN_AFTER", False),
        ("row.number < job.number", False),
        ("row.since == job.asked", False),
    ],
)
def test_a_comparison_of_two_times_is_found(text: str, is_found: bool) -> None:
    assert bool(list(compared(ast.parse(text), {"since", "asked"}))) == is_found


def test_no_two_times_decide_which_of_two_things_came_first() -> None:
    trees = [ast.parse(path.read_text()) for path in sorted((ROOT / "shared").rglob("*.py"))]
    times = fields(trees)
    assert {"written", "started", "scheduled", "resolved"} <= times
    assert {text for tree in trees for text in compared(tree, times)} == set(ALLOWED)
