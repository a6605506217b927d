"""Route templates of HTTP functions, as ASP.NET reads them, and which function a request goes to.

Supported: literal segments, `{name}`, `{name?}`, `{*rest}` (last), and the inline constraints in `constraints.py`.
Segments that mix text with parameters and default values are refused at the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

from local.host.constraints import Constraint, parse_constraints
from local.host.errors import HostError

_RESERVED = ("admin", "runtime")
"""The host keeps these for itself and refuses functions whose route begins so."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One segment of a template: a literal, or a parameter."""

    literal: str = ""
    name: str = ""
    optional: bool = False
    catch_all: bool = False
    constraints: tuple[Constraint, ...] = ()

    @property
    def rank(self) -> int:
        """How specific the segment is; ASP.NET's inbound precedence: the lower, the more specific."""
        if not self.name:
            return 1
        return (5 if self.catch_all else 3) - bool(self.constraints)

    def shape(self) -> str:
        """The segment without the parameter's name: two templates of the same shapes match the same paths."""
        if not self.name:
            return self.literal.lower()
        texts = ":".join(sorted(constraint.text for constraint in self.constraints))
        return f"{{{'*' * self.catch_all}{'?' * self.optional}:{texts}}}"


@dataclass(frozen=True)
class Template:
    """A parsed route template, prefix included."""

    text: str
    segments: tuple[Segment, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError if the template is not valid or not supported."""
        texts = _split(text.strip("/"))
        segments = tuple(_segment(part) for part in texts)
        names = [segment.name.lower() for segment in segments if segment.name]
        if len(set(names)) < len(names):
            raise ValueError("a parameter's name occurs twice")
        for position, segment in enumerate(segments):
            last = position == len(segments) - 1
            if segment.catch_all and not last:
                raise ValueError("a catch-all is allowed only as the last segment")
            if segment.optional and not all(later.optional for later in segments[position:]):
                raise ValueError("an optional parameter must come last")
        return cls(text, segments)

    def match(self, path: str) -> dict[str, str] | None:
        """The values of the parameters if the path fits, else None. Parameters without a value are left out."""
        parts = path.removeprefix("/").removesuffix("/").split("/") if path.strip("/") else []
        values: dict[str, str] = {}
        for position, segment in enumerate(self.segments):
            if segment.catch_all:
                rest = path.removeprefix("/").split("/", position)
                value = rest[position] if position < len(rest) else ""
            else:
                value = parts[position] if position < len(parts) else ""
            if not segment.name:
                if value.lower() != segment.literal.lower():
                    return None
            elif value:
                if not all(constraint.accepts(value) for constraint in segment.constraints):
                    return None
                values[segment.name] = value
            elif not (segment.catch_all or (segment.optional and position >= len(parts))):
                return None
        ends_open = bool(self.segments) and self.segments[-1].catch_all
        return values if ends_open or len(parts) <= len(self.segments) else None

    def precedence(self) -> tuple[int, ...]:
        """Sort key: of two templates that match a path, the one with the lower key is the more specific."""
        return tuple(segment.rank for segment in self.segments)

    def shape(self) -> tuple[str, ...]:
        """What is equal for two templates that match the same paths."""
        return tuple(segment.shape() for segment in self.segments)

    def overlaps(self, other: Self) -> bool:
        """Whether some path may fit both (constraints are not looked into)."""
        for position in range(max(len(self.segments), len(other.segments))):
            mine = self.segments[position] if position < len(self.segments) else None
            theirs = other.segments[position] if position < len(other.segments) else None
            if (mine and mine.catch_all) or (theirs and theirs.catch_all):
                return True
            if mine is None or theirs is None:
                present = mine or theirs
                if present is None or not present.optional:
                    return False
            elif not mine.name and not theirs.name and mine.literal.lower() != theirs.literal.lower():
                return False
        return True


@dataclass(frozen=True)
class Route:
    """One HTTP function's place in the router. `methods` is None for all of them."""

    function: str
    template: Template
    methods: frozenset[str] | None

    def shares_method(self, other: Self) -> bool:
        """Whether some method goes to both."""
        return self.methods is None or other.methods is None or bool(self.methods & other.methods)


class Router:
    """The routes of an app; the more specific template wins."""

    def __init__(self, routes: Sequence[Route]) -> None:
        """Raises HostError if two functions have the same route and a method in common."""
        for one, other in combinations(routes, 2):
            if one.template.shape() == other.template.shape() and one.shares_method(other):
                raise HostError(
                    f"functions {one.function} and {other.function} have the same route and method: "
                    f"{other.template.text}"
                )
        self.routes = sorted(routes, key=lambda route: route.template.precedence())

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route of a request, and its parameters. None: 404; the Functions host has no 405."""
        for route in self.routes:
            if route.methods is None or method in route.methods:
                values = route.template.match(path)
                if values is not None:
                    return route, values
        return None

    def ambiguous(self) -> list[tuple[str, str]]:
        """Pairs of functions where the platform may choose otherwise than this router.

        Released versions of the Functions host try routes in the order of the functions' names, later ones the more
        specific first. A pair is named if some path fits both and the two orders differ.
        """
        return [
            (first.function, second.function)
            for first, second in combinations(self.routes, 2)
            if first.function.lower() > second.function.lower()
            and first.shares_method(second)
            and first.template.overlaps(second.template)
        ]


def parse_route(function: str, prefix: str, route: str, methods: frozenset[str] | None) -> Route:
    """The route of an HTTP function under host.json's prefix. Raises HostError naming the function."""
    if route.strip("/").lower().startswith(_RESERVED):
        raise HostError(f"function {function}: the route {route!r} begins with a word that the host keeps for itself")
    try:
        template = Template.parse(f"{prefix}/{route.strip('/')}")
    except ValueError as error:
        raise HostError(f"function {function}: the route {route!r} is not served: {error}") from None
    return Route(function, template, methods)


def _split(text: str) -> list[str]:
    """Split at slashes outside of braces; a doubled brace stands for itself."""
    parts = [""]
    depth = 0
    position = 0
    while position < len(text):
        pair = text[position : position + 2]
        if pair in ("{{", "}}") and depth:
            parts[-1] += pair
            position += 2
            continue
        character = text[position]
        depth += {"{": 1, "}": -1}.get(character, 0)
        if not 0 <= depth <= 1:
            raise ValueError("its braces do not match")
        if character == "/" and not depth:
            parts.append("")
        else:
            parts[-1] += character
        position += 1
    if depth:
        raise ValueError("its braces do not match")
    if len(parts) > 1 and "" in parts:
        raise ValueError("a segment is empty")
    return [part for part in parts if part]


def _segment(text: str) -> Segment:
    if "{" not in text and "}" not in text:
        if "?" in text:
            raise ValueError("a literal must not hold '?'")
        return Segment(literal=text)
    inner = text[1:-1]
    if not (text.startswith("{") and text.endswith("}")) or "{" in inner.replace("{{", "").partition(":")[0]:
        raise ValueError(f"the segment {text} mixes text and parameters, which the local host does not support")
    optional = inner.endswith("?")
    body = inner.removesuffix("?")
    catch_all = body.startswith("*")
    name, _, constraints = body.lstrip("*").partition(":")
    if optional and catch_all:
        raise ValueError("a catch-all cannot be optional")
    if "=" in name:
        raise ValueError(f"the segment {text} has a default value, which the local host does not support")
    if not name or set(name) & set("/{}?*"):
        raise ValueError(f"the segment {text} has no valid parameter name")
    return Segment(
        name=name,
        optional=optional,
        catch_all=catch_all,
        constraints=parse_constraints(constraints) if constraints else (),
    )
