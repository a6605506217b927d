"""Endpoints for operators: internal queues, dead-lettered messages and the audit log (contract 2.5, 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import JsonValue

from shared.api.endpoint import PAGING, Call, Endpoints, Json
from shared.api.validation import page_of, place_of
from shared.auth import audit
from shared.auth.audit import AuditEntry, Subject
from shared.base.dates import format_date
from shared.base.types import Closed, Count, Date, optional, page_model
from shared.overview.endpoints import OverviewServices
from shared.queue.pools.provisioner_endpoints import task_queue_of


class InternalQueue(Closed):
    """How many messages an internal queue holds, hidden ones included, and how many it has given up."""

    queue: str
    messages: Count
    poison: Count


class ToldWorkers(Closed):
    """Waits of workers that ended because there was work, in the answering process: by 503, and by an empty answer."""

    repeat: Count
    empty: Count


class OperationsResponse(Closed):
    """What the service itself knows of its work. A time is absent where there was none."""

    queues: list[InternalQueue]
    toldWorkers: ToldWorkers
    expiryNoted: Date = optional()
    expiredBefore: Date = optional()
    reconcilerNoted: Date = optional()
    waitingNoted: Date = optional()


class PoisonMessage(Closed):
    """A message that was given up, and what it is about, if it can be read."""

    messageId: str
    put: Date
    readable: bool
    about: dict[str, JsonValue]


class ListPoisonMessagesResponse(Closed):
    """The first messages that a queue gave up."""

    messages: list[PoisonMessage]


class MovePoisonMessagesRequest(Closed):
    """One message, or all without an id."""

    messageId: str = optional()


class MovePoisonMessagesResponse(Closed):
    """How many messages were moved, and how many of those that were looked for stay."""

    moved: Count
    left: Count


_MANAGE = "queue:manage-poison-messages:<queueName>"

OPERATIONS_ENDPOINTS = Endpoints[OverviewServices]("Monitoring", stability="experimental")


@OPERATIONS_ENDPOINTS("operations", "GET /operations", "Operations", scopes="queue:operations")
async def operations(services: OverviewServices, call: Call) -> Annotated[Json, OperationsResponse]:
    """Returns how many messages the internal queues hold and have given up, and when the timers ran last. Not part of
    the public API."""
    queues, times = await services.operations.counts_and_times()
    return {"queues": queues, "toldWorkers": services.operations.told(), **times}


@OPERATIONS_ENDPOINTS(
    "listPoisonMessages", "GET /poison-messages/<queueName>", "List Poison Messages", scopes="queue:operations"
)
async def list_poison_messages(services: OverviewServices, call: Call) -> Annotated[Json, ListPoisonMessagesResponse]:
    """Returns the first 32 messages that an internal queue gave up, and what each is about. Not part of the public
    API."""
    return {"messages": await services.operations.given_up(call.params["queueName"])}


@OPERATIONS_ENDPOINTS(
    "redrivePoisonMessages",
    "POST /poison-messages/<queueName>/redrive",
    "Redrive Poison Messages",
    scopes=_MANAGE,
    input=MovePoisonMessagesRequest,
)
async def redrive_poison_messages(
    services: OverviewServices, call: Call
) -> Annotated[Json, MovePoisonMessagesResponse]:
    """Sends messages that an internal queue gave up to it once more, with all attempts before them: one, or all. What
    cannot be read stays. Not part of the public API."""
    return await _move_messages(services, call, "redrive", "poison messages redriven")


@OPERATIONS_ENDPOINTS(
    "deletePoisonMessages",
    "POST /poison-messages/<queueName>/delete",
    "Delete Poison Messages",
    scopes=_MANAGE,
    input=MovePoisonMessagesRequest,
)
async def delete_poison_messages(services: OverviewServices, call: Call) -> Annotated[Json, MovePoisonMessagesResponse]:
    """Deletes messages that an internal queue gave up: one, or all. What they were to do is not done. Not part of the
    public API."""
    return await _move_messages(services, call, "delete", "poison messages deleted")


_MESSAGE_ID = 36
"""Characters of a message's id."""


async def _move_messages(services: OverviewServices, call: Call, how: Any, action: str) -> Mapping[str, Any]:
    queue, message_id = call.params["queueName"], call.payload(MovePoisonMessagesRequest).messageId
    detail = "all" if message_id is None else message_id[:_MESSAGE_ID]
    async with services.audit.entry_of(call, Subject("internal-queue", queue), action, detail, begins=False) as entry:
        moved = await services.operations.move_given_up(queue, how, message_id, entry)
    return {"moved": moved.done, "left": moved.left}


NOT_CONFIRMED = ", not confirmed"
"""Suffix of an action of which nobody knows whether it happened: its call is under way, or has died."""


class HistoryEntry(Closed):
    """Something that a client did."""

    clientId: str
    actionType: str
    created: Date
    entityId: str
    entityType: str


class DetailedEntry(HistoryEntry):
    """An entry of a history as the auth API shows it, and what was changed."""

    detail: str = optional()


EntityHistoryResponse = page_model(
    "EntityHistoryResponse", "A page of what was done, the latest first.", auditHistory=list[HistoryEntry]
)
AuditHistoryResponse = page_model(
    "AuditHistoryResponse", "A page of what was done, the latest first.", auditHistory=list[DetailedEntry]
)

ACCOUNTS = Endpoints[OverviewServices]("Audit", query=PAGING)
"""The audit endpoints of the auth API: as upstream has them, then with details."""


@ACCOUNTS(
    "getEntityHistory",
    "GET /audit/<entityType>/<entityId>",
    "Get Entity History",
    scopes="auth:audit-history:<entityType>",
)
async def get_entity_history(services: OverviewServices, call: Call) -> Annotated[Json, EntityHistoryResponse]:
    """Returns who created, changed or deleted a client or a role, and when, the latest first. There is no history of
    secrets, hooks and worker pools, which this deployment does not have."""
    subject = Subject(call.params.get("auditedType") or call.params["entityType"], call.params["entityId"])
    return _history_page(call, await services.audit.history_of(subject, **place_of(call.query)))


@ACCOUNTS(
    "listAuditHistory",
    "GET /clients/<clientId>/audit",
    "List Audit History",
    scopes="auth:client-audit-history:<clientId>",
)
async def list_audit_history(services: OverviewServices, call: Call) -> Annotated[Json, EntityHistoryResponse]:
    """Returns what a client did to tasks, task groups, workers, clients and roles, and when, the latest first."""
    return _history_page(call, await services.audit.by(call.params["clientId"], **place_of(call.query)))


ACCOUNTS(
    "clientAuditHistory",
    "GET /audit-details/by/<clientId>",
    "Audit History of What a Client Did",
    description="As listAuditHistory, with what was changed. Not part of the public API.",
    scopes="auth:client-audit-history:<clientId>",
    output=AuditHistoryResponse,
    stability="experimental",
)(list_audit_history)
ACCOUNTS(
    "entityAuditHistory",
    "GET /audit-details/<auditedType>/<entityId>",
    "Audit History of a Client, a Role, a Path of the Index or an Internal Queue",
    description="As getEntityHistory, with what was changed: which scopes were granted and taken. Not part of the "
    "public API.",
    scopes="auth:audit-history:<auditedType>",
    output=AuditHistoryResponse,
    stability="experimental",
)(get_entity_history)

AUDIT_ENDPOINTS = Endpoints[OverviewServices](
    "Audit", query=PAGING, output=AuditHistoryResponse, stability="experimental"
)
"""The audit endpoints of the queue, which only this service has."""


@AUDIT_ENDPOINTS(
    "taskAuditHistory", "GET /task/<taskId>/audit", "Audit History of a Task", scopes="queue:status:<taskId>"
)
async def task_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """Returns who scheduled, reran or cancelled a task or changed its priority, and what was done to its whole group. A
    page may be short or empty while there is more: go on until there is no `continuationToken`. Not part of the public
    API."""
    found = await services.lifecycle.status(call.params["taskId"])
    subject = audit.task(found.task_id, found.task_group_id)
    return _history_page(call, await services.audit.history_of(subject, **place_of(call.query)))


@AUDIT_ENDPOINTS(
    "taskGroupAuditHistory",
    "GET /task-group/<taskGroupId>/audit",
    "Audit History of a Task Group",
    scopes="queue:list-task-group:<taskGroupId>",
)
async def task_group_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """Returns who sealed or cancelled a task group or changed its priorities, and what was done to its tasks one by
    one. Not part of the public API."""
    subject = audit.task_group(call.params["taskGroupId"])
    return _history_page(call, await services.audit.history_of(subject, **place_of(call.query)))


@AUDIT_ENDPOINTS(
    "workerAuditHistory",
    "GET /provisioners/<provisionerId>/worker-types/<workerType>/workers/<workerGroup>/<workerId>/audit",
    "Audit History of a Worker",
    scopes="queue:get-worker:<provisionerId>/<workerType>/<workerGroup>/<workerId>",
)
async def worker_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """Returns who quarantined or released a worker. Not part of the public API."""
    worker = audit.worker(task_queue_of(call.params), call.params["workerGroup"], call.params["workerId"])
    return _history_page(call, await services.audit.history_of(worker, **place_of(call.query)))


def _history_page(call: Call, found: tuple[list[AuditEntry], str | None]) -> Mapping[str, Any]:
    """Returns a page of a history, with details unless it is one of Taskcluster's own API, which has none."""
    is_detailed = call.endpoint.output is AuditHistoryResponse
    return page_of("auditHistory", found, lambda entry: _entry(entry, is_detailed))


def _entry(entry: AuditEntry, detailed: bool) -> dict[str, Any]:
    return {
        "clientId": entry.client_id,
        "actionType": entry.action if entry.confirmed else entry.action + NOT_CONFIRMED,
        "created": format_date(entry.created),
        "entityId": entry.subject.entity_id,
        "entityType": entry.subject.entity_type,
        **({"detail": entry.detail} if detailed and entry.detail else {}),
    }
