"""Definitions: completion, equality, and the rules for a new task (contract 3)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.dates import format_date
from shared.base.errors import InputError, RequestConflict
from shared.queue.events.rules import MAX_ROUTES
from shared.queue.tasks.definition import (
    MAX_DEPENDENCIES,
    check_definition,
    initial_task,
    refuse_dependencies,
    refuse_other_definition,
    same_json,
    satisfied_by,
    satisfies,
)
from shared.queue.tasks.endpoints import complete_definition
from shared.queue.tasks.models import CreateTaskRequest
from shared.queue.tasks.rules import Created, MessageHandles, Resolved, Run, State
from shared.queue.tasks.transitions import with_first_run
from tests.parts.unit.tasks import ID, NOW, OTHER, SECOND, a_definition, a_task, pending_run, resolved_run

MAX_DEADLINE = timedelta(days=5)
THIRD = "CAAAAAAAQACAAAAAAAAAAA"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def reordered(value: Any) -> Any:
    """Returns the same JSON, its keys in another order, and its whole numbers in the other notation."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reordered(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@given(JSON)
def test_equal_json(value: Any) -> None:
    assert same_json(value, deepcopy(value))
    assert same_json(value, reordered(value))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (False, None, False),
        ("1", 1, False),
        ([], {}, False),
        ([1, 2], [2, 1], False),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("é", "e\u0301", False),
        (None, None, True),
        (2**53 + 2, 2**53, False),
        (10**21, 1e21, True),
        (5400, 5400.0, True),
    ],
)
def test_json_by_example(left: Any, right: Any, same: bool) -> None:
    assert same_json(left, right) is same


def a_request(**changes: Any) -> CreateTaskRequest:
    body = {
        "taskQueueId": "a/b",
        "created": format_date(NOW),
        "deadline": "2028-02-29T10:00:00Z",
        "payload": {},
        "metadata": {"name": "", "description": "", "owner": "", "source": "https://example.com"},
        **changes,
    }
    return CreateTaskRequest.model_validate({name: value for name, value in body.items() if value is not None})


def test_a_definition_is_completed_with_defaults() -> None:
    definition = complete_definition(ID, a_request())
    assert definition.body["taskGroupId"] == ID
    assert (definition.body["provisionerId"], definition.body["workerType"]) == ("a", "b")
    assert definition.body["expires"] == "2029-03-01T10:00:00.000Z"
    assert None not in definition.body.values()
    assert definition.retries == 5
    assert definition.priority == "lowest"


@pytest.mark.parametrize(
    "halves",
    [
        {"taskQueueId": None, "provisionerId": "a", "workerType": "b"},
        {"provisionerId": "a", "workerType": "b"},
        {"provisionerId": "x"},
        {"workerType": "x"},
    ],
)
def test_a_task_queue_by_its_halves_is_the_same_definition(halves: Mapping[str, str | None]) -> None:
    assert complete_definition(ID, a_request(**halves)) == complete_definition(ID, a_request())


@pytest.mark.parametrize(
    "halves",
    [{"taskQueueId": None}, {"taskQueueId": None, "workerType": "b"}, {"provisionerId": "a", "workerType": "x"}],
)
def test_a_task_queue_that_contradicts_itself(halves: Mapping[str, str | None]) -> None:
    with pytest.raises(InputError):
        complete_definition(ID, a_request(**halves))


def dates(**moments: timedelta) -> dict[str, str]:
    return {name: format_date(NOW + offset) for name, offset in moments.items()}


QUARTER = timedelta(minutes=15)
TICK = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ({"created": -QUARTER}, {"created": -QUARTER - TICK}),
        ({"created": QUARTER}, {"created": QUARTER + TICK}),
        ({"created": QUARTER, "deadline": QUARTER}, {"created": QUARTER, "deadline": QUARTER - TICK}),
        ({"created": -SECOND, "deadline": 0 * TICK}, {"created": -SECOND, "deadline": -TICK}),
        (
            {"deadline": MAX_DEADLINE + QUARTER, "expires": timedelta(days=9)},
            {"deadline": MAX_DEADLINE + QUARTER + TICK, "expires": timedelta(days=9)},
        ),
        ({"deadline": SECOND, "expires": SECOND}, {"deadline": SECOND, "expires": SECOND - TICK}),
    ],
)
def test_date_rules_to_the_millisecond(within: dict[str, timedelta], beyond: dict[str, timedelta]) -> None:
    check_definition(a_definition(**dates(**within)), NOW, MAX_DEADLINE)
    with pytest.raises(InputError):
        check_definition(a_definition(**dates(**beyond)), NOW, MAX_DEADLINE)


def test_routes_that_cannot_be_announced_are_refused_with_the_reason() -> None:
    check_definition(a_definition(routes=["index.a"] * MAX_ROUTES), NOW, MAX_DEADLINE)
    with pytest.raises(InputError, match=f"{MAX_ROUTES} routes"):
        check_definition(a_definition(routes=["index.a"] * (MAX_ROUTES + 1)), NOW, MAX_DEADLINE)


def test_a_new_task_has_a_run_only_if_it_waits_for_nothing() -> None:
    task = initial_task(a_definition(retries=2, dependencies=[OTHER, THIRD]))
    assert task == a_task(retries=2, retries_left=2, dependencies=2, handles=MessageHandles())
    assert task.state is State.UNSCHEDULED
    assert not task.is_free
    first = with_first_run(initial_task(a_definition()), NOW, "hint")
    assert first.runs == (Run(state=State.PENDING, reason_created=Created.SCHEDULED, scheduled=NOW, generation=0),)
    assert first.hint_id == "hint"


@pytest.mark.parametrize(
    ("requires", "state", "satisfied"),
    [
        *(("all-completed", state, state is State.COMPLETED) for state in State),
        *(("all-resolved", state, state in {State.COMPLETED, State.FAILED, State.EXCEPTION}) for state in State),
    ],
)
def test_what_satisfies(requires: str, state: State, satisfied: bool) -> None:
    assert satisfies(a_definition(requires=requires), state) is satisfied


def test_dependencies_are_judged_as_found() -> None:
    definition = a_definition(dependencies=[OTHER, ID, THIRD])
    states = {OTHER: State.COMPLETED, THIRD: State.RUNNING}
    assert satisfied_by(definition, states) == 0b001
    failed = {OTHER: State.FAILED}
    assert satisfied_by(definition, failed) == 0
    either = a_definition(dependencies=[OTHER, ID, THIRD], requires="all-resolved")
    assert satisfied_by(either, failed) == 0b001
    assert satisfied_by(either, {"another": State.COMPLETED}) == 0, "it does not wait for that one"
    states[THIRD] = State.COMPLETED
    task = replace(initial_task(definition), satisfied=satisfied_by(definition, states))
    assert task.satisfied == 0b101
    assert not task.is_free, "it waits for itself"


def test_missing_and_early_dependencies() -> None:
    definition = a_definition(dependencies=[OTHER, THIRD])
    fine = a_task(pending_run(), expires=definition.deadline)
    early = replace(fine, expires=definition.deadline - TICK)
    refuse_dependencies(definition, {OTHER: fine, THIRD: fine})
    for found in ({OTHER: fine, THIRD: None}, {OTHER: fine, THIRD: early}):
        with pytest.raises(InputError, match=THIRD):
            refuse_dependencies(definition, found)


def test_the_same_definition_again() -> None:
    stored = a_definition(payload={"a": 1}, tags={"x": "y"})
    task = a_task(resolved_run(Resolved.FAILED), pending_run(), retries_left=0)
    refuse_other_definition(a_definition(payload={"a": 1.0}, tags={"x": "y"}), stored, task)
    with pytest.raises(RequestConflict, match=r"these differ: payload$"):
        refuse_other_definition(a_definition(payload={"a": True}, tags={"x": "y"}), stored, task)
    moved = replace(task, priority="high")
    with pytest.raises(RequestConflict, match=r"these differ: priority$"):
        refuse_other_definition(stored, stored, moved)
    refuse_other_definition(a_definition(payload={"a": 1}, tags={"x": "y"}, priority="high"), stored, moved)


def test_dependencies_beyond_the_limit_are_refused() -> None:
    """A task with more dependencies than the limit is refused with InputError, by the domain and not by the schema."""
    names = [f"{number:05d}AAAQACAAAAAAAAAAA" for number in range(MAX_DEPENDENCIES + 1)]
    check_definition(a_definition(dependencies=names[:-1], **dates()), NOW, MAX_DEADLINE)
    with pytest.raises(InputError, match="10001 tasks"):
        check_definition(a_definition(dependencies=names, **dates()), NOW, MAX_DEADLINE)
    CreateTaskRequest.model_validate({**a_definition(**dates()).body, "dependencies": names})
