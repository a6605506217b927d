"""Bodies of internal messages: what this service did not write is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.api.types import Date, Id, Priority, SlugId, optional


class Body(BaseModel):
    """What every internal message may carry besides its own: how often it has failed.

    Fields that are not known here are those of another version of the app, which handles the same queues while it is
    upgraded or rolled back: they are ignored, and kept when the message is put again.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    attempts: Annotated[int, Field(ge=0)] = 0


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
    """A resolved message; `start` is where its fan-out goes on."""

    taskId: SlugId
    runId: Annotated[int, Field(ge=0, le=1000)]
    put: Date
    start: str = optional()
    delay: float = 2.0


class GroupJobBody(Body):
    """A job on the unresolved tasks of a group."""

    taskGroupId: SlugId
    kind: Literal["cancel", "priority"]
    newPriority: Priority = optional()


class EventBody(Body):
    """A pointer to an event."""

    pointer: str
