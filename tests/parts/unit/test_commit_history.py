"""The ids of commits in a status row: what they prove about a commit whose answer was lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.queue.tasks.rules import MAX_OPERATIONS_KEPT, Task
from tests.parts.unit.tasks import a_task, pending_run


def _followed(task: Task, commits: int) -> Task:
    for number in range(commits):
        task = replace(task, priority="high").after_commit(task, f"other-{number}")
    return task


@pytest.mark.parametrize("others", range(MAX_OPERATIONS_KEPT))
def test_a_commit_that_happened_is_proven_while_it_is_remembered(others: int) -> None:
    created = a_task(pending_run()).after_commit(None, "creation")
    attempt = created.after_commit(created, "attempt")
    assert _followed(attempt, others).includes(attempt) is True


@pytest.mark.parametrize("others", range(MAX_OPERATIONS_KEPT + 1))
def test_a_commit_that_did_not_happen_is_disproven_while_its_place_is_remembered(others: int) -> None:
    created = a_task(pending_run()).after_commit(None, "creation")
    attempt = created.after_commit(created, "attempt")
    assert _followed(created, others).includes(attempt) is False


def test_what_is_forgotten_is_in_doubt() -> None:
    created = a_task(pending_run()).after_commit(None, "creation")
    attempt = created.after_commit(created, "attempt")
    assert _followed(attempt, MAX_OPERATIONS_KEPT).includes(attempt) is None
    assert _followed(created, MAX_OPERATIONS_KEPT + 1).includes(attempt) is None


def test_an_older_life_of_the_same_id_is_in_doubt() -> None:
    """A commit is in doubt if the task was deleted and created again since it was read."""
    read = _followed(a_task(pending_run()).after_commit(None, "creation"), 5)
    attempt = read.after_commit(read, "attempt")
    assert a_task(pending_run()).after_commit(None, "new").includes(attempt) is None


def test_a_creation_is_proven_like_any_commit() -> None:
    created = a_task(pending_run()).after_commit(None, "creation")
    assert _followed(created, 3).includes(created) is True
    assert a_task(pending_run()).after_commit(None, "another").includes(created) is False


def test_the_creation_of_a_task_is_commit_0_whatever_it_was_made_of() -> None:
    assert a_task(pending_run(), sequence=7).after_commit(None, "creation").sequence == 0
