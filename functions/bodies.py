"""Bodies of internal messages, as strict as requests: what this service did not write is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shared.api.types import Closed, Date, Id, Priority, SlugId, optional


class Body(Closed):
    """What every internal message may carry besides its own: how often it has failed."""

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
