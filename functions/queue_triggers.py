"""Queue-triggered functions: Azure Queue visibility wakes them when something is due.

What they have in common: parse, do the work, retry with back-off, dead-letter with a log line. The host would try a
failed message again after one fixed delay, and move it to the poison queue without a log line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import azure.functions as func
from opentelemetry.trace import SpanKind

from functions import LONGEST_RUN, process
from functions.observation import observed
from shared.app.services import Services
from shared.base.errors import ServiceUnavailable
from shared.base.retrying import FAILED_MESSAGE, WAITING_MESSAGE
from shared.queue.events.announcer import from_json
from shared.queue.tasks.due import Postponed
from shared.queue.tasks.internal_messages import (
    Body,
    ClaimBody,
    DeadlineBody,
    EventBody,
    GroupJobBody,
    MalformedMessage,
    ResolvedBody,
)
from shared.store.interface import StorageRefused, StorageUnavailable
from shared.telemetry.logs import bound

log = logging.getLogger("taskcluster.messages")

MOST_DELIVERIES = 2
"""Deliveries of a message that are still normal: an instance that is stopped leaves its messages to be delivered again.
A message delivered more often is a suspect: it, or a message beside it, may kill the instance."""
_COUNTED = 12
"""Largest counted number of waits: after this many, the pause grows no more."""
APART = 300.0
"""Seconds over which suspects are spread when they are put again. Handled one by one, only the message that kills its
instance is dead-lettered."""

DONE = "done"
_LOGGED = {"task_id": "taskId", "run_id": "runId", "task_group_id": "taskGroupId"}
"""Fields of a message that every log line about it has, and their names there."""

T = TypeVar("T", bound=Body)
Work = Callable[[Services, T], Awaitable[None]]
"""Handles the message of a queue."""


async def handle(message: func.QueueMessage, body_type: type[T], work: Work[T]) -> None:
    """Handles a message of an internal queue. Raises only when the message could not even be put again."""
    services = await process.services()
    text = message.get_body().decode(errors="replace")
    with observed(services.runtime, body_type.queue, SpanKind.CONSUMER, {"messageId": message.id or ""}) as seen:
        seen.outcome = await _handle(services, text, body_type, work, message.dequeue_count or 1)
        seen.failed = seen.outcome != DONE


async def _handle(services: Services, text: str, body_type: type[T], work: Work[T], deliveries: int) -> str:
    queue = body_type.queue
    try:
        body = body_type.read(text)
    except MalformedMessage:
        return await _give_up(services, queue, text, "malformed")
    with bound(**{_LOGGED[name]: value for name, value in body if name in _LOGGED}):
        if deliveries > MOST_DELIVERIES:
            # Counts the attempts that failed because their instance died and could not count them. A random delay has
            # the message handled apart from other suspects.
            what = "a message of %s was not done by %d functions"
            log.error(what, queue, MOST_DELIVERIES, extra={"action": "message_interrupted"})
            apart = APART * services.runtime.jitter()
            return await _again_unless_too_often(services, body, text, MOST_DELIVERIES, apart)
        return await _attempt(services, body, text, work)


async def _attempt(services: Services, body: T, text: str, work: Work[T]) -> str:
    queue = body.queue
    try:
        async with asyncio.timeout(LONGEST_RUN):
            await work(services, body)
    except Postponed as postponed:
        log.info("a message of %s waits %s", queue, postponed, extra={"action": "message_waits"})
        return await _put_again(services, body, postponed.delay)
    except StorageRefused:
        log.exception("storage refuses what a message of %s needs", queue, extra={"action": "message_failed"})
        return await _again_unless_too_often(services, body, text)
    except (StorageUnavailable, ServiceUnavailable) as failure:
        log.warning("a message of %s waits: %s", queue, type(failure).__name__, extra={"action": "message_waits"})
        waited = body.model_copy(update={"waits": min(body.waits + 1, _COUNTED)})
        return await _put_again(services, waited, WAITING_MESSAGE.pause(body.waits))
    except MalformedMessage as refused:
        log.error("a message of %s was refused: %s", queue, refused, extra={"action": "message_refused"})
        return await _give_up(services, queue, text, "refused")
    except Exception:
        log.exception("a message of %s failed", queue, extra={"action": "message_failed"})
        return await _again_unless_too_often(services, body, text)
    return DONE


async def _again_unless_too_often(
    services: Services, body: Body, text: str, attempts: int = 1, delay: float | None = None
) -> str:
    """Counts `attempts` more attempts and puts the message again, or dead-letters it. Without `delay`, it becomes
    visible after the back-off."""
    if body.attempts + 1 >= FAILED_MESSAGE.tries:
        return await _give_up(services, body.queue, text, "failed too often")
    counted = body.model_copy(update={"attempts": body.attempts + attempts, "waits": 0})
    back_off = FAILED_MESSAGE.pause(body.attempts)
    return await _put_again(services, counted, back_off if delay is None else delay)


async def _put_again(services: Services, body: Body, delay: float) -> str:
    await services.stores.messages.put_body(body, delay)
    return "again"


async def _give_up(services: Services, queue: str, text: str, reason: str) -> str:
    log.error("a message of %s is poison: %s", queue, reason, extra={"action": "message_poisoned", "queue": queue})
    await services.stores.messages.poison(queue, text)
    return "poison"


CONNECTION = "AzureWebJobsStorage"
"""The app's queues lie in the storage account of the Functions host."""


async def _claim(services: Services, body: ClaimBody) -> None:
    if body.undelivered is not None:
        await services.giving_back.take_back(body.undelivered)
    else:
        await services.due.claim_due(body.task_id, body.run_id, body.put, body.started)


async def _deadline(services: Services, body: DeadlineBody) -> None:
    await services.due.deadline_due(body.task_id, body.task_group_id, body.scheduler_id, body.put)


FUNCTIONS: Mapping[type[Body], tuple[str, Work[Any]]] = {
    ClaimBody: ("claim-expired", _claim),  # takenUntil has passed, or no worker has received the claim
    DeadlineBody: ("deadline-exceeded", _deadline),
    ResolvedBody: ("task-resolved", lambda services, body: services.resolution.resolved_due(body)),
    EventBody: ("event-pending", lambda services, body: services.redelivery.event_due(from_json(body.pointer))),
    GroupJobBody: ("group-job", lambda services, body: services.group_jobs.job_due(body)),
}
"""For each kind of message, the name of its function and the coroutine function that handles the message."""

blueprint = func.Blueprint()


def _add(body_type: type[Body], name: str, work: Work[Any]) -> None:
    """Adds a function. It receives messages as bytes: if it asked for text, the host would fail at a message that is
    not UTF-8, again and again."""

    @blueprint.function_name(name)
    @blueprint.queue_trigger(
        arg_name="msg", queue_name=body_type.queue, connection=CONNECTION, data_type=func.DataType.BINARY
    )
    async def function(msg: func.QueueMessage) -> None:
        await handle(msg, body_type, work)


for _body_type, (_name, _work) in FUNCTIONS.items():
    _add(_body_type, _name, _work)
