"""The state machine by example, where no call and no random life comes: tests/promises/simulator/answers.txt has what
calls make of each state, and tests/parts/properties/test_state_machine.py a model of all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from shared.queue.tasks import transitions
from tests.parts.unit.tasks import NOW, a_task, running_run


def test_a_dependent_that_has_waited_for_hours_is_announced_by_its_own_message_alone() -> None:
    waiting, later = replace(a_task(), dependencies=1), NOW + timedelta(hours=1)
    pending = transitions.satisfy(waiting, NOW, "new", 0b1, NOW).task
    assert pending is not None
    for now, at_deadline, announcements in (
        (later, False, 1),
        (later, True, 0),
        (later - timedelta(seconds=1), True, 1),
    ):
        again = transitions.satisfy(pending, now, "newer", 0b1, NOW, at_deadline=at_deadline)
        assert (again.task, len(again.events)) == (None, announcements)


def test_the_member_row_of_a_running_task_shows_no_priority() -> None:
    """Nobody waits for a running task: a call on a group of thousands writes nothing more of it."""
    assert transitions.set_priority(a_task(running_run()), "high", NOW, "new", 3).after == ()
    assert transitions.set_priority(a_task(), "high", NOW, "new", 3).after != ()
