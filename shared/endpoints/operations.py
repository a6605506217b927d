"""Endpoints for those who operate the deployment: models, rows and handlers (contract 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from shared.api.endpoint import Call, Endpoint
from shared.domain.dates import format_date
from shared.services.overview import OverviewServices
from shared.types import Closed, Count, Date, optional


class InternalQueue(Closed):
    """How many messages an internal queue holds, hidden ones included, and how many it has given up."""

    queue: str
    messages: Count
    poison: Count


class OperationsResponse(Closed):
    """What the service itself knows of its work. A time is absent where there was none."""

    queues: list[InternalQueue]
    expiryNoted: Date = optional()
    expiredBefore: Date = optional()
    reconcilerNoted: Date = optional()
    sampled: Date = optional()


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
        "sampled": times.sample,
    }
    return {"queues": queues, **{name: format_date(time) for name, time in found.items() if time is not None}}


async def list_poison_messages(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """listPoisonMessages."""
    return {"messages": await services.operations.given_up(call.params["queueName"])}


async def redrive_poison_messages(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """redrivePoisonMessages."""
    return await _move(services, call, "redrive")


async def delete_poison_messages(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """deletePoisonMessages."""
    return await _move(services, call, "delete")


async def _move(services: OverviewServices, call: Call, how: Any) -> Mapping[str, Any]:
    message_id = call.payload(MovePoisonMessagesRequest).messageId
    moved = await services.operations.move(call.params["queueName"], how, message_id)
    return {"moved": moved.done, "left": moved.left}


_MANAGE = "queue:manage-poison-messages:<queueName>"

ENDPOINTS: tuple[Endpoint[OverviewServices], ...] = (
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
        output_schema="operations-response",
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
        output_schema="list-poison-messages-response",
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
        input_schema="move-poison-messages-request",
        output=MovePoisonMessagesResponse,
        output_schema="move-poison-messages-response",
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
        input_schema="move-poison-messages-request",
        output=MovePoisonMessagesResponse,
        output_schema="move-poison-messages-response",
        stability="experimental",
    ),
)
