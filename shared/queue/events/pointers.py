"""Pointers to events that could not be sent, as they lie in the `events` queue (design 2.5).

A pointer names the event and carries what the status row forgets. While an app is upgraded or rolled back, two
versions of the code handle the same queue: a pointer that another version wrote, and that this one cannot read or
would not read whole, waits for that version. One that was damaged is refused at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from shared.base.errors import ServiceError
from shared.queue.events.rules import ArtifactEvent, Event, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.store.columns import Columns
from shared.store.interface import StorageUnavailable

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
        event = _event(body)
    except (ValueError, TypeError, AttributeError, StorageUnavailable) as error:
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


_TASK = Columns(TaskEvent, without={"artifact", "snapshot"})
_ARTIFACT = Columns(ArtifactEvent)
_SNAPSHOT = Columns(Snapshot)
_GROUP = Columns(GroupEvent)


def _fields(event: Event) -> dict[str, Any]:
    if isinstance(event, GroupEvent):
        return _GROUP.encode(event)
    fields: dict[str, Any] = {**_TASK.encode(event)}
    if event.artifact is not None:
        fields["artifact"] = _ARTIFACT.encode(event.artifact)
    if event.snapshot is not None:
        fields["then"] = _SNAPSHOT.encode(event.snapshot)
    return fields


def _event(body: Mapping[str, Any]) -> Event:
    if "taskGroupId" in body:
        return _GROUP.decode(body)
    artifact = _ARTIFACT.decode(body["artifact"]) if "artifact" in body else None
    snapshot = _SNAPSHOT.decode(body["then"]) if "then" in body else None
    return _TASK.decode(body, artifact=artifact, snapshot=snapshot)


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _digest(body: Mapping[str, Any]) -> str:
    """Notices a changed value; it is no defence against an attacker, who has no access to the queue."""
    return hashlib.sha256(_text(body).encode()).hexdigest()[:16]
