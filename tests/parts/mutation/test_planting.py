"""`./dev mutate` says whether tests catch a kept bug."""

from __future__ import annotations

import re

import pytest

from tools.local import planting


def test_all_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert planting.main(None, every=False, engines=False, tests=()) == 0
    assert capsys.readouterr().out.count("\n") == len(planting.named(""))


@pytest.mark.parametrize(("words", "engines"), [("no such bug", False), ("the ", False), ("the gauges never", True)])
def test_words_for_no_bug_or_several_are_refused(words: str, engines: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert planting.main(words, every=False, engines=engines, tests=()) == planting.UNKNOWN
    assert "bugs have" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tests", "is_caught"), [("tests/parts/unit/test_claim_rules.py", True), ("tests/parts/unit/test_dates.py", False)]
)
def test_tests_that_catch_a_bug_and_tests_that_do_not(
    tests: str, is_caught: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "a claim is announced again for half the time"
    code = planting.main(words, every=False, engines=False, tests=(tests,))
    assert (code == 0) == is_caught
    assert ("not caught" in capsys.readouterr().out) != is_caught


@pytest.mark.large
@pytest.mark.timeout(7200)
def test_the_engines_catch_nearly_all_bugs_of_order_age_and_condition(capfd: pytest.CaptureFixture[str]) -> None:
    planting.main("", every=True, engines=True, tests=())
    caught = re.findall(r"^(?:order|age|condition): (\d+) of (\d+) are caught$", capfd.readouterr().out, re.MULTILINE)
    assert len(caught) == 3
    assert sum(int(number) for number, _ in caught) >= sum(int(total) for _, total in caught) - 4
