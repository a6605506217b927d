"""Pointers are read back as they were written, and other texts are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.priority import PRIORITIES
from shared.queue.events.announcer import from_json, to_json
from shared.queue.events.rules import ArtifactEvent, Event, Exchange, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.rules import State
from tests.promises.events.builders import GROUP_ID, TASK_ID, Life, group_event

moments = st.integers(0, 4_000_000_000_000).map(lambda ms: datetime.fromtimestamp(ms // 1000, UTC))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
artifacts = st.builds(ArtifactEvent, storage_type=texts, name=texts, expires=moments, content_type=texts, version=texts)
snapshots = st.builds(
    Snapshot,
    priority=st.sampled_from(PRIORITIES),
    runs=st.integers(0, 50),
    state=st.sampled_from(State),
    taken_until=st.none() | moments,
)
task_events = st.builds(
    TaskEvent,
    exchange=st.sampled_from(Exchange),
    task_id=st.just(TASK_ID),
    run_id=st.none() | st.integers(0, 49),
    retries_left=st.integers(0, 49),
    has_worker=st.booleans(),
    artifact=st.none() | artifacts,
    old_priority=st.none() | st.sampled_from(PRIORITIES),
    new_priority=st.none() | st.sampled_from(PRIORITIES),
    sequence=st.none() | st.integers(0, 10_000),
    snapshot=st.none() | snapshots,
)
group_events = st.builds(
    GroupEvent,
    exchange=st.sampled_from(Exchange),
    task_group_id=st.just(GROUP_ID),
    scheduler_id=texts,
    occasion=texts,
    expires=st.none() | moments,
    sealed=st.none() | moments,
    new_priority=st.none() | st.sampled_from(PRIORITIES),
    tasks_affected=st.none() | st.integers(0, 10_000),
)
events = task_events | group_events


@given(events)
def test_round_trip(event: Event) -> None:
    assert from_json(to_json(event)) == event


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers(), st.lists).map(json.dumps))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="pointer"):
        from_json(text)


def test_what_lacks_a_field_is_refused() -> None:
    (message,) = Life.begin().schedule()
    body = json.loads(to_json(message.event))
    for name in ("exchange", "taskId"):
        text = json.dumps({key: value for key, value in body.items() if key != name})
        with pytest.raises(ValueError, match="pointer"):
            from_json(text)
    with pytest.raises(ValueError, match="pointer"):
        from_json("[" * 100_000)


def test_a_pointer_is_small() -> None:
    life = Life.begin()
    life.schedule()
    for event in (group_event(Exchange.TASK_GROUP_RESOLVED), *(message.event for message in life.claim())):
        assert len(to_json(event)) < 500
