"""Which sets of roles are allowed: the rules that every change of roles is checked against (contract 11.5). Pure.

No scope of a role whose id ends in a star has more than one parameter, nor a parameter right after a star; no role
leads back to itself; and what a role expands to stays within the limits of one expansion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shared.api.scopes import ScopeSet
from shared.auth.roles.expansion import (
    ASSUME,
    EVERYTHING,
    MAX_PASSED,
    MAX_STEPS,
    MAX_TEXT,
    PARAMETER,
    ExpansionTooLarge,
    ExpansionWork,
    Roles,
    covers_all_roles,
)
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass

MAX_ROLES = 10_000
MAX_SCOPES = 100_000
"""The most scopes that all roles may have together."""
MAX_CHECKED_STEPS = 100 * MAX_STEPS
"""The most steps that checking one change may take, all expansions together."""
_PIECE = 2_000
"""Nodes of the graph that are visited before other calls may run."""
_SHOWN = 20
"""The most roles of a cycle that a message lists."""
_PLACEHOLDER = "\x1a"
_LONGEST_ID = 512
_ASSUMED_SUFFIX = 100
"""Assumed length of the text that replaces the star when a role with a star is assumed."""
_SOME_TEXT = (PARAMETER * _ASSUMED_SUFFIX)[:_ASSUMED_SUFFIX]
"""A text of that length, which is unlikely to occur in any role."""


class RolesRefused(ServiceError):
    """Raised for a set of roles that is not allowed; the message says why."""


class _Node(NamedTuple):
    """A node in the graph of which roles can be reached from which. `role`: one role. `under`: all roles whose ids
    start with the text. `over`: the role whose id is the text and a star, and all roles with a star whose prefixes are
    shorter prefixes of the text. Without `under` and `over` the graph could have an edge for each pair of roles."""

    kind: str
    text: str


@dataclass(slots=True)
class _Reach:
    """Upper bounds of what an expansion examines if it starts at this node."""

    steps: int = 0
    """Number of roles and scopes that the expansion examines."""
    length: int = 0
    """Characters of the longest scope without a parameter."""
    growth: int = 0
    """Characters of the longest scope with a parameter, not counting the parameter."""

    def too_large(self, depth: int) -> bool:
        """Returns whether an expansion might pass the limits; `depth` is how deep roles with a star are nested."""
        longest = max(self.length, self.growth + _ASSUMED_SUFFIX)
        steps = self.steps + 1  # one more for the scope that assumes the role
        return steps > MAX_STEPS or steps * longest + _LONGEST_ID > MAX_TEXT or steps * depth > MAX_PASSED


def check(roles: Roles) -> Iterator[None]:
    """Checks the roles piece by piece; between two pieces the caller may let other calls run. Raises RolesRefused."""
    if len(roles.ids) > MAX_ROLES or sum(map(len, roles.scopes_by_role.values())) > MAX_SCOPES:
        raise RolesRefused(f"There are too many roles: {MAX_ROLES} roles with {MAX_SCOPES} scopes are the most")
    assumed = {role: _assumed(role, scopes) for role, scopes in roles.scopes_by_role.items()}
    yield
    graph = _Graph(roles, assumed)
    yield
    yield from graph.visit()
    yield from _check_expansions(roles, graph.reach)


@dataclass(frozen=True, slots=True)
class _Assumed:
    """The roles that a role's scope may assume: the one with this id or, if it is a prefix, all that start with it."""

    text: str
    is_prefix: bool


def _assumed(role: str, scopes: tuple[str, ...]) -> list[_Assumed]:
    """Returns what the scopes of one role assume, whatever its parameter stands for. Raises RolesRefused."""
    parameterised = [scope for scope in scopes if role.endswith("*") and PARAMETER in scope]
    plain = set(scopes).difference(parameterised, [EVERYTHING])
    # In normal form, as upstream checks them: what a star covers needs no check of its own.
    marked = list(ScopeSet(scope.replace(PARAMETER, _PLACEHOLDER, 1) for scope in parameterised))
    for scope in marked:
        shown = scope.replace(_PLACEHOLDER, PARAMETER)
        if PARAMETER in scope:
            raise RolesRefused(f"Scopes must not have more than one `{PARAMETER}`: {shown}")
        if scope.endswith("*" + _PLACEHOLDER):
            raise RolesRefused(f"Scopes must not end with `*{PARAMETER}`: {shown}")
    return [
        *_assumed_by_all(role, ((scope.removesuffix("*"), scope.endswith("*")) for scope in sorted(plain))),
        *_assumed_by_all(role, ((scope.partition(_PLACEHOLDER)[0], True) for scope in marked)),
    ]


def _assumed_by_all(role: str, scopes: Iterator[tuple[str, bool]]) -> Iterator[_Assumed]:
    for text, is_prefix in scopes:
        if is_prefix and covers_all_roles(text + "*"):
            raise RolesRefused(_cycle_text([role]))
        if text.startswith(ASSUME):
            yield _Assumed(text[len(ASSUME) :], is_prefix)


def _cycle_text(cycle: list[str]) -> str:
    shown = cycle if len(cycle) <= _SHOWN else [*cycle[:_SHOWN], "…"]
    return f"Roles must not lead back to themselves: {' → '.join([*shown, cycle[0]])}"


class _Graph:
    """The graph of roles and what they assume, with a depth-first search through it."""

    def __init__(self, roles: Roles, assumed: Mapping[str, list[_Assumed]]) -> None:
        self._roles = roles
        self._assumed = assumed
        self._under = _nested(roles.ids, {one.text for each in assumed.values() for one in each if one.is_prefix})
        self.reach: dict[_Node, _Reach] = {}

    def visit(self) -> Iterator[None]:
        """Computes the reach of every role, in pieces. Raises RolesRefused for a cycle."""
        visited = 0
        for role in self._roles.ids:
            start = _Node("role", role)
            path: dict[_Node, Iterator[_Node]] = {start: self._following(start)} if start not in self.reach else {}
            while path:
                visited += 1
                if visited % _PIECE == 0:
                    yield
                node, following = next(reversed(path.items()))
                ahead = next((one for one in following if one not in self.reach), None)
                if ahead is None:
                    self.reach[node] = self._reach_of(node)
                    del path[node]
                elif ahead in path:
                    nodes = list(path)
                    cycle = nodes[nodes.index(ahead) :]
                    raise RolesRefused(_cycle_text([one.text for one in cycle if one.kind == "role"]))
                else:
                    path[ahead] = self._following(ahead)

    def _following(self, node: _Node) -> Iterator[_Node]:
        if node.kind == "under":
            yield from self._under[node.text]
        elif node.kind == "over":
            yield _Node("role", node.text + "*")
            parent = self._roles.prefixes.parents[node.text]
            if parent is not None:
                yield _Node("over", parent)
        else:
            for assumed in self._assumed[node.text]:
                if assumed.is_prefix:
                    yield _Node("under", assumed.text)
                elif assumed.text in self._roles.scopes_by_role:
                    yield _Node("role", assumed.text)
                over = self._roles.prefixes.longest(assumed.text)
                if over is not None:
                    yield _Node("over", over)

    def _reach_of(self, node: _Node) -> _Reach:
        found = _Reach()
        plain = parameterised = 0
        if node.kind == "role":
            scopes = self._roles.scopes_by_role[node.text]
            found.steps = 1 + len(scopes)
            plain = found.length = max(map(len, scopes), default=0)
            if node.text.endswith("*"):
                parameterised = found.growth = max((len(scope) for scope in scopes if PARAMETER in scope), default=0)
        for following in self._following(node):
            reach = self.reach[following]
            found.steps = min(found.steps + reach.steps, MAX_STEPS + 1)
            found.length = min(max(found.length, reach.length, plain + reach.growth), MAX_TEXT)
            if parameterised or node.kind != "role":
                found.growth = min(max(found.growth, parameterised + reach.growth), MAX_TEXT)
        return found


def _nested(ids: list[str], prefixes: set[str]) -> dict[str, list[_Node]]:
    """Returns for each prefix its child nodes: the longer prefixes, and the roles, that start with it and with no other
    prefix in between."""
    under: dict[str, list[_Node]] = {prefix: [] for prefix in prefixes}
    nodes = [_Node("under", prefix) for prefix in prefixes] + [_Node("role", role) for role in ids]
    open_ones: list[str] = []
    for node in sorted(nodes, key=lambda node: (node.text, node.kind == "role")):
        while open_ones and not node.text.startswith(open_ones[-1]):
            open_ones.pop()
        if open_ones:
            under[open_ones[-1]].append(node)
        if node.kind == "under":
            open_ones.append(node.text)
    return under


def _check_expansions(roles: Roles, reach: Mapping[_Node, _Reach]) -> Iterator[None]:
    """Expands the roles whose upper bounds pass the limits. The bounds overestimate: they count a role once for each
    path that leads to it."""
    steps = 0
    for role in roles.ids:
        if not reach[_Node("role", role)].too_large(roles.prefixes.depth):
            continue
        held = [ASSUME + role, *([ASSUME + role[:-1] + _SOME_TEXT] if role.endswith("*") else [])]
        for scope in held:
            work = ExpansionWork()
            try:
                roles.expand_afresh(frozenset([scope]), work)
            except ExpansionTooLarge as error:
                raise RolesRefused(f"Role {role} would lead to too much: {error}") from None
            steps += work.steps
            if steps > MAX_CHECKED_STEPS:
                raise RolesRefused("The roles lead to each other in too many ways to be checked")
            yield
