"""Queue-triggered functions: Azure Queue visibility wakes them when something is due."""

from __future__ import annotations

import azure.functions as func

from functions.queue_messages import handle
from shared.domain.dates import parse_date
from shared.events.pointers import from_json
from shared.services import Services
from shared.storage.internal_messages import (
    CLAIM_QUEUE,
    DEADLINE_QUEUE,
    EVENTS_QUEUE,
    GROUP_QUEUE,
    RESOLVED_QUEUE,
    ClaimBody,
    DeadlineBody,
    EventBody,
    GroupJobBody,
    ResolvedBody,
    ResolvedMessage,
)
from shared.usecases.group_jobs import GroupJob

blueprint = func.Blueprint()

CONNECTION = "AzureWebJobsStorage"
"""The app's queues lie in the storage account of the Functions host."""

WAITS_FOR_OTHER_VERSION = 6
"""Attempts, over some five minutes, before an event is left to the version of the app that knows all its fields."""


@blueprint.function_name("claim-expired")
@blueprint.queue_trigger(arg_name="msg", queue_name=CLAIM_QUEUE, connection=CONNECTION)
async def claim_expired(msg: func.QueueMessage) -> None:
    """Handles a claim message: takenUntil has passed, or no worker has received the claim."""
    await handle(msg, ClaimBody, _claim)


@blueprint.function_name("deadline-exceeded")
@blueprint.queue_trigger(arg_name="msg", queue_name=DEADLINE_QUEUE, connection=CONNECTION)
async def deadline_exceeded(msg: func.QueueMessage) -> None:
    """Handles a deadline message: the deadline has passed."""
    await handle(msg, DeadlineBody, _deadline)


@blueprint.function_name("task-resolved")
@blueprint.queue_trigger(arg_name="msg", queue_name=RESOLVED_QUEUE, connection=CONNECTION)
async def task_resolved(msg: func.QueueMessage) -> None:
    """Handles a resolved message: dependents, group, projections."""
    await handle(msg, ResolvedBody, _resolved)


@blueprint.function_name("event-pending")
@blueprint.queue_trigger(arg_name="msg", queue_name=EVENTS_QUEUE, connection=CONNECTION)
async def event_pending(msg: func.QueueMessage) -> None:
    """Handles a pointer to an event that could not be sent when it happened."""
    await handle(msg, EventBody, _event)


@blueprint.function_name("group-job")
@blueprint.queue_trigger(arg_name="msg", queue_name=GROUP_QUEUE, connection=CONNECTION)
async def group_job(msg: func.QueueMessage) -> None:
    """Handles a job message: the rest of a call on a whole group."""
    await handle(msg, GroupJobBody, _group_job)


async def _claim(services: Services, body: ClaimBody) -> None:
    if body.claim is not None:
        await services.giving_back.take_back(body.claim)
    else:
        await services.timers.claim_due(body.taskId, body.runId, parse_date(body.put), body.claimed)


async def _deadline(services: Services, body: DeadlineBody) -> None:
    await services.timers.deadline_due(body.taskId, body.taskGroupId, body.schedulerId, parse_date(body.put))


async def _resolved(services: Services, body: ResolvedBody) -> None:
    await services.resolution.resolved_due(ResolvedMessage.of(body))


async def _group_job(services: Services, body: GroupJobBody) -> None:
    job = GroupJob(task_group_id=body.taskGroupId, kind=body.kind, new_priority=body.newPriority)
    await services.group_jobs.job_due(job, parse_date(body.asked))


async def _event(services: Services, body: EventBody) -> None:
    event = from_json(body.pointer, ignore_unknown=body.attempts >= WAITS_FOR_OTHER_VERSION)
    await services.redelivery.event_due(event)
