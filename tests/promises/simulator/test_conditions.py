"""Each refusal and each filter is tested with the wrong group, run, task queue, generation, worker or claim. The kept
text says what each call and handler answers in each state of a task. What is misplaced in storage changes nothing for
anybody, however old it is when somebody comes to it."""

from __future__ import annotations

import pytest

from tests.promises.simulator import answers, fates
from tests.promises.simulator.answers import kept
from tests.promises.simulator.fates import HOW, is_message, lived, undisturbed
from tests.promises.simulator.misplaced import MISPLACED
from tests.promises.simulator.states import CALLS


@pytest.mark.parametrize("name", CALLS)
def test_what_each_call_answers_in_each_state(name: str) -> None:
    wanted = kept(answers.KEPT)
    assert answers.of_call(name) == wanted[name], "if meant: .venv/bin/python -m tests.promises.simulator.answers"
    assert [*wanted] == [*CALLS]


@pytest.mark.parametrize("name", MISPLACED)
def test_what_is_misplaced_changes_nothing(name: str) -> None:
    for how in HOW:
        assert lived(name, how).shown == undisturbed(how, is_message(name)).shown, how
    if name in fates.NAMES:
        wanted = kept(fates.KEPT)
        assert fates.of_row(name) == wanted[name], "if meant: .venv/bin/python -m tests.promises.simulator.fates"
        assert [*wanted] == fates.NAMES


@pytest.mark.parametrize("how", HOW)
def test_short_pages_change_nothing(how: str) -> None:
    """Pages that end after any row change nothing, except that expiration takes more runs of the job."""
    *shown, _ = lived("", how, are_short=True).shown
    assert shown == undisturbed(how).shown[:-1]
