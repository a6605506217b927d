"""Service Bus as a world sees it: what was published, and whether anybody can publish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.queue.events.breaker import EventsUnavailable
from shared.queue.events.rendering import EventMessage
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.twin.gate import Call, Gate, Phase, Resent

SERVICE_BUS = "service-bus"
"""Target of the publisher's requests at the gate."""


@dataclass
class Topics:
    """A publisher that keeps what it was given; its requests pass the gate as storage's do."""

    gate: Gate
    messages: list[EventMessage] = field(default_factory=list)
    is_down: bool = False

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """One request for all."""
        call = Call(Kind.QUEUE_PUT, SERVICE_BUS)
        try:
            if (turn := self.gate(call, Phase.BEFORE)) is not None:
                await turn
            if self.is_down:
                raise EventsUnavailable(messages, "down")
            self.messages.extend(messages)
            if (turn := self.gate(call, Phase.AFTER)) is not None:
                await turn
        except StorageUnavailable as failure:
            raise EventsUnavailable(messages, str(failure)) from failure
        except Resent:
            self.messages.extend(messages)

    def ids(self) -> set[str]:
        """MessageIds, as duplicate detection sees them."""
        return {message.message_id for message in self.messages}

    def of(self, topic: str) -> list[dict[str, Any]]:
        """The distinct bodies sent to a topic."""
        distinct = {message.message_id: message for message in self.messages if message.topic == topic}
        return [json.loads(message.body) for message in distinct.values()]
