"""Whatever a task may do, its rows fit: what is accepted can be stored, with room to spare."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.base.errors import InputError, RequestConflict
from shared.base.ids import digest_of
from shared.queue.artifacts import rows as stored
from shared.queue.artifacts import rules
from shared.queue.artifacts.rules import Artifact, StorageType
from shared.queue.claims import rules as claims
from shared.queue.tasks import transitions
from shared.queue.tasks.codec import encode_task
from shared.queue.tasks.definition import MAX_DEPENDENCIES
from shared.queue.tasks.rules import (
    MAX_OPERATIONS_KEPT,
    MAX_RUNS,
    MessageHandle,
    MessageHandles,
    Resolved,
    State,
    Task,
    Worker,
)
from shared.store import limits
from shared.store.interface import Value
from tests.parts.unit.tasks import NOW, SECOND, a_task, pending_run
from tests.selection import examples

ROOM = 0.9
"""The largest share of the limits of a property or a row that a task's own row may take."""
LONGEST_ID = "w" * 38
WORKER = Worker(worker_group=LONGEST_ID, worker_id=LONGEST_ID)
DIGESTS = tuple(digest_of(str(number)) for number in range(rules.MAX_UNFINISHED))
HANDLE = MessageHandle(queue="q" * 63, message_id="m" * 36, pop_receipt="r" * 100)


def _fits(task: Task) -> None:
    values = encode_task(task)
    limits.check_values(task.task_id, "task.status", values)
    size = limits.entity_size(task.task_id, "task.status", values)
    assert size <= ROOM * limits.MAX_ENTITY
    assert max(map(_length, values.values())) <= ROOM * limits.MAX_TEXT


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 8


def _largest() -> Task:
    """Returns a task that is pending for the first time, with everything as long as the schemas allow."""
    return a_task(
        pending_run(),
        task_queue_id=f"{LONGEST_ID}/{LONGEST_ID}",
        scheduler_id=LONGEST_ID,
        project_id="p" * 500,
        retries=MAX_RUNS - 1,
        retries_left=MAX_RUNS - 1,
        dependencies=MAX_DEPENDENCIES,
        satisfied=(1 << MAX_DEPENDENCIES) - 1,
        handles=MessageHandles(pending=HANDLE, claim=HANDLE, deadline=HANDLE),
        operations=("o" * 22,) * MAX_OPERATIONS_KEPT,
    )


def _claimed(task: Task) -> Task:
    """Returns the task as running, with as many uploads under way as a run may have."""
    after = claims.claim(task, WORKER, HANDLE, NOW + timedelta(minutes=20), NOW).task
    assert after is not None
    run = replace(after.last_run, by_claim_task=True, unfinished=DIGESTS)
    rules.check_unfinished(run)
    return after.with_run(after.last_run_id, run)


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(st.sampled_from(list(Resolved)), min_size=MAX_RUNS, max_size=MAX_RUNS))
def test_status_row_of_the_busiest_task_fits(reasons: list[Resolved]) -> None:
    """The status row fits of a task with the most runs, each with the most unfinished uploads."""
    task = _largest()
    for reason in reasons:
        task = _claimed(task)
        _fits(task)
        after = transitions.interrupt(task, task.last_run_id, reason, NOW + SECOND, "spare").task
        assert after is not None
        _fits(after)
        if after.state is not State.PENDING:
            try:
                reopened = transitions.rerun(after, NOW + SECOND, "h" * 22).task
            except RequestConflict:
                assert len(after.runs) == MAX_RUNS
                break
            assert reopened is not None
            after = reopened
        task = after
    assert len(task.runs) == MAX_RUNS


@pytest.mark.parametrize("more", [0, 1])
def test_unfinished_uploads_of_a_run_are_limited(more: int) -> None:
    run = replace(_claimed(_largest()).last_run, unfinished=(*DIGESTS, *["more"] * more))
    if more:
        with pytest.raises(RequestConflict):
            rules.check_unfinished(run)
    else:
        rules.check_unfinished(run)


LENGTHS = st.sampled_from([0, 1, 1000, 5000, 7500, 14_999, 15_000, 15_001])
PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
"""The characters that names may have by the schema."""
CHARACTERS = st.sampled_from(["x", '"', "\\", "\n", "\x00", "\x7f", "é", "\u2028", "\ud800", "\U0001f600"])


@settings(deadline=None, max_examples=examples(300))
@given(
    name=st.text(PRINTABLE, min_size=1, max_size=1024) | st.sampled_from(PRINTABLE).map(lambda each: each * 1024),
    characters=st.lists(CHARACTERS, min_size=1, max_size=3),
    lengths=st.lists(LENGTHS, min_size=1, max_size=3),
    content_type=st.text(max_size=255) | CHARACTERS.map(lambda character: character * 255),
)
def test_artifact_that_is_accepted_can_be_stored(
    name: str, characters: list[str], lengths: list[int], content_type: str
) -> None:
    """Every artifact that is accepted can be stored, also if its characters take more space in JSON or UTF-16."""
    details = {
        f"d{n}": character * length for n, (character, length) in enumerate(zip(characters, lengths, strict=False))
    }
    artifact = Artifact(
        name=name, storage_type=StorageType.ERROR, content_type=content_type, expires=NOW, details=details
    )
    try:
        rules.check_stored(artifact)
    except InputError:
        return
    operations = stored.operations_for(0, artifact, NOW, old=None)
    limits.check_transaction("partition", operations)
