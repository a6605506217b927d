"""Reads the tables of budgets in docs/design.md: what each call may cost, in requests and round trips. Those of section
6 and its like have a row for each call and variant, that of section 12 one for calls that read by a list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tools.local.state import ROOT

_TERM = re.compile(r"(\d*)(n?)")


@dataclass(frozen=True)
class Row:
    """A row of the table. Figures are as written there: "6", "5 + n", "≤ 20", "+3n + 1"."""

    operations: str
    depth: str


@dataclass(frozen=True)
class Figures:
    """The requests and round trips of a call."""

    operations: int
    is_exact: bool
    """Whether the call makes exactly this number of requests; else it is an upper bound."""
    depth: int | None
    """The most round trips; None if chance decides which of many chains of requests is the longest."""


ONE_READ = "status; task; getArtifact; findTask; listPoisonMessages"


@cache
def table() -> Mapping[str, Row]:
    """Returns all rows by their names; that of a variant begins with its call: "claimWork … n tasks"."""
    tables = [_cells(each) for each in _tables("| Call | Order | Operations | Depth |")]
    return dict(row for each in tables for row in _rows(each))


@dataclass(frozen=True)
class ByList:
    """The cost of a call that reads something for each item of a list (design 12)."""

    formula: str
    most: int
    """The longest list; 0 for calls whose cost does not depend on one."""
    turn: str

    @property
    def operations(self) -> int:
        """Returns the most requests."""
        return evaluated(self.formula, self.most)


@cache
def by_lists() -> Mapping[str, ByList]:
    """Returns the calls that read by a list, by their names."""
    found: dict[str, ByList] = {}
    (rows,) = (_cells(each) for each in _tables("| Call | Reads for each of | Most reads | Its turn |"))
    for calls, _, cost, turn in rows:
        formula, _, most = cost.partition(", n ≤ ")
        row = ByList(formula, int(most.replace(",", "") or 0), turn)
        found |= dict.fromkeys(calls.split(", "), row)
    return found


def _tables(head: str) -> list[str]:
    """Returns the rows of all tables with these columns."""
    text = (ROOT / "docs" / "design.md").read_text()
    return [after.split("\n\n")[0] for after in text.split(f"{head}\n|---|---|---|---|\n")[1:]]


def _cells(rows: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()]


def _rows(cells: list[list[str]]) -> Iterator[tuple[str, Row]]:
    call = ""
    for name, _, operations, depth in cells:
        if not name.startswith("…"):
            call = re.split(r"[,;]| of ", name)[0]
        yield (f"{call} {name}" if name.startswith("…") else name), Row(operations, depth)


def figures(*names: str, n: int = 0) -> Figures:
    """Returns the figures of a row and of those that add to it, or of a call that reads by a list; `n` is what their
    formulas call n. Raises KeyError for unknown names."""
    lists = {name: Row(each.formula, "") for name, each in by_lists().items()}
    rows = [{**lists, **table()}[name] for name in names]
    assert [row.operations.startswith("+") for row in rows] == [False, *(True for _ in rows[1:])], names
    return Figures(
        operations=sum(evaluated(row.operations, n) for row in rows),
        is_exact=not any(row.operations.startswith("≤") for row in rows),
        depth=sum(evaluated(row.depth, n) for row in rows) if all(row.depth for row in rows) else None,
    )


def evaluated(formula: str, n: int) -> int:
    """Returns the value of a sum of numbers and multiples of n. Raises ValueError for anything else."""
    total = 0
    for term in formula.lstrip("≤+ ").split("+"):
        matched = _TERM.fullmatch(term.strip())
        if matched is None or not matched[0]:
            raise ValueError(f"no formula of the table: {formula}")
        total += int(matched[1] or 1) * (n if matched[2] else 1)
    return total
