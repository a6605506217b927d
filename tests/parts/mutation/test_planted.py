"""The bugs that are planted by hand: the list is as the code is now, and the plugin tells what is caught."""

from __future__ import annotations

from collections import Counter

from tests.parts.mutation.planted import BUGS
from tools.local.state import ROOT


def test_each_kind_has_its_bugs() -> None:
    kinds = Counter(bug.kind for bug in BUGS)
    assert kinds.keys() == {"order", "age", "condition", "ranges", "figure"}
    assert min(kinds.values()) >= 7
    assert kinds.total() >= 60
    assert len({(bug.file, bug.old, bug.new) for bug in BUGS}) == len(BUGS)


def test_a_bug_can_be_planted() -> None:
    for bug in BUGS:
        places = (ROOT / bug.file).read_text().count(bug.old)
        assert places == 1, f"{bug.name}: nothing to replace, or two places: adapt the bug"
        assert bug.function, bug.name
        compile(bug.source.replace(bug.old, bug.new), bug.file, "exec")
