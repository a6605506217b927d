"""Lines under headings, and what differs between two of such lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

Lines = Mapping[str, list[str]]


def different(before: Lines, after: Lines) -> dict[str, list[str]]:
    """By heading: the lines that are gone and those that have come."""
    found: dict[str, list[str]] = {}
    for key in (*before, *(key for key in after if key not in before)):
        if key not in after:
            found[key] = ["none"]
        elif key not in before:
            found[key] = [f"+ {line}" for line in after[key]] or ["+"]
        elif after[key] != before[key]:
            found[key] = list(_changed(before[key], after[key]))
    return found


def _changed(before: list[str], after: list[str]) -> Iterator[str]:
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in before[start:end])
            yield from (f"+ {line}" for line in after[new_start:new_end])


def listed(lines: Lines) -> Iterator[str]:
    """Headings with the same lines together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for key, under in lines.items():
        alike.setdefault(tuple(under), []).append(key)
    for same, keys in alike.items():
        yield from (f"{key}\n" for key in keys)
        yield from (f"    {line}\n" for line in same)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value within a document, with its path."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    elif path:
        yield path, value
