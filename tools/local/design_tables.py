"""Writes the tables of docs/design.md that follow from the code: `python -m tools.local.design_tables`.

What a process remembers, how much it does and holds at a time, and what is tried again: each between two comments. A
test fails when they differ from what this writes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from types import ModuleType

from shared.base import bounds, remembered, retrying
from shared.base.memo import FOREVER
from shared.base.retrying import UNLIMITED, Retries
from tools.local.state import ROOT

DOCUMENT = ROOT / "docs" / "design.md"


def remembered_table() -> str:
    """Returns the table of everything that is remembered."""
    rows = ["| Where | Entries | For | What, and why so many and so long |", "|---|---|---|---|"]
    for name, reason in _reasons(remembered):
        kind = getattr(remembered, name)
        entries = f"{kind.capacity:,}" if kind.capacity else "while it is read"
        lasts = "" if kind.fresh == FOREVER else _span(kind.fresh)
        if kind.absent is not None:
            lasts += f", none: {_span(kind.absent)}"
        rows.append(f"| `{kind.name}` | {entries} | {lasts} | {reason} |")
    return "\n".join(rows)


def retries_table() -> str:
    """Returns the table of everything that is tried again."""
    rows = ["| Tried again | First pause | Grows | Longest | Tries |", "|---|---|---|---|---|"]
    for name, retries in vars(retrying).items():
        if isinstance(retries, Retries):
            low, high = retries.jitter
            jitter = "" if low == high else f", by chance {low:g} to {high:g} of it"
            tries = "" if retries.tries == UNLIMITED else str(retries.tries)
            first, longest = _span(timedelta(seconds=retries.first)), _span(timedelta(seconds=retries.longest))
            rows.append(f"| `{name}` | {first} | × {retries.factor:g}{jitter} | {longest} | {tries} |")
    return "\n".join(rows)


def bounds_table() -> str:
    """Returns the table of how much is done, read and held at a time."""
    rows = ["| Bound | Value | Of what, and why |", "|---|---|---|"]
    rows += [f"| `{name}` | {_number(getattr(bounds, name))} | {reason} |" for name, reason in _reasons(bounds)]
    return "\n".join(rows)


def _reasons(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yields the constants of a module, each with its docstring."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, reason in pairwise(body):
        match statement, reason:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())


TABLES = {"remembered": remembered_table, "bounds": bounds_table, "retries": retries_table}


def written(text: str) -> str:
    """Returns the document with its tables as they have to be."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: written by `python -m tools.local.design_tables` -->\n", f"\n<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        tail = rest.partition(end)[2]
        text = f"{head}{begin}\n{table()}\n{end}{tail}"
    return text


def main() -> None:
    """Writes the document."""
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


def _number(value: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value % size == 0 and value // size < 1024:
            return f"{value // size} {unit}"
    return f"{value:,}"


def _span(span: timedelta) -> str:
    seconds = span.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


if __name__ == "__main__":
    main()
