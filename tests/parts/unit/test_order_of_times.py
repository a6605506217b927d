"""No order is taken from two times that were written down, since the clocks of processes differ (design 2).

A time in a row or a message is shown, or compared with the present: that asks how old something is. Which of two things
came first is told by what storage orders: a number that was raised by ETag, or a guard row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tools.local.state import ROOT

OF_CLIENTS = {"created", "deadline", "expires", "task_expires", "expiry", "start", "until", "enough"}
OF_CLIENTS |= {"quarantine_until", "upload_until"}
"""Times that clients set, or that are computed from theirs."""
NO_TIMES = {"now", "_now", "read", "waiting", "reconciler", "later", "first", "last", "hour"}
"""Names of fields that are times in some records, and methods, keys or counts elsewhere."""
DATES = {"datetime", "datetime | None"}
PRESENT = {"now", "came", "looked"}
"""Names of variables that hold the present time."""
ALLOWED = {
    "since.at - known_since.at": "both of one process",
    "pool.visible - visible": "two sets of messages",
    "run.started - run.scheduled": "a metric",
    "run.resolved - run.taken_until": "a metric",
    "max(row.since, row.written)": "the age of what was touched last, in minutes",
    "max(resolved, row.written)": "likewise",
    "began - used": "the age of a pool's last use, in days",
    "resolved - scheduled": "how far apart, in half hours: an event too many or none, and clocks differ by less",
    "max(taken_until, run.taken_until or taken_until)": "a claim's end only gets later",
    "max(taken_until, at_least or taken_until)": "likewise, of credentials",
    "message.inserted <= started": "an operator's call takes the messages from before it",
    "began - told": "advice: how a worker is told that there is work",
    "told < began < came.timestamp()": "likewise",
    "new.at <= deleted": "contract: an entry that was deleted comes back by what is completed later alone",
    "(new.rank, new.at) >= (stored.rank, stored.at)": "contract: of index entries of equal rank the later request wins",
}


def fields(trees: list[ast.Module]) -> set[str]:
    """Returns the names of fields of records that are times."""
    return {
        node.target.id
        for tree in trees
        for record in ast.walk(tree)
        if isinstance(record, ast.ClassDef)
        for node in record.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if "datetime" in ast.unparse(node.annotation)
    } - NO_TIMES


def compared(tree: ast.AST, times: set[str]) -> Iterator[str]:
    """Yields where two times that were written down are compared: <, -, max and the like."""
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            continue
        known = (times | set(_local_times(scope, times))) - OF_CLIENTS - PRESENT
        for node in ast.walk(scope):
            match node:
                case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE(), *_], comparators=others):
                    sides = [left, *others]
                case ast.Call(func=ast.Name(id="max" | "min"), args=sides):
                    pass
                case ast.BinOp(left=left, op=ast.Sub(), right=right):
                    sides = [left, right]
                case _:
                    continue
            if sum(_has_time(side, known) for side in sides) > 1:
                yield ast.unparse(node)


def _local_times(scope: ast.AST, times: set[str]) -> Iterator[str]:
    """Yields parameters of a function that are times, and the variables that it sets to a time of a record."""
    for node in ast.walk(scope):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as kind) if ast.unparse(kind) in DATES:
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(ast.Name(id=name), value):
                if isinstance(value, ast.Attribute) and value.attr in times:
                    yield name


def _has_time(side: ast.expr, times: set[str]) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in times) or (isinstance(node, ast.Name) and node.id in times)
        for node in ast.walk(side)
    )


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("row.since < job.asked", True),
        ("max(self.since, job.asked)", True),
        ("job.asked - row.since > SKEW", True),
        ("job.asked > row.since", True),
        ("now - row.since > ORPHAN_AFTER", False),
        ("def f(asked: datetime, row): return row.since > asked", True),
        ("def f(job, row):\n    then = job.asked\n    return row.since > then", True),
        ("def f(now: datetime, row): return now > row.since", False),
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
