"""What roles grant: expansion of `assume:` scopes (contract 11.5). Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from shared.auth.scopes import ScopeSet

ASSUME = "assume:"
PARAMETER = "<..>"
"""In a scope of a role whose id ends in a star: stands for what the star matched."""
_CACHED_EXPANSIONS = 1024


class Roles:
    """A snapshot of all roles, ready to expand scopes. Expansions are kept: the snapshot never changes."""

    def __init__(self, scopes_by_role: Mapping[str, Sequence[str]]) -> None:
        self.scopes_by_role: Mapping[str, tuple[str, ...]] = {
            role: tuple(scopes) for role, scopes in scopes_by_role.items()
        }
        self._ids = sorted(self.scopes_by_role)
        self._prefixes = {role[:-1]: role for role in self._ids if role.endswith("*")}
        self._longest_prefix = max(map(len, self._prefixes), default=-1)
        self._expand = lru_cache(maxsize=_CACHED_EXPANSIONS)(self._expand_afresh)

    def expand(self, scopes: Iterable[str]) -> ScopeSet:
        """The scopes with everything that their `assume:` scopes stand for, recursively, in normal form."""
        return self._expand(frozenset(scopes))

    def _expand_afresh(self, scopes: frozenset[str]) -> ScopeSet:
        if "*" in scopes:
            return ScopeSet(["*"])
        found = set(scopes)
        fresh = list(found)
        # Without a cycle no chain of roles is longer than their number (twice that, with an `as*` between). The bound
        # ends a cycle that should not be there (writes refuse them) instead of letting a parameter grow for ever.
        for _ in range(2 * len(self._ids) + 1):
            granted = {grant for scope in fresh for grant in self.granted_by(scope)}
            fresh = [scope for scope in granted if scope not in found]
            if not fresh:
                break
            found.update(fresh)
        return ScopeSet(found)

    def granted_by(self, scope: str) -> Iterable[str]:
        """What one held scope grants through roles, one step deep."""
        starred = scope.endswith("*")
        if not scope.startswith(ASSUME):
            # `*`, `a*`, … `assume*` cover every `assume:` scope.
            if starred and ASSUME.startswith(scope[:-1]):
                yield from self._assuming_all("")
            return
        role = scope[len(ASSUME) :]
        if starred:
            yield from self._assuming_all(role[:-1])
        else:
            yield from self.scopes_by_role.get(role, ())
        yield from self._through_prefix_roles(role)

    def _assuming_all(self, prefix: str) -> Iterable[str]:
        """What every role grants whose id starts with the prefix; of a star in it, any continuation is meant."""
        for role in self._ids[bisect_left(self._ids, prefix) :]:
            if not role.startswith(prefix):
                break
            for scope in self.scopes_by_role[role]:
                yield substitute(scope, "*") if role.endswith("*") else scope

    def _through_prefix_roles(self, role: str) -> Iterable[str]:
        """What roles `<start>*` grant to whoever assumes this role. The role may end in a star itself."""
        for length in range(min(len(role), self._longest_prefix) + 1):
            pattern = self._prefixes.get(role[:length])
            if pattern is None:
                continue
            suffix = role[length:]
            for scope in self.scopes_by_role[pattern]:
                yield substitute(scope, suffix)

    def cycle(self) -> list[str] | None:
        """Role ids that lead back to the first one, or None. What a parameter stands for counts as any text.

        A scope that covers every role (`*` … `assume*`) is no part of a cycle: it has nothing that could grow.
        """
        finished: set[str] = set()
        for start in self._ids:
            found = self._cycle_from(start, finished)
            if found:
                return found
        return None

    def _cycle_from(self, start: str, finished: set[str]) -> list[str] | None:
        """Depth first, without recursion: a chain may be as long as there are roles."""
        path = [start]
        pending = [iter(self._assumed_by(start))]
        while path:
            following = next((role for role in pending[-1] if role not in finished), None)
            if following is None:
                finished.add(path.pop())
                pending.pop()
            elif following in path:
                return path[path.index(following) :]
            else:
                path.append(following)
                pending.append(iter(self._assumed_by(following)))
        return None

    def _assumed_by(self, role: str) -> Iterable[str]:
        """The roles that the scopes of a role may lead to."""
        for scope in self.scopes_by_role[role]:
            if not scope.startswith(ASSUME):
                continue
            text, parameter, _ = scope[len(ASSUME) :].partition(PARAMETER)
            if parameter and role.endswith("*"):
                yield from self._meeting(text)
            elif scope.endswith("*"):
                yield from self._meeting(scope[len(ASSUME) : -1])
            else:
                yield from self._matching(scope[len(ASSUME) :])

    def _meeting(self, prefix: str) -> Iterable[str]:
        """Roles that some text with this prefix assumes."""
        for role in self._ids[bisect_left(self._ids, prefix) :]:
            if not role.startswith(prefix):
                break
            yield role
        yield from self._matching(prefix)

    def _matching(self, role: str) -> Iterable[str]:
        """Roles that this text assumes."""
        if role in self.scopes_by_role:
            yield role
        for length in range(min(len(role), self._longest_prefix) + 1):
            if role[:length] in self._prefixes:
                yield self._prefixes[role[:length]]


def substitute(scope: str, suffix: str) -> str:
    """The scope with its parameter replaced. A suffix with a star at its end cuts off what follows (contract 11.5)."""
    before, parameter, after = scope.partition(PARAMETER)
    if not parameter:
        return scope
    return before + suffix if suffix.endswith("*") else before + suffix + after
