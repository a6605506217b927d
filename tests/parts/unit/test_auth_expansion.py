"""What roles grant (contract 11.5)."""

import pytest

from shared.auth.roles import expansion
from shared.auth.roles.expansion import ExpansionTooLarge, ExpansionWork, Roles

ROLES = Roles(
    {
        "anonymous": ["queue:status:*"],
        "repo:github.com/acme/*": ["secrets:get:acme", "assume:project:acme"],
        "repo:github.com/acme/site:branch:main": ["deploy"],
        "project:acme": ["queue:route:acme.*"],
        "hook-id:*": ["assume:hooks-of:<..>:all", "index:<..>"],
        "hooks-of:garbage/daily:all": ["daily"],
        "*": ["everyone:<..>"],
    }
)


@pytest.mark.parametrize(
    ("held", "expanded"),
    [
        ([], []),
        (["a"], ["a"]),
        (["assume:anonymous"], ["assume:anonymous", "everyone:anonymous", "queue:status:*"]),
        (
            ["assume:repo:github.com/acme/site:branch:main"],
            [
                "assume:project:acme",
                "assume:repo:github.com/acme/site:branch:main",
                "deploy",
                "everyone:project:acme",
                "everyone:repo:github.com/acme/site:branch:main",
                "queue:route:acme.*",
                "secrets:get:acme",
            ],
        ),
        (
            ["assume:hook-id:garbage/daily"],
            [
                "assume:hook-id:garbage/daily",
                "assume:hooks-of:garbage/daily:all",
                "daily",
                "everyone:hook-id:garbage/daily",
                "everyone:hooks-of:garbage/daily:all",
                "index:garbage/daily",
            ],
        ),
        (
            ["assume:hook-id:garbage/*"],
            [
                "assume:hook-id:garbage/*",
                "assume:hooks-of:garbage/*",
                "daily",
                "everyone:hook-id:garbage/*",
                "everyone:hooks-of:garbage/*",
                "index:garbage/*",
            ],
        ),
        (["*"], ["*"]),
    ],
)
def test_scopes_are_expanded_by_roles(held: list[str], expanded: list[str]) -> None:
    assert list(ROLES.expand(held)) == expanded


@pytest.mark.parametrize("held", ["assume:*", "assume*", "as*"])
def test_a_star_before_the_role_id_assumes_every_role(held: str) -> None:
    expanded = ROLES.expand([held])
    assert "deploy" in expanded
    assert "daily" in expanded
    # The parameter of a role that the star covers is any text: what follows it is cut off.
    assert "everyone:whatever" in expanded
    assert "queue:create-task:x" not in expanded


def test_a_role_without_star_is_no_prefix() -> None:
    assert list(Roles({"ab": ["x"]}).expand(["assume:abc"])) == ["assume:abc"]
    assert list(Roles({"ab*": ["x:<..>"]}).expand(["assume:ab"])) == ["assume:ab", "x:"]


def test_a_prefix_role_under_a_shorter_and_a_longer_star() -> None:
    roles = Roles({"ab*": ["x:<..>:end"]})
    assert list(roles.expand(["assume:a*"])) == ["assume:a*", "x:*"]
    assert list(roles.expand(["assume:ab*"])) == ["assume:ab*", "x:*"]
    assert list(roles.expand(["assume:abc*"])) == ["assume:abc*", "x:c*"]
    assert list(roles.expand(["assume:abc"])) == ["assume:abc", "x:c:end"]


def test_an_expansion_that_grows_for_ever_is_refused() -> None:
    roles = Roles({"a*": ["assume:ab<..>"], "b": ["assume:c"], "c": ["assume:b", "d"]})
    assert "d" in roles.expand(["assume:b"])
    with pytest.raises(ExpansionTooLarge):
        roles.expand(["assume:a"])


def ladder(levels: int) -> dict[str, list[str]]:
    """Returns roles whose expansion doubles with each level."""
    return {f"p/r{n}/*": [f"assume:p/r{n + 1}/<..>{end}" for end in "ab"] for n in range(levels)}


def test_no_more_is_looked_at_than_the_limit_allows() -> None:
    class Counted(ExpansionWork):
        looked_at = 0

        def spend(self, steps: int, text: int) -> None:
            super().spend(steps, text)
            Counted.looked_at += steps

    with pytest.raises(ExpansionTooLarge):
        Roles(ladder(60)).expand_afresh(frozenset(["assume:p/r0/x"]), Counted())
    assert Counted.looked_at <= expansion.MAX_STEPS
