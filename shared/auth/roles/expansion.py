"""What roles grant: expansion of `assume:` scopes, within limits (contract 11.5). Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shared.api.scopes import ScopeSet
from shared.base import bounds
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass

ASSUME = "assume:"
PARAMETER = "<..>"
"""Placeholder in the scopes of a role whose id ends in a star: replaced by what the star matched."""
EVERYTHING = "*"

MAX_STEPS = 20_000
"""The most roles and scopes that one expansion may examine, including the scopes to expand."""
MAX_TEXT = 2_000_000
"""The most characters that all roles and scopes examined in one expansion may have together."""
MAX_PASSED = 10 * MAX_STEPS
"""The most roles with a star that one expansion may examine without a match. Higher, as these cost less."""


class ExpansionTooLarge(ServiceError):
    """Expanding these scopes through roles would cost more than one request may."""

    def __init__(self) -> None:
        super().__init__(
            f"the scopes expand through roles to more than {MAX_STEPS} scopes or {MAX_TEXT} characters; "
            "fewer or shorter scopes, or roles that lead to fewer others, are needed"
        )


class ExpansionWork:
    """Counts what an expansion looks at, before it is looked at, and ends what goes beyond the limits."""

    def __init__(self) -> None:
        self.steps = 0
        self.text = 0
        self.passed = 0

    def spend(self, steps: int, text: int) -> None:
        """Counts roles or scopes that are looked at next, and their characters. Raises ExpansionTooLarge."""
        self.steps += steps
        self.text += text
        if self.steps > MAX_STEPS or self.text > MAX_TEXT:
            raise ExpansionTooLarge

    def walk_past(self) -> None:
        """Counts a role with a star that was looked at and does not match. Raises ExpansionTooLarge."""
        self.passed += 1
        if self.passed > MAX_PASSED:
            raise ExpansionTooLarge


@dataclass(frozen=True, slots=True)
class _Rule:
    """The scopes of one role."""

    plain: tuple[str, ...]
    parameterised: tuple[tuple[str, str], ...]
    """The texts before and after the parameter, of each scope that has one."""
    text: int
    """Number of characters of all scopes together."""

    @classmethod
    def of(cls, role_id: str, scopes: Iterable[str]) -> _Rule:
        plain, parameterised = [], []
        for scope in scopes:
            before, parameter, after = scope.partition(PARAMETER)
            if parameter and role_id.endswith("*"):
                parameterised.append((before, after))
            else:
                plain.append(scope)
        return cls(tuple(plain), tuple(parameterised), sum(map(len, scopes)))

    def grants(self, suffix: str, work: ExpansionWork) -> Iterator[str]:
        """Yields the scopes that the role grants if its star has matched `suffix`. A suffix that ends in a star cuts
        off what follows it."""
        count = len(self.parameterised)
        work.spend(1 + len(self.plain) + count, self.text + count * len(suffix))
        yield from self.plain
        if suffix.endswith("*"):
            yield from (before + suffix for before, _ in self.parameterised)
        else:
            yield from (before + suffix + after for before, after in self.parameterised)


class Roles:
    """A snapshot of all roles, ready to expand scopes. Expansions are kept: the snapshot never changes."""

    def __init__(self, scopes_by_role: Mapping[str, Sequence[str]]) -> None:
        self.scopes_by_role: Mapping[str, tuple[str, ...]] = {
            role: tuple(scopes) for role, scopes in scopes_by_role.items()
        }
        self.ids = sorted(self.scopes_by_role)
        self.prefixes = PrefixIndex(role[:-1] for role in self.ids if role.endswith("*"))
        self._rules: dict[str, _Rule] = {}
        self._expanded: OrderedDict[frozenset[str], ScopeSet] = OrderedDict()
        self._kept = 0

    def expand(self, scopes: Iterable[str]) -> ScopeSet:
        """Returns the scopes with everything that their `assume:` scopes stand for, recursively, in normal form. Raises
        ExpansionTooLarge."""
        key = frozenset(scopes)
        expanded = self._expanded.get(key)
        if expanded is None:
            expanded = self._expanded[key] = self.expand_afresh(key, ExpansionWork())
            self._kept += len(key) + len(expanded)
            while self._kept > bounds.EXPANDED_SCOPES:
                dropped, value = self._expanded.popitem(last=False)
                self._kept -= len(dropped) + len(value)
        else:
            self._expanded.move_to_end(key)
        return expanded

    def granting(self, role: str) -> str | None:
        """Returns the role that grants something to holders of `role`: that one, or the most specific with a star."""
        if role in self.scopes_by_role:
            return role
        prefix = self.prefixes.longest(role)
        return None if prefix is None else f"{prefix}*"

    def shown(self, scopes: Iterable[str]) -> list[str]:
        """Returns the expansion as descriptions of clients and roles show it; the scopes themselves where it is too
        large. Operators must be able to look at such a client or role to mend it."""
        try:
            return list(self.expand(scopes))
        except ExpansionTooLarge:
            return list(ScopeSet(scopes))

    def expand_afresh(self, scopes: frozenset[str], work: ExpansionWork) -> ScopeSet:
        """Expands as `expand` does, but without the cache and counting the work. Raises ExpansionTooLarge."""
        if EVERYTHING in scopes:
            return ScopeSet([EVERYTHING])
        work.spend(len(scopes), sum(map(len, scopes)))
        found = set(scopes)
        leading = [scope for scope in found if leads_on(scope)]
        while leading:
            for grant in self._granted_by(leading.pop(), work):
                if grant in found:
                    continue
                if grant == EVERYTHING:
                    return ScopeSet([EVERYTHING])
                found.add(grant)
                if leads_on(grant):
                    leading.append(grant)
        return ScopeSet(found)

    def _granted_by(self, scope: str, work: ExpansionWork) -> Iterator[str]:
        """Yields the scopes that one held scope grants through roles, one step deep."""
        if not scope.startswith(ASSUME):
            yield from self._assuming_all("", work)
            return
        role = scope[len(ASSUME) :]
        if role.endswith("*"):
            yield from self._assuming_all(role[:-1], work)
        elif role in self.scopes_by_role:
            yield from self._rule(role).grants("", work)
        for prefix in self.prefixes.prefixes_of(role, work):
            yield from self._rule(prefix + "*").grants(role[len(prefix) :], work)

    def _assuming_all(self, prefix: str, work: ExpansionWork) -> Iterator[str]:
        """Yields what every role grants whose id starts with the prefix. A star at its end stands for anything."""
        for position in range(bisect_left(self.ids, prefix), len(self.ids)):
            if not self.ids[position].startswith(prefix):
                return
            yield from self._rule(self.ids[position]).grants("*", work)

    def _rule(self, role: str) -> _Rule:
        """Returns the rule of a role, made when it is first needed: there may be very many roles."""
        rule = self._rules.get(role)
        if rule is None:
            rule = self._rules[role] = _Rule.of(role, self.scopes_by_role[role])
        return rule


class PrefixIndex:
    """Finds which of many prefixes a text starts with."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._sorted = sorted(prefixes)
        self.parents: dict[str, str | None] = {}
        """By prefix: the longest other prefix that it starts with."""
        self.depth = 0
        """The longest chain of prefixes, each of which starts with the one before."""
        open_ones: list[str] = []
        for prefix in self._sorted:
            while open_ones and not prefix.startswith(open_ones[-1]):
                open_ones.pop()
            self.parents[prefix] = open_ones[-1] if open_ones else None
            open_ones.append(prefix)
            self.depth = max(self.depth, len(open_ones))

    def longest(self, text: str, work: ExpansionWork | None = None) -> str | None:
        """Returns the longest prefix with which the text starts, or None."""
        # Every text between a prefix and a text that starts with it, in sorted order, starts with that prefix as well.
        # So the text's prefixes are among two: the greatest one that does not sort after the text, and that one's
        # ancestors.
        position = bisect_right(self._sorted, text)
        candidate = self._sorted[position - 1] if position else None
        while candidate is not None and not text.startswith(candidate):
            if work is not None:
                work.walk_past()
            candidate = self.parents[candidate]
        return candidate

    def prefixes_of(self, text: str, work: ExpansionWork) -> Iterator[str]:
        """Yields all prefixes with which the text starts, the longest first."""
        prefix = self.longest(text, work)
        while prefix is not None:
            yield prefix
            prefix = self.parents[prefix]


def leads_on(scope: str) -> bool:
    """Returns whether roles may grant something for this scope: it is an `assume:` scope, or covers some of them."""
    return scope.startswith(ASSUME) or covers_all_roles(scope)


def covers_all_roles(scope: str) -> bool:
    """Returns whether this is `*`, `a*`, … `assume*`: every `assume:` scope there can be."""
    return scope.endswith("*") and ASSUME.startswith(scope[:-1])
