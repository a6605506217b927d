"""Custom routes as application properties that a Service Bus filter can match exactly (contract 10, CC keys).

A message has any number of routes up to 64, and a SQL filter knows only LIKE, whose `%` crosses dots and the border
to the next route. So routes are written twice:

* `routes` has all of them: `|.index.project.latest.|.notify.by-email.|`. A run of whole words is found in it exactly.
* `cc0`, `cc1`, … have one route each, its words numbered in base 36: `00|index.01|project.02|latest.03`. A `%`
  between two numbers cannot leave its word, which makes patterns with `*` exact.

In both, `|` in a route is written `~1` and `~` is written `~0`, so that `|` and `.` are ours alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

MAX_ROUTES = 64
"""Routes that a task can have (contract 3.1)."""

MAX_ROUTES_BYTES = 32_000
"""UTF-8 bytes of the `routes` property: Service Bus takes 32 KB a property."""

MAX_PROPERTIES_BYTES = 62_000
"""UTF-8 bytes of all properties that routes become: Service Bus takes 64 KB, the primary key's words included."""

ROUTES = "routes"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def slot(index: int) -> str:
    """The name of the property that holds one route."""
    return f"cc{index}"


def escape(word: str) -> str:
    """A word without the signs that the encodings use."""
    return word.replace("~", "~0").replace("|", "~1")


def number(position: int) -> str:
    """A word's position in a route: two digits in base 36."""
    return _DIGITS[position // 36] + _DIGITS[position % 36]


def check_routes(routes: Sequence[str]) -> None:
    """Raises ValueError if messages could not carry these routes; to be asked before a task is created.

    Everything that contract 3.1 allows in ASCII passes, unless nearly every character is a dot or one that is escaped.
    """
    route_properties(routes)


def route_properties(routes: Sequence[str]) -> dict[str, str]:
    """The application properties of the routes; none without routes. Raises ValueError as `check_routes`."""
    if not routes:
        return {}
    if len(routes) > MAX_ROUTES:
        raise ValueError(f"a task can have {MAX_ROUTES} routes, not {len(routes)}")
    properties = dict(_encoded(routes))
    try:
        sizes = [len(name) + len(value.encode()) for name, value in properties.items()]
    except UnicodeEncodeError as error:
        raise ValueError("a route has characters that are not valid Unicode") from error
    if sizes[0] > MAX_ROUTES_BYTES or sum(sizes) > MAX_PROPERTIES_BYTES:
        raise ValueError("the routes are too long altogether to be announced: shorten them")
    return properties


def routes_of(properties: Mapping[str, str]) -> list[str]:
    """The routes of a message that was received, from its application properties."""
    listed = properties.get(ROUTES, "").split("|")[1:-1]
    return [escaped[1:-1].replace("~1", "|").replace("~0", "~") for escaped in listed]


def _encoded(routes: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield ROUTES, "|" + "".join(f".{escape(route)}.|" for route in routes)
    for index, route in enumerate(routes):
        words = route.split(".")
        numbered = "".join(f"{number(position)}|{escape(word)}." for position, word in enumerate(words))
        yield slot(index), numbered + number(len(words))
