"""Roles in a table: who may change them, and that none leads back to itself."""

import pytest

from shared.auth.expansion import Roles
from shared.auth.role_store import TABLE as ROLES
from shared.domain.dates import format_date
from shared.errors import (
    InputError,
    InsufficientScopes,
    RequestConflict,
)
from shared.storage.counting import Kind
from tests.twin import Call, MemoryStorage, Phase
from tests.unit.accounts import ANYTHING, Deployment, holding, process, role


@pytest.fixture
def here(twin: MemoryStorage) -> Deployment:
    return process(twin)


async def test_a_role_from_creation_to_removal(here: Deployment, twin: MemoryStorage) -> None:
    now = format_date(twin.clock.now())
    created = await here.roles.create("repo:github.com/x/*", role("b:<..>", "a"), ANYTHING)
    assert created == {
        "roleId": "repo:github.com/x/*",
        "scopes": ["a", "b:<..>"],
        "description": "a role",
        "created": now,
        "lastModified": now,
        "expandedScopes": ["a", "assume:repo:github.com/x/*", "b:*"],
    }
    assert await here.roles.create("repo:github.com/x/*", role("a", "b:<..>"), ANYTHING) == created
    with pytest.raises(RequestConflict):
        await here.roles.create("repo:github.com/x/*", role("a"), ANYTHING)
    assert await here.roles.get("repo:github.com/x/*") == created
    assert await here.roles.all() == [created]
    assert "b:1" in (await here.keyring.roles()).expand(["assume:repo:github.com/x/1"])
    await here.roles.delete("repo:github.com/x/*")
    await here.roles.delete("repo:github.com/x/*")
    assert await here.roles.all() == []
    assert "b:1" not in (await here.keyring.roles()).expand(["assume:repo:github.com/x/1"])


async def test_nobody_gives_a_role_what_he_has_not(here: Deployment) -> None:
    with pytest.raises(InsufficientScopes):
        await here.roles.create("r", role("a", "b"), holding("a"))
    await here.roles.create("r", role("a", "assume:s"), ANYTHING)
    await here.roles.create("s", role("b:*"), ANYTHING)
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
    ],
)
async def test_no_role_leads_back_to_itself(here: Deployment, roles: dict[str, list[str]]) -> None:
    with pytest.raises(InputError, match="back to themselves"):
        for role_id, scopes in roles.items():
            await here.roles.create(role_id, role(*scopes), ANYTHING)


async def test_a_cycle_is_refused_when_a_role_is_changed(here: Deployment) -> None:
    await here.roles.create("a", role("assume:b"), ANYTHING)
    await here.roles.create("b", role("x"), ANYTHING)
    with pytest.raises(InputError, match="back to themselves"):
        await here.roles.update("b", role("assume:a"), ANYTHING)
    assert (await here.roles.get("b"))["scopes"] == ["x"]


async def test_roles_that_share_and_roles_that_may_do_everything_are_no_cycle(here: Deployment) -> None:
    await here.roles.create("root", role("*"), ANYTHING)
    await here.roles.create("bottom", role("x"), ANYTHING)
    await here.roles.create("left", role("assume:bottom"), ANYTHING)
    await here.roles.create("right", role("assume:bottom"), ANYTHING)
    top = await here.roles.create("top", role("assume:left", "assume:right"), ANYTHING)
    assert "x" in top["expandedScopes"]


def test_a_long_chain_of_roles() -> None:
    length = 1500
    chained = Roles({"r0": ["x"], **{f"r{n}": [f"assume:r{n - 1}"] for n in range(1, length)}})
    assert chained.cycle() is None
    assert "x" in chained.expand([f"assume:r{length - 1}"])
    assert Roles({**chained.scopes_by_role, "r0": [f"assume:r{length - 1}"]}).cycle() is not None


async def test_two_who_change_roles_at_once_cannot_make_a_cycle_together(twin: MemoryStorage) -> None:
    here, there = process(twin), process(twin)
    await here.roles.create("a", role("x"), ANYTHING)
    await here.roles.create("b", role("x"), ANYTHING)
    other: list[str] = []

    async def meanwhile(call: Call, phase: Phase) -> None:
        """Another process changes a role between our read and our write."""
        if call.target == ROLES and call.kind is Kind.TABLE_WRITE and phase is Phase.BEFORE and not other:
            other.append("done")
            await there.roles.update("b", role("assume:a"), ANYTHING)

    twin.gate = meanwhile
    with pytest.raises(InputError, match="back to themselves"):
        await here.roles.update("a", role("assume:b"), ANYTHING)
    assert (await here.roles.get("b"))["scopes"] == ["assume:a"]
    assert (await here.roles.get("a"))["scopes"] == ["x"]
