"""Pointers come back as they were written, or not at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.events import ArtifactEvent, Event, Exchange, GroupEvent, TaskEvent
from shared.domain.priority import PRIORITIES
from shared.events.pointers import from_json, to_json
from tests.events.builders import GROUP_ID, TASK_ID, Life, group_event

moments = st.integers(0, 4_000_000_000_000).map(lambda ms: datetime.fromtimestamp(ms // 1000, UTC))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
artifacts = st.builds(ArtifactEvent, storage_type=texts, name=texts, expires=moments, content_type=texts)
task_events = st.builds(
    TaskEvent,
    exchange=st.sampled_from(Exchange),
    task_id=st.just(TASK_ID),
    run_id=st.none() | st.integers(0, 49),
    retries_left=st.integers(0, 49),
    taken_until=st.none() | moments,
    has_worker=st.booleans(),
    artifact=st.none() | artifacts,
    old_priority=st.none() | st.sampled_from(PRIORITIES),
    new_priority=st.none() | st.sampled_from(PRIORITIES),
    sequence=st.none() | st.integers(0, 10_000),
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


@given(events, st.data())
def test_a_changed_character_is_noticed(event: Event, data: st.DataObject) -> None:
    text = to_json(event)
    position = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda c: c != text[position]))
    with pytest.raises(ValueError, match="pointer"):
        from_json(text[:position] + character + text[position + 1 :])


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers(), st.lists).map(json.dumps))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="pointer"):
        from_json(text)


def test_a_changed_value_is_noticed_even_if_it_is_well_formed() -> None:
    (message,) = Life.begin().schedule()
    body = json.loads(to_json(message.event))
    for name in body:
        values: tuple[object, ...] = (None, True, 1, 1.0, "x", [], {})
        for value in values:
            changed = json.dumps({**body, name: value}, separators=(",", ":"))
            if changed != to_json(message.event):
                with pytest.raises(ValueError, match="pointer"):
                    from_json(changed)
    for changed in (json.dumps(body), json.dumps({**body, "more": 1}, separators=(",", ":")), "[" * 100_000):
        with pytest.raises(ValueError, match="pointer"):
            from_json(changed)


def test_a_pointer_is_small() -> None:
    assert len(to_json(group_event(Exchange.TASK_GROUP_RESOLVED))) < 500
