"""Random sets of roles against a model that is as simple as the rules are stated (contract 11.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st

from shared.api.scopes import ScopeSet
from shared.auth.roles import expansion
from shared.auth.roles.expansion import ExpansionTooLarge, ExpansionWork, Roles
from shared.auth.roles.rules import RolesRefused, check
from tests.selection import examples

RoleSet = Mapping[str, Sequence[str]]
PARAMETER = "<..>"


# --- the model: every rule is compared with every scope


def matches(pattern: str, scope: str) -> bool:
    """Whether a pattern, a star at its end included, covers a scope."""
    if pattern.endswith("*"):
        return scope.removesuffix("*").startswith(pattern[:-1])
    return pattern == scope


def takes_parameter(role: str, scope: str) -> bool:
    return role.endswith("*") and PARAMETER in scope


def is_well_formed(roles: RoleSet) -> bool:
    """Whether the scopes of each role with a star have one parameter at most, and none right after a star."""
    for role, scopes in roles.items():
        marked = [scope.replace(PARAMETER, "\0", 1) for scope in scopes if takes_parameter(role, scope)]
        for scope in list(ScopeSet(marked)):
            if PARAMETER in scope or scope.endswith("*\0"):
                return False
    return True


def leads_to(roles: RoleSet, role: str, other: str) -> bool:
    """Whether some text for the parameter of a role makes one of its scopes meet the other role."""
    for scope in roles[role]:
        if scope == "*":
            continue  # holds everything already: no role adds to it
        widest = re.sub(r"<\.\.>.*", "*", scope) if takes_parameter(role, scope) else scope
        if matches(widest, f"assume:{other}") or matches(f"assume:{other}", widest):
            return True
    return False


def has_cycle(roles: RoleSet) -> bool:
    left = dict.fromkeys(roles)
    while left:
        ends = [role for role in left if not any(leads_to(roles, role, other) for other in left)]
        if not ends:
            return True
        for role in ends:
            del left[role]
    return False


def expanded(roles: RoleSet, held: Sequence[str]) -> list[str]:
    found, fresh = set(held), list(held)
    while fresh:
        scope = fresh.pop()
        for role, scopes in roles.items():
            pattern = f"assume:{role}"
            if not (matches(pattern, scope) or matches(scope, pattern)):
                continue
            suffix = scope[len(pattern) - 1 :] if matches(pattern, scope) and role.endswith("*") else "*"
            for granted in scopes:
                if takes_parameter(role, granted):
                    before, after = granted.split(PARAMETER, 1)
                    granted = before + suffix + ("" if suffix.endswith("*") else after)
                if granted not in found:
                    found.add(granted)
                    fresh.append(granted)
    return list(ScopeSet(found))


# --- the sets

ids = st.tuples(st.text(alphabet="ab", min_size=1, max_size=3), st.sampled_from(["", "", "*"])).map("".join)
role_ids = st.one_of(ids, st.just("*"))
pieces = st.sampled_from(["a", "b", "ab", "", PARAMETER, "*"])
starts = st.sampled_from(["assume:", "assume:", "assume:", "assume:a", "s:", "", "a", "ass", "assume"])
scopes = st.tuples(starts, pieces, pieces, pieces).map("".join).filter(lambda scope: not scope.endswith("**"))
role_sets = st.dictionaries(role_ids, st.lists(scopes, max_size=3, unique=True), min_size=1, max_size=5)
held_scopes = st.lists(
    st.one_of(st.tuples(st.just("assume:"), role_ids).map("".join), st.sampled_from(["as*", "s:a", "*"])),
    min_size=1,
    max_size=2,
)


def is_accepted(roles: RoleSet) -> bool:
    try:
        for _piece in check(Roles(roles)):
            pass
    except RolesRefused:
        return False
    return True


@settings(max_examples=examples(600))
@given(role_sets, held_scopes)
def test_the_same_sets_are_accepted_and_mean_the_same(roles: RoleSet, held: list[str]) -> None:
    accepted = is_well_formed(roles) and not has_cycle(roles)
    event(f"accepted: {accepted}")
    assert is_accepted(roles) == accepted
    if accepted:
        assert list(Roles(roles).expand(held)) == expanded(roles, held)


@settings(max_examples=examples(300))
@given(role_sets, held_scopes, held_scopes)
def test_the_expansion_of_two_sets_is_the_union_of_theirs(roles: RoleSet, one: list[str], other: list[str]) -> None:
    """The expansion of two sets of scopes together is the union of the expansions of each."""
    if is_accepted(roles):
        found = Roles(roles)
        assert found.expand([*one, *other]) == found.expand(one).union(found.expand(other))


ends = st.sampled_from([PARAMETER, f"{PARAMETER}x", "*", f"{PARAMETER}{'y' * 1500}"])
ladders = st.lists(st.tuples(st.integers(1, 12), ends), min_size=1, max_size=7)


@settings(max_examples=examples(100))
@given(ladders)
def test_no_set_that_is_let_in_takes_more_work_than_the_limit(ladder: Sequence[tuple[int, str]]) -> None:
    """No accepted set of roles takes more work than the limit. In these sets each role leads to the next one in several
    ways, so that many of them grow exponentially."""
    roles = {f"{n}/*": [f"assume:{n + 1}/{way}{end}" for way in range(ways)] for n, (ways, end) in enumerate(ladder)}
    accepted = is_accepted(roles)
    event(f"accepted: {accepted}")
    found = Roles(roles)
    for role in roles:
        for held in (f"assume:{role}", f"assume:{role[:-1]}some text"):
            work = ExpansionWork()
            try:
                found.expand_afresh(frozenset([held]), work)
            except ExpansionTooLarge:
                assert not accepted, held
            else:
                assert work.steps <= expansion.MAX_STEPS
                assert work.text <= expansion.MAX_TEXT
