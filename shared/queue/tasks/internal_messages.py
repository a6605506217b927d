"""Messages of the internal queues, which wake functions: what they say, how they are written and read (design 3).

Here is their one definition. What this service did not write is refused as malformed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from shared.base.dates import format_date, parse_date
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.retrying import UNCOMMITTED_RESOLUTION
from shared.base.types import Date, Id, Priority, SlugId
from shared.queue.tasks.rules import UndeliveredClaim, Worker

CLAIM_QUEUE = "claim"
DEADLINE_QUEUE = "deadline"
RESOLVED_QUEUE = "resolved"
EVENTS_QUEUE = "events"
GROUP_QUEUE = "group-jobs"
INTERNAL_QUEUES = (CLAIM_QUEUE, DEADLINE_QUEUE, RESOLVED_QUEUE, EVENTS_QUEUE, GROUP_QUEUE)
"""The queues whose messages wake functions. No SAS ever covers them."""


RunNumber = Annotated[int, Field(ge=0)]
"""No upper bound: the run may not exist. A report may name any run, and its resolved message is put before the task is
read.
"""


class MalformedMessage(ServiceError, ValueError):
    """A message that this service did not write: to be dead-lettered at once, since no retry can help."""


def encode_body(body: Mapping[str, Any]) -> str:
    """Text of a message: base64 of JSON."""
    return base64.b64encode(json.dumps(body, separators=(",", ":")).encode()).decode()


def decode_body(text: str) -> dict[str, Any]:
    """The JSON object of a message's text. Raises MalformedMessage."""
    try:
        body = json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise MalformedMessage("not base64 of JSON") from error
    if not isinstance(body, dict):
        raise MalformedMessage("not a JSON object")
    return body


class Body(BaseModel):
    """What every internal message may carry besides its own: how often it has failed, and how often it has waited.

    Fields that are not known here are those of another version of the app, which handles the same queues while it is
    upgraded or rolled back: they are ignored, and kept when the message is put again.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    queue: ClassVar[str]

    attempts: Annotated[int, Field(ge=0)] = 0
    """Failures that may be the message's own: after too many it is given up."""
    waits: Annotated[int, Field(ge=0)] = 0
    """Times in a row that a dependency was down: they count for the back-off alone."""

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """A message's JSON, as the host hands it over. Raises MalformedMessage."""
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise MalformedMessage(f"not a message of {cls.queue}") from error

    def text(self) -> str:
        """The message's text, without fields that have their default."""
        return encode_body(self.model_dump(mode="json", exclude_none=True, exclude_defaults=True))


class UndeliveredBody(BaseModel):
    """How to recognise in the status row that a run is still held by the undelivered claim."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    workerGroup: str
    workerId: str
    takenUntil: Date
    sequence: Annotated[int, Field(ge=0)]
    started: Date | None = None


class ClaimBody(Body):
    """A claim message: the timer of a run's claim, or one that asks for the return of a claim at once."""

    queue = CLAIM_QUEUE

    taskId: SlugId
    runId: RunNumber
    put: Date
    started: Date | None = None
    """When its claim was made, which names the index row; None where an older version of the app has put it."""
    undelivered: UndeliveredBody | None = None

    @classmethod
    def returning(cls, claim: UndeliveredClaim, put: datetime) -> ClaimBody:
        """The message that asks for a claim's return."""
        return cls(
            taskId=claim.task_id,
            runId=claim.run_id,
            put=format_date(put),
            undelivered=UndeliveredBody(
                workerGroup=claim.worker.worker_group,
                workerId=claim.worker.worker_id,
                takenUntil=format_date(claim.taken_until),
                sequence=claim.sequence,
                started=None if claim.started is None else format_date(claim.started),
            ),
        )

    @property
    def claim(self) -> UndeliveredClaim | None:
        """The claim to give back, if the message asks for that."""
        if self.undelivered is None:
            return None
        worker = Worker(worker_group=self.undelivered.workerGroup, worker_id=self.undelivered.workerId)
        return UndeliveredClaim(
            task_id=self.taskId,
            run_id=self.runId,
            worker=worker,
            taken_until=parse_date(self.undelivered.takenUntil),
            sequence=self.undelivered.sequence,
            started=None if self.undelivered.started is None else parse_date(self.undelivered.started),
        )

    @property
    def claimed(self) -> datetime | None:
        """`started`, as a time."""
        return None if self.started is None else parse_date(self.started)


class DeadlineBody(Body):
    """A deadline message."""

    queue = DEADLINE_QUEUE

    taskId: SlugId
    taskGroupId: SlugId
    schedulerId: Id
    put: Date


class GroupJobBody(Body):
    """A job on the unresolved tasks of a group."""

    queue = GROUP_QUEUE

    taskGroupId: SlugId
    kind: Literal["cancel", "priority"]
    newPriority: Priority | None = None
    asked: Date


class EventBody(Body):
    """A pointer to an event."""

    queue = EVENTS_QUEUE

    pointer: str


class ResolvedBody(Body):
    """A resolved message, as it lies in the queue; `ResolvedMessage` is what it says."""

    queue = RESOLVED_QUEUE

    taskId: SlugId
    runId: RunNumber
    put: Date
    start: str | None = None
    end: str | None = None
    groupEnd: str | None = None
    waiting: Annotated[dict[SlugId, str] | None, Field(max_length=100)] = None
    """ETags of edges by dependent, the last of them written at `written`."""
    inGroup: bool = False
    written: Date | None = None
    groupOnly: bool = False
    delay: float = UNCOMMITTED_RESOLUTION.first

    @model_validator(mode="after")
    def _edges_have_their_time(self) -> Self:
        if self.waiting is not None and self.written is None:
            raise ValueError("edges without their time")
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingEdges:
    """Edges of one page whose dependents do not exist yet. A later look takes these alone, so that it never leads to
    the next page once more."""

    etags: Mapping[str, str]
    """By dependent, as they were read."""
    written: datetime
    """When the last of them was written."""
    in_group: bool
    """Whether the edges are in the group's partition; else they are in that of the required task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedMessage:
    """A resolved message: the run, when the message was first put, and which part of the work is left.

    All of it, unless `start`, `end`, `waiting` or `group_only` says less.
    """

    task_id: str
    run_id: int
    put: datetime
    start: str | None = None
    """Where the fan-out continues; the message is for this page only. The key tells whether it is in the task's
    partition or its group's.
    """
    end: str | None = None
    """Where it ends in that place; in the task's partition where there is no start. Another message has what follows.
    None for the end of all."""
    group_end: str | None = None
    """Where the page of edges in the group ends, if the message has no `start`."""
    waiting: WaitingEdges | None = None
    """These edges alone."""
    group_only: bool = False
    """The check of the group alone."""
    delay: float = UNCOMMITTED_RESOLUTION.first
    """Seconds to wait if the commit, or the dependents, are still missing when the message is handled."""

    @classmethod
    def of(cls, body: ResolvedBody) -> ResolvedMessage:
        """What a message of the queue says."""
        waiting = None
        if body.waiting is not None and body.written is not None:
            waiting = WaitingEdges(etags=body.waiting, written=parse_date(body.written), in_group=body.inGroup)
        return cls(
            task_id=body.taskId,
            run_id=body.runId,
            put=parse_date(body.put),
            start=body.start,
            end=body.end,
            group_end=body.groupEnd,
            waiting=waiting,
            group_only=body.groupOnly,
            delay=body.delay,
        )

    def body(self) -> ResolvedBody:
        """The message as it is written."""
        return ResolvedBody(
            taskId=self.task_id,
            runId=self.run_id,
            put=format_date(self.put),
            start=self.start,
            end=self.end,
            groupEnd=self.group_end,
            waiting=None if self.waiting is None else dict(self.waiting.etags),
            written=None if self.waiting is None else format_date(self.waiting.written),
            inGroup=self.waiting is not None and self.waiting.in_group,
            groupOnly=self.group_only,
            delay=self.delay,
        )
