"""Schemas of claiming and reporting (contract 2.3, 5)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.api.models.task import TaskResponse, TaskStatus
from shared.api.types import Closed, Date, Id, RunId, Unique, Whole, optional
from shared.storage.poll_answers import LONGEST

Url = Annotated[str, StringConstraints(pattern=r"^https?://")]
NotEmpty = Annotated[str, StringConstraints(min_length=1)]


class Credentials(Closed):
    """Temporary credentials of a task; `certificate` is JSON text."""

    clientId: NotEmpty
    accessToken: NotEmpty
    certificate: NotEmpty


class ClaimWorkRequest(Closed):
    """Who asks for work, and for how many tasks at most."""

    workerGroup: Id
    workerId: Id
    tasks: Annotated[int, Whole, Field(ge=1, le=32)] = 1
    xmlMessage: Annotated[str, StringConstraints(max_length=LONGEST)] = optional()
    """The answer of a poll URL, as it is: then only its messages are claimed."""


class PollTaskUrl(Closed):
    """Where to poll the pending messages of one priority, and where to delete them.

    In the latter, `{{messageId}}` and `{{popReceipt}}` stand for the message's, URI-encoded.
    """

    signedPollUrl: Url
    signedDeleteUrl: Url


class PollTaskUrlsResponse(Closed):
    """Signed URLs, the highest priority first."""

    queues: list[PollTaskUrl]
    expires: Date


class TaskReclaimResponse(Closed):
    """A claim that was renewed."""

    status: TaskStatus
    runId: RunId
    workerGroup: Id
    workerId: Id
    takenUntil: Date
    credentials: Credentials


class TaskClaimResponse(TaskReclaimResponse):
    """A run that a worker holds until takenUntil."""

    task: TaskResponse


class ClaimWorkResponse(Closed):
    """The claims; none when there was no work."""

    tasks: Unique[TaskClaimResponse]


class TaskClaimRequest(Closed):
    """Who claims a given run."""

    workerGroup: Id
    workerId: Id


class TaskExceptionRequest(Closed):
    """Why a run could not be brought to an end."""

    reason: Literal[
        "worker-shutdown", "malformed-payload", "resource-unavailable", "internal-error", "intermittent-task"
    ]
