"""What a process remembers stays bounded."""

from __future__ import annotations

from shared.recent import Recent


def test_the_entry_that_was_set_least_recently_goes_first() -> None:
    recent: Recent[str, int] = Recent(2)
    recent["a"] = 1
    recent["b"] = 2
    recent["a"] = 3
    recent["c"] = 4
    assert (recent.get("a"), recent.get("b"), recent.get("c"), len(recent)) == (3, None, 4, 2)


def test_forgetting_an_entry_makes_room() -> None:
    recent: Recent[str, int] = Recent(2)
    recent["a"] = 1
    recent["b"] = 2
    assert recent.pop("a") == 1
    assert recent.pop("a") is None
    recent["c"] = 3
    assert (recent.get("b"), recent.get("c")) == (2, 3)
