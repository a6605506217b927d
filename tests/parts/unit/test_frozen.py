"""Dataclasses that are frozen for the type checker alone are values all the same."""

from __future__ import annotations

import dataclasses

import pytest

from shared.base.frozen import dataclass, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Slotted:
    """A class with slots, as most of the domain's are."""

    name: str
    size: int = 1
    note: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class Plain:
    """A class with a `__dict__`."""

    name: str


@dataclass(frozen=True)
class Checked:
    """A class that not every value is valid for."""

    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("it has no name")


def test_equal_values_have_one_hash() -> None:
    assert Slotted(name="a") == Slotted(name="a", note="other")
    assert {Slotted(name="a"), Slotted(name="a", note="other"), Slotted(name="a", size=2)} == {
        Slotted(name="a"),
        Slotted(name="a", size=2),
    }
    assert hash(Plain("a")) == hash(Plain("a"))
    assert Plain("a") != Plain("b")


def test_a_copy_with_changes_leaves_the_value_as_it_was() -> None:
    one = Slotted(name="a")
    assert replace(one, size=3, note="b") == dataclasses.replace(one, size=3) == Slotted(name="a", size=3)
    assert replace(Plain("a"), name="b") == Plain("b")
    assert (one.size, one.note) == (1, "")


def test_a_copy_checks_what_making_one_checks() -> None:
    with pytest.raises(ValueError, match="has no name"):
        replace(Checked("a"), name="")


def test_the_type_checker_refuses_assignments() -> None:
    """The type checker refuses assignments to fields: otherwise mypy reports an unneeded suppression here."""
    one, other = Slotted(name="a"), Plain("a")
    one.name = "b"  # type: ignore[misc]
    other.name = "b"  # type: ignore[misc]
    assert (one, other) == (Slotted(name="b"), Plain("b")), "nothing looks again at run time"
