"""Routing-key patterns as topic exchanges read them, for consumers that judge a message themselves (contract 10)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.queue.events.rules import ROUTES


def matches(pattern: str, key: str) -> bool:
    """Returns whether the pattern matches the routing key: `*` is exactly one word, `#` zero or more."""
    words = key.split(".")
    ends = {0}
    for word in pattern.split("."):
        if word == "#":
            ends = set(range(min(ends), len(words) + 1)) if ends else set()
        else:
            ends = {end + 1 for end in ends if end < len(words) and word in ("*", words[end])}
    return len(words) in ends


def selects(pattern: str, properties: Mapping[str, str]) -> bool:
    """Returns whether a message with these application properties has a key, primary or custom, that the pattern
    matches."""
    keys = [properties.get("routingKey", ""), *(f"route.{route}" for route in routes_of(properties))]
    return any(matches(pattern, key) for key in keys)


def routes_of(properties: Mapping[str, str]) -> list[str]:
    """Returns the routes of a message that was received, from its application properties."""
    listed = properties.get(ROUTES, "").split("|")[1:-1]
    return [escaped[1:-1].replace("~1", "|").replace("~0", "~") for escaped in listed]
