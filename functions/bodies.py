"""Bodies of internal messages: what this service did not write is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.domain.dates import parse_date
from shared.storage.messages import MalformedMessage
from shared.types import Date, Id, Priority, SlugId, optional
from shared.usecases.resolution import ResolvedMessage, WaitingEdges


class Body(BaseModel):
    """What every internal message may carry besides its own: how often it has failed, and how often it has waited.

    Fields that are not known here are those of another version of the app, which handles the same queues while it is
    upgraded or rolled back: they are ignored, and kept when the message is put again.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    attempts: Annotated[int, Field(ge=0)] = 0
    """Failures that may be the message's own: after too many it is given up."""
    waits: Annotated[int, Field(ge=0)] = 0
    """Times in a row that a dependency was down: they count for the back-off alone."""


class ClaimBody(Body):
    """A claim message."""

    taskId: SlugId
    runId: Annotated[int, Field(ge=0, le=1000)]
    put: Date


class DeadlineBody(Body):
    """A deadline message."""

    taskId: SlugId
    taskGroupId: SlugId
    schedulerId: Id
    put: Date


class ResolvedBody(Body):
    """A resolved message; `start`, `end`, `waiting` or `groupOnly` says which part of its work is left."""

    taskId: SlugId
    runId: Annotated[int, Field(ge=0, le=1000)]
    put: Date
    start: str = optional()
    end: str = optional()
    waiting: Annotated[dict[SlugId, str] | None, Field(max_length=100)] = None
    """ETags of edges by dependent, the last of them written at `written`."""
    written: Date | None = None
    groupOnly: bool = False
    delay: float = 2.0


class GroupJobBody(Body):
    """A job on the unresolved tasks of a group."""

    taskGroupId: SlugId
    kind: Literal["cancel", "priority"]
    newPriority: Priority = optional()
    asked: Date


class EventBody(Body):
    """A pointer to an event."""

    pointer: str


def resolved_message(body: ResolvedBody) -> ResolvedMessage:
    """What a resolved message asks for. Raises MalformedMessage for edges without their time."""
    waiting = None
    if body.waiting is not None:
        if body.written is None:
            raise MalformedMessage("a resolved message names edges without their time")
        waiting = WaitingEdges(etags=body.waiting, written=parse_date(body.written))
    return ResolvedMessage(
        task_id=body.taskId,
        run_id=body.runId,
        put=parse_date(body.put),
        start=body.start,
        end=body.end,
        waiting=waiting,
        group_only=body.groupOnly,
        delay=body.delay,
    )
