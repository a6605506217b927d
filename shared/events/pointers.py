"""Pointers to events that could not be sent, as they lie in the `events` queue (design 2.5).

A pointer names the event and carries what the status row forgets. It is read only by what wrote it, so anything that
does not come back exactly as it was written is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.domain.dates import format_date, parse_date
from shared.domain.events import ArtifactEvent, Event, Exchange, GroupEvent, TaskEvent

_VERSION = 1


def to_json(event: Event) -> str:
    """The pointer to an event."""
    body = {"version": _VERSION, "exchange": event.exchange.value, **_fields(event)}
    return _text({**body, "digest": _digest(body)})


def from_json(text: str) -> Event:
    """The event of a pointer. Raises ValueError for anything that `to_json` did not write."""
    try:
        body = json.loads(text)
        event = _group_event(body) if "taskGroupId" in body else _task_event(body)
        same = to_json(event) == text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("not a pointer to an event") from error
    if not same:
        raise ValueError("not a pointer to an event as it was written")
    return event


def _fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any]
    if isinstance(event, GroupEvent):
        fields = {
            "taskGroupId": event.task_group_id,
            "schedulerId": event.scheduler_id,
            "occasion": event.occasion,
            "expires": _written(event.expires),
            "sealed": _written(event.sealed),
            "newPriority": event.new_priority,
            "tasksAffected": event.tasks_affected,
        }
    else:
        fields = {
            "taskId": event.task_id,
            "runId": event.run_id,
            "retriesLeft": event.retries_left,
            "takenUntil": _written(event.taken_until),
            "hasWorker": event.has_worker,
            "artifact": None if event.artifact is None else _artifact_fields(event.artifact),
            "oldPriority": event.old_priority,
            "newPriority": event.new_priority,
            "sequence": event.sequence,
        }
    return {name: value for name, value in fields.items() if value is not None}


def _artifact_fields(artifact: ArtifactEvent) -> dict[str, Any]:
    return {
        "storageType": artifact.storage_type,
        "name": artifact.name,
        "expires": format_date(artifact.expires),
        "contentType": artifact.content_type,
    }


def _task_event(body: Mapping[str, Any]) -> TaskEvent:
    return TaskEvent(
        exchange=Exchange(body["exchange"]),
        task_id=body["taskId"],
        run_id=body.get("runId"),
        retries_left=body["retriesLeft"],
        taken_until=_read(body.get("takenUntil")),
        has_worker=body["hasWorker"],
        artifact=_artifact(body["artifact"]) if "artifact" in body else None,
        old_priority=body.get("oldPriority"),
        new_priority=body.get("newPriority"),
        sequence=body.get("sequence"),
    )


def _artifact(body: Mapping[str, Any]) -> ArtifactEvent:
    return ArtifactEvent(
        storage_type=body["storageType"],
        name=body["name"],
        expires=parse_date(body["expires"]),
        content_type=body["contentType"],
    )


def _group_event(body: Mapping[str, Any]) -> GroupEvent:
    return GroupEvent(
        exchange=Exchange(body["exchange"]),
        task_group_id=body["taskGroupId"],
        scheduler_id=body["schedulerId"],
        occasion=body["occasion"],
        expires=_read(body.get("expires")),
        sealed=_read(body.get("sealed")),
        new_priority=body.get("newPriority"),
        tasks_affected=body.get("tasksAffected"),
    )


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else format_date(moment)


def _read(text: str | None) -> datetime | None:
    return None if text is None else parse_date(text)


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _digest(body: Mapping[str, Any]) -> str:
    """Notices a changed value; it is no defence against an attacker, who has no access to the queue."""
    return hashlib.sha256(_text(body).encode()).hexdigest()[:16]
