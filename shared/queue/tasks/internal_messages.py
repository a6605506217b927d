"""Messages of the internal queues, which wake functions: what they say, how they are written and read (design 3). Here
is their one definition. What this service did not write is refused as malformed."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from shared.base.errors import ServiceError
from shared.base.retrying import UNCOMMITTED_RESOLUTION
from shared.base.types import Id, Priority, SlugId
from shared.queue.tasks.rules import UndeliveredClaim

CLAIM_QUEUE = "claim"
DEADLINE_QUEUE = "deadline"
RESOLVED_QUEUE = "resolved"
EVENTS_QUEUE = "events"
GROUP_QUEUE = "group-jobs"
INTERNAL_QUEUES = (CLAIM_QUEUE, DEADLINE_QUEUE, RESOLVED_QUEUE, EVENTS_QUEUE, GROUP_QUEUE)
"""The queues whose messages wake functions. No SAS ever covers them."""
RunNumber = Annotated[int, Field(ge=0)]
"""The number of a run, without upper bound since the run may not exist: a report may name any run, and its resolved
message is put before the task is read."""


class MalformedMessage(ServiceError, ValueError):
    """A message that this service did not write: to be dead-lettered at once, since no retry can help."""


def encode_body(body: Mapping[str, Any]) -> str:
    """Returns the text of a message: base64 of JSON."""
    return base64.b64encode(json.dumps(body, separators=(",", ":")).encode()).decode()


def decode_body(text: str) -> dict[str, Any]:
    """Returns the JSON object of a message's text. Raises MalformedMessage."""
    try:
        body = json.loads(base64.b64decode(text, validate=True))
    except (ValueError, RecursionError) as error:
        raise MalformedMessage("not base64 of JSON") from error
    if not isinstance(body, dict):
        raise MalformedMessage("not a JSON object")
    return body


class Message(BaseModel):
    """A message as JSON. Unknown fields are kept when it is put again."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Returns a message's JSON, as the host hands it over. Raises MalformedMessage."""
        try:
            return cls.model_validate_json(text)
        except ValueError as error:
            raise MalformedMessage(f"not a {cls.__name__}") from error

    @classmethod
    def decode(cls, text: str) -> Self:
        """Returns a message of that text, in base64. Raises MalformedMessage."""
        try:
            return cls.read(base64.b64decode(text, validate=True))
        except ValueError as error:
            raise MalformedMessage(f"not base64 of a {cls.__name__}") from error

    def text(self) -> str:
        """Returns the message's text, without fields that have their default."""
        text = self.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)
        return base64.b64encode(text.encode()).decode()


class PendingBody(Message):
    """A pending message: what workers poll."""

    task_id: str
    run_id: int
    hint_id: str
    signature: str
    priority: Priority
    """The band: a worker that hands a message in does not say from which queue it is."""


class Body(Message):
    """Properties that every internal message may have: how often it has failed, and how often it has waited."""

    queue: ClassVar[str]

    attempts: Annotated[int, Field(ge=0)] = 0
    """Number of failures that may be the message's own fault. After too many of them the message is given up."""
    waits: Annotated[int, Field(ge=0)] = 0
    """Number of times in a row that a dependency was down. They count for the back-off alone."""


class ClaimBody(Body):
    """A claim message: the timer of a run's claim, or one that asks for the return of a claim at once."""

    queue = CLAIM_QUEUE

    task_id: SlugId
    run_id: RunNumber
    put: AwareDatetime
    started: AwareDatetime
    """When its claim was made, which names the index row."""
    undelivered: UndeliveredClaim | None = None
    """The claim to give back, if the message asks for that."""


class DeadlineBody(Body):
    """A deadline message."""

    queue = DEADLINE_QUEUE

    task_id: SlugId
    task_group_id: SlugId
    scheduler_id: Id
    put: AwareDatetime


class GroupJobBody(Body):
    """A job on the unresolved tasks of a group."""

    queue = GROUP_QUEUE

    task_group_id: SlugId
    kind: Literal["cancel", "priority"]
    new_priority: Priority | None = None
    number: Annotated[int, Field(gt=0)]
    """The group's number after the call has raised it."""
    listed: str
    """The key of the group's row in the list of groups, which tells it from a later group of this id."""


class EventBody(Body):
    """A pointer to an event, which has yet to be sent."""

    queue = EVENTS_QUEUE

    pointer: str


class ResolvedBody(Body):
    """A resolved message: the run, when the message was first put, and which part of the work is left. Without `start`,
    `end`, `waiting` and `group_only`, all of the work is left."""

    queue = RESOLVED_QUEUE

    task_id: SlugId
    run_id: RunNumber
    put: AwareDatetime
    start: str | None = None
    """Key at which the fan-out continues, in the task's partition or its group's; the message is for this page only."""
    end: str | None = None
    """Key at which the fan-out ends, in the partition of `start`, or in the task's partition if there is no `start`:
    another message has the rest. None if it ends with the last edge."""
    group_end: str | None = None
    """Key at which the page of edges in the group ends, if the message has no `start`."""
    waiting: Annotated[dict[SlugId, str] | None, Field(max_length=100)] = None
    """The only edges of a page that are left, as their dependents do not exist yet: ETags by dependent. The next
    attempt takes these alone, so that it never puts a message for the next page again."""
    in_group: bool = False
    """Whether these edges are in the group's partition; else they are in that of the required task."""
    written: AwareDatetime | None = None
    """Time at which the last of these edges was written."""
    group_only: bool = False
    """Whether only the check of the group is left."""
    at_deadline: bool = False
    """Whether the deadline message has put it, to repeat what earlier messages of the run may have done long ago."""
    delay: float = UNCOMMITTED_RESOLUTION.first
    """Seconds to wait if the commit, or the dependents, are still missing when the message is handled."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the work is left, except for what comes after `end` and `group_end`."""
        return self.start is None and self.waiting is None and not self.group_only

    @model_validator(mode="after")
    def _edges_have_their_time(self) -> Self:
        if self.waiting is not None and self.written is None:
            raise ValueError("edges without their time")
        return self


BODIES: Mapping[str, type[Body]] = {
    body.queue: body for body in (ClaimBody, DeadlineBody, ResolvedBody, EventBody, GroupJobBody)
}
"""For each internal queue, the model of its messages."""
