"""Dataclasses that are frozen for the type checker alone are values all the same."""

from __future__ import annotations

import dataclasses

from shared.base.frozen import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Slotted:
    """As most of the domain's."""

    name: str
    size: int = 1
    note: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class Plain:
    """With a `__dict__`."""

    name: str


def test_equal_values_have_one_hash() -> None:
    assert Slotted(name="a") == Slotted(name="a", note="other")
    assert {Slotted(name="a"), Slotted(name="a", note="other"), Slotted(name="a", size=2)} == {
        Slotted(name="a"),
        Slotted(name="a", size=2),
    }
    assert hash(Plain("a")) == hash(Plain("a"))
    assert Plain("a") != Plain("b")


def test_the_type_checker_refuses_assignments() -> None:
    """mypy reports a suppression that it does not need: each of these lines fails its run once it allows them."""
    one, other = Slotted(name="a"), Plain("a")
    one.name = "b"  # type: ignore[misc]
    other.name = "b"  # type: ignore[misc]
    assert (one, other) == (Slotted(name="b"), Plain("b")), "nothing looks again at run time"
