"""The table of budgets in docs/design.md, section 6, read: what each call may cost, in requests and round trips."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from local.state import ROOT

_TERM = re.compile(r"(\d*)(n?)")


@dataclass(frozen=True)
class Row:
    """A row of the table. Figures are as written there: "6", "5 + n", "≤ 20", "+3n + 1"."""

    operations: str
    depth: str


@dataclass(frozen=True)
class Figures:
    """What a call costs."""

    operations: int
    is_exact: bool
    """Whether it is neither more nor less than that."""
    depth: int | None
    """At the most; None where it is chance which of many chains of requests is the longest."""


@cache
def table() -> Mapping[str, Row]:
    """All rows by their name; the name of a variant begins with its call: "claimWork … n tasks"."""
    text = (ROOT / "docs" / "design.md").read_text()
    section = text[text.index('<a id="design-6"></a>') : text.index('<a id="design-7"></a>')]
    return dict(_rows(section))


def _rows(section: str) -> Iterator[tuple[str, Row]]:
    call = ""
    for line in re.findall(r"^\|( .* )\|$", section, re.MULTILINE)[1:]:
        name, _, operations, depth = (cell.strip() for cell in line.split("|"))
        if not name.startswith("…"):
            call = re.split(r"[,;]| of ", name)[0]
        yield (f"{call} {name}" if name.startswith("…") else name), Row(operations, depth)


def figures(*names: str, n: int = 0) -> Figures:
    """Of a row and of those that add to it, where `n` is what they call n. Raises KeyError for unknown names."""
    rows = [table()[name] for name in names]
    assert [row.operations.startswith("+") for row in rows] == [False, *(True for _ in rows[1:])], names
    return Figures(
        operations=sum(evaluated(row.operations, n) for row in rows),
        is_exact=not any(row.operations.startswith("≤") for row in rows),
        depth=sum(evaluated(row.depth, n) for row in rows) if all(row.depth for row in rows) else None,
    )


def evaluated(formula: str, n: int) -> int:
    """The value of a sum of numbers and multiples of n. Raises ValueError for anything else."""
    total = 0
    for term in formula.lstrip("≤+ ").split("+"):
        matched = _TERM.fullmatch(term.strip())
        if matched is None or not matched[0]:
            raise ValueError(f"no formula of the table: {formula}")
        total += int(matched[1] or 1) * (n if matched[2] else 1)
    return total
