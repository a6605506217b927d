"""Pointers to events that could not be sent, as they lie in the `events` queue (design 2.5).

A pointer names the event and carries what the status row forgets. While an app is upgraded or rolled back, two
versions of the code handle the same queue: a pointer that another version wrote, and that this one cannot read or
would not read whole, waits for that version. One that was damaged is refused at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from shared.base.dates import format_date, parse_date
from shared.base.errors import ServiceError
from shared.queue.events.rules import ArtifactEvent, Event, Exchange, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.queue.tasks.rules import State

_VERSION = 1
"""Version of the pointers that this code writes. Raise it when a field changes its meaning, or when readers need a new
one: older code then leaves the pointer for newer code.
"""

_DIGEST = "digest"


class OtherVersion(ServiceError):
    """A pointer is intact, and made by another version of this code."""


def to_json(event: Event) -> str:
    """The pointer to an event."""
    body = {"version": _VERSION, **_fields(event)}
    return _text({**body, _DIGEST: _digest(body)})


def from_json(text: str, *, ignore_unknown: bool = False) -> Event:
    """The event of a pointer.

    Raises MalformedMessage for what no version of `to_json` wrote, and OtherVersion for a pointer of a later version
    and for one that this code does not understand. One that it understands but for some more fields counts as of
    another version, too, unless `ignore_unknown`.
    """
    body = _intact(text)
    if body.get("version") != _VERSION:
        raise OtherVersion(f"the pointer has version {body.get('version')}; this code reads {_VERSION}")
    try:
        event = _group_event(body) if "taskGroupId" in body else _task_event(body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OtherVersion("the pointer has fields that this code cannot read") from error
    unknown = _unknown(body, {"version": _VERSION, **_fields(event)})
    if unknown and not ignore_unknown:
        raise OtherVersion(f"the pointer has fields that this code does not know: {', '.join(unknown)}")
    return event


def _intact(text: str) -> dict[str, Any]:
    """The pointer's fields if it is exactly as it was written. Raises MalformedMessage."""
    try:
        body = json.loads(text)
        digest = body.pop(_DIGEST)
        same = _digest(body) == digest and _text({**body, _DIGEST: digest}) == text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedMessage("not a pointer to an event") from error
    if not same:
        raise MalformedMessage("not a pointer to an event as it was written")
    return cast("dict[str, Any]", body)


def _unknown(body: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """The names of the pointer's fields that this version of the code did not read."""
    names = [name for name in body if name not in known]
    for name, value in known.items():
        if isinstance(value, Mapping):
            names += [f"{name}.{inner}" for inner in body[name] if inner not in value]
    return names


def _fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {"exchange": event.exchange.value}
    if isinstance(event, GroupEvent):
        fields |= {
            "taskGroupId": event.task_group_id,
            "schedulerId": event.scheduler_id,
            "occasion": event.occasion,
            "expires": _written(event.expires),
            "sealed": _written(event.sealed),
            "newPriority": event.new_priority,
            "tasksAffected": event.tasks_affected,
        }
    else:
        fields |= {
            "taskId": event.task_id,
            "runId": event.run_id,
            "retriesLeft": event.retries_left,
            "hasWorker": event.has_worker,
            "artifact": None if event.artifact is None else _artifact_fields(event.artifact),
            "oldPriority": event.old_priority,
            "newPriority": event.new_priority,
            "sequence": event.sequence,
            "life": event.life or None,
            "then": None if event.snapshot is None else _snapshot_fields(event.snapshot),
        }
    return _without_none(fields)


def _artifact_fields(artifact: ArtifactEvent) -> dict[str, Any]:
    return {
        "storageType": artifact.storage_type,
        "name": artifact.name,
        "expires": format_date(artifact.expires),
        "contentType": artifact.content_type,
        "version": artifact.version,
    }


def _snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    return _without_none(
        {
            "priority": snapshot.priority,
            "runs": snapshot.runs,
            "state": snapshot.state.value,
            "takenUntil": _written(snapshot.taken_until),
        }
    )


def _task_event(body: Mapping[str, Any]) -> TaskEvent:
    return TaskEvent(
        exchange=Exchange(body["exchange"]),
        task_id=body["taskId"],
        run_id=body.get("runId"),
        retries_left=body["retriesLeft"],
        has_worker=body["hasWorker"],
        artifact=_artifact(body["artifact"]) if "artifact" in body else None,
        old_priority=body.get("oldPriority"),
        new_priority=body.get("newPriority"),
        sequence=body.get("sequence"),
        life=body.get("life", ""),
        snapshot=_snapshot(body["then"]) if "then" in body else None,
    )


def _artifact(body: Mapping[str, Any]) -> ArtifactEvent:
    return ArtifactEvent(
        storage_type=body["storageType"],
        name=body["name"],
        expires=parse_date(body["expires"]),
        content_type=body["contentType"],
        version=body.get("version", ""),
    )


def _snapshot(body: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        priority=body["priority"],
        runs=body["runs"],
        state=State(body["state"]),
        taken_until=_read(body.get("takenUntil")),
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


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _digest(body: Mapping[str, Any]) -> str:
    """Notices a changed value; it is no defence against an attacker, who has no access to the queue."""
    return hashlib.sha256(_text(body).encode()).hexdigest()[:16]
