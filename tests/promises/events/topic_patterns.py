"""Implements what topic exchanges make of patterns straight from their definition, for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def matches(pattern: str, key: str) -> bool:
    """Whether the pattern matches the key: `*` is one word, `#` zero or more."""
    return _matches(pattern.split("."), key.split("."))


def _matches(pattern: Sequence[str], words: Sequence[str]) -> bool:
    reached = {0}
    for token in pattern:
        if token == "#":
            reached = {end for start in reached for end in range(start, len(words) + 1)}
        else:
            reached = {start + 1 for start in reached if start < len(words) and token in ("*", words[start])}
    return len(words) in reached


def selects(pattern: str, properties: Mapping[str, str], routes: Iterable[str]) -> bool:
    """Whether a queue that is bound with the pattern gets a message with this primary key and these routes."""
    keys = [properties["routingKey"], *(f"route.{route}" for route in routes)]
    return any(matches(pattern, key) for key in keys)
