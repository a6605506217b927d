"""Each refusal and each filter is tested with the wrong group, run, task queue, generation, worker or claim. The kept
text says what each call and handler answers in each state of a task. What is misplaced in storage changes nothing for
anybody, however old it is when somebody comes to it."""

from __future__ import annotations

import pytest

from tests.promises.simulator import answers, fates
from tests.promises.simulator.fates import HOW, is_message, lived, undisturbed
from tests.promises.simulator.misplaced import MISPLACED


def test_what_each_call_answers_in_each_state() -> None:
    assert answers.text() == answers.KEPT.read_text(), "if meant: .venv/bin/python -m tests.promises.simulator.answers"


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", MISPLACED)
def test_what_is_misplaced_changes_nothing(name: str, how: str) -> None:
    assert lived(name, how).shown == undisturbed(how, is_message(name)).shown


@pytest.mark.parametrize("how", HOW)
def test_short_pages_change_nothing(how: str) -> None:
    """Pages that end after any row change nothing, except that expiration takes more runs of the job."""
    *shown, _ = lived("", how, are_short=True).shown
    assert shown == undisturbed(how).shown[:-1]


def test_what_becomes_of_what_is_misplaced() -> None:
    assert fates.text() == fates.KEPT.read_text(), "if meant: .venv/bin/python -m tests.promises.simulator.fates"
