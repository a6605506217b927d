"""Pointers: read back as they were written; damaged ones are refused, those of other versions stay for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.priority import PRIORITIES
from shared.queue.events.pointers import OtherVersion, from_json, to_json
from shared.queue.events.rules import ArtifactEvent, Event, Exchange, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.rules import State
from tests.events.builders import GROUP_ID, TASK_ID, Life, group_event

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
    life = Life.begin()
    life.schedule()
    for event in (group_event(Exchange.TASK_GROUP_RESOLVED), *(message.event for message in life.claim())):
        assert len(to_json(event)) < 500


def by_another_version(event: Event, change: Callable[[dict[str, Any]], None]) -> str:
    """The event's pointer as code would have written it that makes other fields."""
    body = json.loads(to_json(event))
    del body["digest"]
    change(body)
    text = json.dumps(body, separators=(",", ":"))
    body["digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return json.dumps(body, separators=(",", ":"))


@given(events, st.sampled_from(["", "artifact", "then"]))
def test_a_pointer_with_unknown_fields_is_left_to_the_version_that_knows_them(event: Event, inside: str) -> None:
    def add(body: dict[str, Any]) -> None:
        body.get(inside, body)["comesLater"] = 1

    text = by_another_version(event, add)
    with pytest.raises(OtherVersion, match="comesLater"):
        from_json(text)
    assert from_json(text, ignore_unknown=True) == event


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(version=2),
        lambda body: body.update(exchange="task-comes-later"),
        lambda body: body.pop("retriesLeft"),
        lambda body: body["then"].pop("state"),
        lambda body: body["then"].update(state="comes-later"),
        lambda body: body.update(then=1),
    ],
)
def test_a_pointer_that_only_another_version_can_read_is_left_to_it(change: Callable[[dict[str, Any]], None]) -> None:
    (message,) = Life.begin().schedule()
    text = by_another_version(message.event, change)
    for ignore_unknown in (False, True):
        with pytest.raises(OtherVersion):
            from_json(text, ignore_unknown=ignore_unknown)
