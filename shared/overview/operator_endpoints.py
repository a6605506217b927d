"""Endpoints for operators: internal queues, dead-lettered messages and the audit log (contract 2.5, 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from shared.api.endpoint import PAGING, Call, Endpoint
from shared.api.validation import continued, limit_of, start_of
from shared.auth import audit
from shared.auth.audit import AuditEntry, Subject
from shared.base.dates import format_date
from shared.base.types import Closed, Count, Date, optional
from shared.overview.services import OverviewServices
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


async def operations(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """operations."""
    queues, times = await services.operations.look()
    found: dict[str, datetime | None] = {
        "expiryNoted": times.expiry,
        "expiredBefore": times.expired_before,
        "reconcilerNoted": times.reconciler,
        "waitingNoted": times.waiting,
    }
    told = services.operations.told()
    return {
        "queues": queues,
        "toldWorkers": told,
        **{name: format_date(time) for name, time in found.items() if time is not None},
    }


async def list_poison_messages(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """listPoisonMessages."""
    return {"messages": await services.operations.given_up(call.params["queueName"])}


async def redrive_poison_messages(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """redrivePoisonMessages."""
    return await _move(services, call, "redrive", "poison messages redriven")


async def delete_poison_messages(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """deletePoisonMessages."""
    return await _move(services, call, "delete", "poison messages deleted")


_MESSAGE_ID = 36
"""Characters of a message's id."""


async def _move(services: OverviewServices, call: Call, how: Any, action: str) -> Mapping[str, Any]:
    queue, message_id = call.params["queueName"], call.payload(MovePoisonMessagesRequest).messageId
    detail = "all" if message_id is None else message_id[:_MESSAGE_ID]
    async with services.audit.entry_of(call, audit.internal_queue(queue), action, detail, begins=False) as entry:
        moved = await services.operations.move(queue, how, message_id, entry)
    return {"moved": moved.done, "left": moved.left}


_MANAGE = "queue:manage-poison-messages:<queueName>"

OPERATIONS_ENDPOINTS: tuple[Endpoint[OverviewServices], ...] = (
    Endpoint(
        name="operations",
        method="GET",
        route="/operations",
        handler=operations,
        title="Operations",
        description="Returns how many messages the internal queues hold and have given up, and when the timers ran "
        "last. Not part of the public API.",
        category="Monitoring",
        scopes="queue:operations",
        output=OperationsResponse,
        stability="experimental",
    ),
    Endpoint(
        name="listPoisonMessages",
        method="GET",
        route="/poison-messages/<queueName>",
        handler=list_poison_messages,
        title="List Poison Messages",
        description="Returns the first 32 messages that an internal queue gave up, and what each is about. Not part of "
        "the public API.",
        category="Monitoring",
        scopes="queue:operations",
        output=ListPoisonMessagesResponse,
        stability="experimental",
    ),
    Endpoint(
        name="redrivePoisonMessages",
        method="POST",
        route="/poison-messages/<queueName>/redrive",
        handler=redrive_poison_messages,
        title="Redrive Poison Messages",
        description="Sends messages that an internal queue gave up to it once more, with all attempts before them: "
        "one, or all. What cannot be read stays. Not part of the public API.",
        category="Monitoring",
        scopes=_MANAGE,
        input=MovePoisonMessagesRequest,
        output=MovePoisonMessagesResponse,
        stability="experimental",
    ),
    Endpoint(
        name="deletePoisonMessages",
        method="POST",
        route="/poison-messages/<queueName>/delete",
        handler=delete_poison_messages,
        title="Delete Poison Messages",
        description="Deletes messages that an internal queue gave up: one, or all. What they were to do is not done. "
        "Not part of the public API.",
        category="Monitoring",
        scopes=_MANAGE,
        input=MovePoisonMessagesRequest,
        output=MovePoisonMessagesResponse,
        stability="experimental",
    ),
)


NOT_CONFIRMED = ", not confirmed"
"""After an action of which nobody knows whether it happened: its call is under way, or has died."""


class HistoryEntry(Closed):
    """Something that a client did."""

    clientId: str
    actionType: str
    created: Date
    entityId: str
    entityType: str


class EntityHistoryResponse(Closed):
    """A page of what was done, the latest first."""

    auditHistory: list[HistoryEntry]
    continuationToken: str = optional()


class DetailedEntry(HistoryEntry):
    """An entry of a history as the auth API shows it, and what was changed."""

    detail: str = optional()


class AuditHistoryResponse(Closed):
    """A page of what was done, the latest first."""

    auditHistory: list[DetailedEntry]
    continuationToken: str = optional()


async def get_entity_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """getEntityHistory."""
    kind = call.params["auditedType" if _is_detailed(call) else "entityType"]
    subject = Subject(entity_type=kind, entity_id=call.params["entityId"])
    return _page(await services.audit.of(subject, **_place(call)), detailed=_is_detailed(call))


async def list_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """listAuditHistory."""
    client_id = call.params["clientId"]
    return _page(await services.audit.by(client_id, **_place(call)), detailed=_is_detailed(call))


async def task_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """taskAuditHistory: the group is known from the task alone."""
    found = await services.lifecycle.status(call.params["taskId"])
    return await _history(services, call, audit.task(found.task_id, found.task_group_id))


async def task_group_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """taskGroupAuditHistory."""
    return await _history(services, call, audit.task_group(call.params["taskGroupId"]))


async def worker_audit_history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """workerAuditHistory."""
    params = call.params
    return await _history(
        services, call, audit.worker(task_queue_of(params), params["workerGroup"], params["workerId"])
    )


async def _history(services: OverviewServices, call: Call, subject: Subject) -> Mapping[str, Any]:
    return _page(await services.audit.of(subject, **_place(call)), detailed=True)


def _is_detailed(call: Call) -> bool:
    """Taskcluster's own histories have no details."""
    return call.endpoint.output is AuditHistoryResponse


def _place(call: Call) -> dict[str, Any]:
    return {"start": start_of(call.query), "limit": limit_of(call.query)}


def _page(found: tuple[list[AuditEntry], str | None], *, detailed: bool) -> Mapping[str, Any]:
    entries, resume = found
    return {"auditHistory": [_entry(entry, detailed) for entry in entries], **continued(resume)}


def _entry(entry: AuditEntry, detailed: bool) -> dict[str, Any]:
    return {
        "clientId": entry.client_id,
        "actionType": entry.action if entry.confirmed else entry.action + NOT_CONFIRMED,
        "created": format_date(entry.created),
        "entityId": entry.subject.entity_id,
        "entityType": entry.subject.entity_type,
        **({"detail": entry.detail} if detailed and entry.detail else {}),
    }


_AUDIT = "Audit"
_OURS = "Not part of the public API."

ACCOUNTS: tuple[Endpoint[OverviewServices], ...] = (
    Endpoint(
        name="getEntityHistory",
        method="GET",
        route="/audit/<entityType>/<entityId>",
        handler=get_entity_history,
        title="Get Entity History",
        description="Returns who created, changed or deleted a client or a role, and when, the latest first. There is "
        "no history of secrets, hooks and worker pools, which this deployment does not have.",
        category=_AUDIT,
        scopes="auth:audit-history:<entityType>",
        query=PAGING,
        output=EntityHistoryResponse,
    ),
    Endpoint(
        name="listAuditHistory",
        method="GET",
        route="/clients/<clientId>/audit",
        handler=list_audit_history,
        title="List Audit History",
        description="Returns what a client did to tasks, task groups, workers, clients and roles, and when, the latest "
        "first.",
        category=_AUDIT,
        scopes="auth:client-audit-history:<clientId>",
        query=PAGING,
        output=EntityHistoryResponse,
    ),
    Endpoint(
        name="clientAuditHistory",
        method="GET",
        route="/audit-details/by/<clientId>",
        handler=list_audit_history,
        title="Audit History of What a Client Did",
        description=f"As listAuditHistory, with what was changed. {_OURS}",
        category=_AUDIT,
        scopes="auth:client-audit-history:<clientId>",
        query=PAGING,
        output=AuditHistoryResponse,
        stability="experimental",
    ),
    Endpoint(
        name="entityAuditHistory",
        method="GET",
        route="/audit-details/<auditedType>/<entityId>",
        handler=get_entity_history,
        title="Audit History of a Client, a Role, a Path of the Index or an Internal Queue",
        description=f"As getEntityHistory, with what was changed: which scopes were granted and taken. {_OURS}",
        category=_AUDIT,
        scopes="auth:audit-history:<auditedType>",
        query=PAGING,
        output=AuditHistoryResponse,
        stability="experimental",
    ),
)
"""Those of the auth API: as upstream has them, then with details."""

AUDIT_ENDPOINTS: tuple[Endpoint[OverviewServices], ...] = (
    Endpoint(
        name="taskAuditHistory",
        method="GET",
        route="/task/<taskId>/audit",
        handler=task_audit_history,
        title="Audit History of a Task",
        description="Returns who scheduled, reran or cancelled a task or changed its priority, and what was done to "
        "its whole group. A page may be short or empty while there is more: go on until there is no "
        f"`continuationToken`. {_OURS}",
        category=_AUDIT,
        scopes="queue:status:<taskId>",
        query=PAGING,
        output=AuditHistoryResponse,
        stability="experimental",
    ),
    Endpoint(
        name="taskGroupAuditHistory",
        method="GET",
        route="/task-group/<taskGroupId>/audit",
        handler=task_group_audit_history,
        title="Audit History of a Task Group",
        description="Returns who sealed or cancelled a task group or changed its priorities, and what was done to its "
        f"tasks one by one. {_OURS}",
        category=_AUDIT,
        scopes="queue:list-task-group:<taskGroupId>",
        query=PAGING,
        output=AuditHistoryResponse,
        stability="experimental",
    ),
    Endpoint(
        name="workerAuditHistory",
        method="GET",
        route="/provisioners/<provisionerId>/worker-types/<workerType>/workers/<workerGroup>/<workerId>/audit",
        handler=worker_audit_history,
        title="Audit History of a Worker",
        description=f"Returns who quarantined or released a worker. {_OURS}",
        category=_AUDIT,
        scopes="queue:get-worker:<provisionerId>/<workerType>/<workerGroup>/<workerId>",
        query=PAGING,
        output=AuditHistoryResponse,
        stability="experimental",
    ),
)
"""Those of the queue, which only this service has."""
