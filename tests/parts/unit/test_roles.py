"""Roles in a table: who may change them, and that none leads back to itself."""

import pytest

from shared.auth.roles import rules as role_rules
from shared.auth.roles.expansion import Roles
from shared.auth.roles.rows import TABLE as ROLES
from shared.auth.roles.rules import RolesRefused, check
from shared.base.dates import format_date
from shared.base.errors import InputError, InsufficientScopes, RequestConflict
from shared.store.counting import Kind
from tests.parts.twin import Call, MemoryStorage, Phase
from tests.parts.unit.accounts import ANYTHING, Deployment, holding, process, role


@pytest.fixture
def here(twin: MemoryStorage) -> Deployment:
    return process(twin)


async def test_a_role_from_creation_to_removal(here: Deployment, twin: MemoryStorage) -> None:
    now = format_date(twin.clock.now())
    created = await here.roles.make_role("repo:github.com/x/*", role("b:<..>", "a"), ANYTHING)
    assert created == {
        "roleId": "repo:github.com/x/*",
        "scopes": ["a", "b:<..>"],
        "description": "a role",
        "created": now,
        "lastModified": now,
        "expandedScopes": ["a", "assume:repo:github.com/x/*", "b:*"],
    }
    assert await here.roles.make_role("repo:github.com/x/*", role("a", "b:<..>"), ANYTHING) == created
    with pytest.raises(RequestConflict):
        await here.roles.make_role("repo:github.com/x/*", role("a"), ANYTHING)
    assert await here.roles.find_role("repo:github.com/x/*") == created
    assert await here.roles.all() == [created]
    assert "b:1" in (await here.keyring.roles()).expand(["assume:repo:github.com/x/1"])
    await here.roles.remove_role("repo:github.com/x/*")
    await here.roles.remove_role("repo:github.com/x/*")
    assert await here.roles.all() == []
    assert "b:1" not in (await here.keyring.roles()).expand(["assume:repo:github.com/x/1"])


async def test_a_role_with_scopes_beyond_the_callers_is_refused(here: Deployment) -> None:
    with pytest.raises(InsufficientScopes):
        await here.roles.make_role("r", role("a", "b"), holding("a"))
    await here.roles.make_role("r", role("a", "assume:s"), ANYTHING)
    await here.roles.make_role("s", role("b:*"), ANYTHING)
    with pytest.raises(InsufficientScopes):
        await here.roles.update("r", role("a", "c"), holding("a"))
    # What the role gave already, also through another one, is nothing new.
    updated = await here.roles.update("r", role("b:1", "c"), holding("c"))
    assert updated["scopes"] == ["b:1", "c"]


@pytest.mark.parametrize(
    "roles",
    [
        {"a": ["assume:a"]},
        {"a": ["assume:b"], "b": ["assume:c"], "c": ["assume:a"]},
        {"a*": ["assume:ab<..>"]},
        {"a*": ["assume:b-<..>"], "b-*": ["assume:a<..>"]},
        {"abc": ["assume:a*"]},
        {"a*": ["assume:abc"]},
        {"x-*": ["assume:<..>"], "y": ["assume:x-1"]},
        {"x-*": ["<..>"]},
        {"x-*": ["<..>:y"]},
        {"x-*": ["ass<..>"]},
        {"x": ["assume:*"]},
        {"x": ["as*"]},
    ],
)
async def test_no_role_leads_back_to_itself(here: Deployment, roles: dict[str, list[str]]) -> None:
    with pytest.raises(InputError, match="back to themselves"):
        for role_id, scopes in roles.items():
            await here.roles.make_role(role_id, role(*scopes), ANYTHING)


@pytest.mark.parametrize("scope", ["a<..>b<..>", "<..><..>", "assume:a:<..>:<..>"])
async def test_a_scope_has_one_parameter_at_most(here: Deployment, scope: str) -> None:
    with pytest.raises(InputError, match=r"more than one `<\.\.>`"):
        await here.roles.make_role("x-*", role(scope), ANYTHING)
    created = await here.roles.make_role("x", role(scope), ANYTHING)
    assert created["scopes"] == [scope], "without a star in the role's id it is text like any other"


async def test_a_parameter_right_after_a_star_is_refused(here: Deployment) -> None:
    with pytest.raises(InputError, match=r"must not end with `\*<\.\.>`"):
        await here.roles.make_role("x-*", role("a*<..>"), ANYTHING)


async def test_a_role_that_would_make_another_one_too_large_is_refused(here: Deployment) -> None:
    levels = [(f"p/r{n}/*", role(*(f"assume:p/r{n + 1}/<..>{end}" for end in "ab"))) for n in range(20)]
    made = 0
    with pytest.raises(InputError, match=r"Role p/r.* would lead to too much"):
        for role_id, request in reversed(levels):
            await here.roles.make_role(role_id, request, ANYTHING)
            made += 1
    assert 10 <= made < 14
    roles = await here.keyring.roles()
    for role_id, _ in levels:
        roles.expand([f"assume:{role_id}", f"assume:{role_id[:-1]}some text"])
    # The other way round it is the last one made, a leaf, that is too much for the first one.
    for role_id, _ in levels[20 - made :]:
        await here.roles.remove_role(role_id)
    with pytest.raises(InputError, match="would lead to too much"):
        for role_id, request in levels:
            await here.roles.make_role(role_id, request, ANYTHING)


def test_too_many_roles_are_refused() -> None:
    assert "too many roles" in problem({f"r{n}": [] for n in range(role_rules.MAX_ROLES + 1)})
    scopes = [f"x{n}" for n in range(10_001)]
    assert "too many roles" in problem({f"r{n}": scopes for n in range(10)})


def test_roles_that_cannot_be_checked_within_reason_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = {
        f"{side}{n}": [f"assume:left{n + 1}", f"assume:right{n + 1}"] for n in range(30) for side in ("left", "right")
    }
    monkeypatch.setattr(role_rules, "MAX_CHECKED_STEPS", 1000)
    assert "too many ways" in problem(lattice)


async def test_roles_that_share_and_roles_that_may_do_everything_are_no_cycle(here: Deployment) -> None:
    await here.roles.make_role("root", role("*"), ANYTHING)
    await here.roles.make_role("bottom", role("x"), ANYTHING)
    await here.roles.make_role("left", role("assume:bottom"), ANYTHING)
    await here.roles.make_role("right", role("assume:bottom"), ANYTHING)
    top = await here.roles.make_role("top", role("assume:left", "assume:right"), ANYTHING)
    assert "x" in top["expandedScopes"]


def problem(roles: dict[str, list[str]]) -> str:
    """Returns why these roles are not allowed; empty if they are."""
    try:
        for _piece in check(Roles(roles)):
            pass
    except RolesRefused as refused:
        return str(refused)
    return ""


async def test_two_who_change_roles_at_once_cannot_make_a_cycle_together(twin: MemoryStorage) -> None:
    here, there = process(twin), process(twin)
    await here.roles.make_role("a", role("x"), ANYTHING)
    await here.roles.make_role("b", role("x"), ANYTHING)
    other: list[str] = []

    async def meanwhile(call: Call, phase: Phase) -> None:
        """Changes a role by another process between our read and our write."""
        if call.target == ROLES and call.kind is Kind.TABLE_WRITE and phase is Phase.BEFORE and not other:
            other.append("done")
            await there.roles.update("b", role("assume:a"), ANYTHING)

    twin.gate = meanwhile
    with pytest.raises(InputError, match="back to themselves"):
        await here.roles.update("a", role("assume:b"), ANYTHING)
    assert (await here.roles.find_role("b"))["scopes"] == ["assume:a"]
    assert (await here.roles.find_role("a"))["scopes"] == ["x"]
