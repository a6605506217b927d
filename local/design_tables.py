"""Writes the tables of docs/design.md that follow from the code: `python -m local.design_tables`.

What a process remembers (2.8) and what is tried again (2.9), each between two comments. A test fails when they differ
from what this writes.
"""

from __future__ import annotations

from datetime import timedelta

from local.state import ROOT
from shared.base import remembered, retrying
from shared.base.memo import FOREVER
from shared.base.retrying import UNLIMITED, Retries

DOCUMENT = ROOT / "docs" / "design.md"


def remembered_table() -> str:
    """Everything that is remembered."""
    rows = ["| Remembered | Where | Entries | For | Because |", "|---|---|---|---|---|"]
    for kind in remembered.ALL:
        entries = f"{kind.capacity:,}" if kind.capacity else "while it is read"
        lasts = "" if kind.fresh == FOREVER else _span(kind.fresh)
        if kind.absent is not None:
            lasts += f", none: {_span(kind.absent)}"
        rows.append(f"| {kind.what} | `{kind.name}` | {entries} | {lasts} | {kind.because} |")
    return "\n".join(rows)


def retries_table() -> str:
    """Everything that is tried again."""
    rows = ["| Tried again | First pause | Grows | Longest | Tries |", "|---|---|---|---|---|"]
    for name, retries in vars(retrying).items():
        if isinstance(retries, Retries):
            low, high = retries.jitter
            jitter = "" if low == high else f", by chance {low:g} to {high:g} of it"
            tries = "" if retries.tries == UNLIMITED else str(retries.tries)
            first, longest = _span(timedelta(seconds=retries.first)), _span(timedelta(seconds=retries.longest))
            rows.append(f"| `{name}` | {first} | × {retries.factor:g}{jitter} | {longest} | {tries} |")
    return "\n".join(rows)


TABLES = {"remembered": remembered_table, "retries": retries_table}


def written(text: str) -> str:
    """The document with its tables as they have to be."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: written by `python -m local.design_tables` -->\n", f"\n<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        tail = rest.partition(end)[2]
        text = f"{head}{begin}\n{table()}\n{end}{tail}"
    return text


def main() -> None:
    """Write the document."""
    DOCUMENT.write_text(written(DOCUMENT.read_text()))


def _span(span: timedelta) -> str:
    seconds = span.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


if __name__ == "__main__":
    main()
