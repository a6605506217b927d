"""Pointers to events that could not be sent, as they lie in the `events` queue (design 2.5).

A pointer names the event and carries what the status row forgets."""

from __future__ import annotations

import json
from typing import Any

from shared.queue.events.rules import ArtifactEvent, Event, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.store.columns import Columns
from shared.store.interface import StorageUnavailable


def to_json(event: Event) -> str:
    """Returns the pointer to an event."""
    if isinstance(event, GroupEvent):
        return json.dumps(_GROUP.encode(event), separators=(",", ":"))
    fields: dict[str, Any] = {**_TASK.encode(event)}
    if event.artifact is not None:
        fields["artifact"] = _ARTIFACT.encode(event.artifact)
    if event.snapshot is not None:
        fields["then"] = _SNAPSHOT.encode(event.snapshot)
    return json.dumps(fields, separators=(",", ":"))


def from_json(text: str) -> Event:
    """Returns the event of a pointer. Raises MalformedMessage for what `to_json` has not written."""
    try:
        body = json.loads(text)
        if "taskGroupId" in body:
            return _GROUP.decode(body)
        artifact = _ARTIFACT.decode(body["artifact"]) if "artifact" in body else None
        snapshot = _SNAPSHOT.decode(body["then"]) if "then" in body else None
        return _TASK.decode(body, artifact=artifact, snapshot=snapshot)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, StorageUnavailable) as error:
        raise MalformedMessage("not a pointer to an event") from error


_TASK = Columns(TaskEvent, without={"artifact", "snapshot"})
_ARTIFACT = Columns(ArtifactEvent)
_SNAPSHOT = Columns(Snapshot)
_GROUP = Columns(GroupEvent)
