"""Routes of HTTP functions, and which function a request goes to.

A route has literal segments, and after them at most one parameter: `{name}` for one segment, `{*name}` for all that is
left. The app needs one catch-all; whatever else ASP.NET reads is refused at the start.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tools.local.host.errors import HostError

_RESERVED = ("admin", "runtime")
"""Beginnings of routes that the host keeps for itself: it refuses functions with such routes."""
_PARAMETER = re.compile(r"\{(\*?)(\w+)\}")
_LITERAL = re.compile(r"[^/{}?]+")


@dataclass(frozen=True, kw_only=True)
class Route:
    """One HTTP function's place in the router."""

    function: str
    literals: Sequence[str]
    """The literal segments in lower case: case does not matter, as on the platform."""
    parameter: str
    """Name of the parameter; empty if there is none."""
    is_catch_all: bool
    methods: frozenset[str] | None
    """Methods that the function takes; None for all of them."""

    def match(self, path: str) -> dict[str, str] | None:
        """Returns the value of the parameter if the path fits, else None. A catch-all without a value is left out."""
        count = len(self.literals)
        parts = path.removeprefix("/").split("/", count)
        rest = parts[count] if count < len(parts) else ""
        if [part.lower() for part in parts[:count]] != list(self.literals):
            return None
        if self.is_catch_all:
            return {self.parameter: rest} if rest else {}
        rest = rest.removesuffix("/")
        if "/" in rest or bool(rest) != bool(self.parameter):
            return None
        return {self.parameter: rest} if rest else {}

    def is_twin_of(self, other: "Route") -> bool:
        """Returns whether both would take the same requests."""
        shapes = [(each.literals, bool(each.parameter), each.is_catch_all) for each in (self, other)]
        methods = self.methods is None or other.methods is None or bool(self.methods & other.methods)
        return shapes[0] == shapes[1] and methods


class Router:
    """The routes of an app; the more specific one wins."""

    def __init__(self, routes: Sequence[Route]) -> None:
        """Takes the routes of an app. Raises HostError if two functions have the same route and a method in common."""
        for one, other in combinations(routes, 2):
            if one.is_twin_of(other):
                raise HostError(f"functions {one.function} and {other.function} have the same route and method")
        self._routes = sorted(routes, key=lambda route: (-len(route.literals), route.is_catch_all))

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """Returns the route of a request, and its parameters. None means 404; the Functions host has no 405."""
        for route in self._routes:
            if route.methods is None or method in route.methods:
                values = route.match(path)
                if values is not None:
                    return route, values
        return None


def parse_route(function: str, prefix: str, route: str, methods: frozenset[str] | None) -> Route:
    """Returns the route of an HTTP function under host.json's prefix. Raises HostError naming the function."""
    if route.strip("/").lower().startswith(_RESERVED):
        raise HostError(f"function {function}: the route {route!r} begins with a word that the host keeps for itself")
    *literals, last = f"{prefix}/{route.strip('/')}".strip("/").split("/")
    parameter = _PARAMETER.fullmatch(last)
    if parameter is None:
        literals.append(last)
    if not all(_LITERAL.fullmatch(literal) for literal in literals):
        raise HostError(f"function {function}: the route {route!r} is none that the local host serves")
    return Route(
        function=function,
        literals=tuple(literal.lower() for literal in literals),
        parameter=parameter[2] if parameter else "",
        is_catch_all=bool(parameter and parameter[1]),
        methods=methods,
    )
