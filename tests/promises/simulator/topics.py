"""Service Bus as a world sees it: what was published, and whether anybody can publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.queue.events.announcer import EventsUnavailable
from shared.queue.events.rendering import EventMessage
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Gate, Phase, Resent, process_name

SERVICE_BUS = "service-bus"
"""Target of the publisher's requests at the gate."""
HANDLER = "handler"
"""Prefix of the names of processes in which messages are handled."""


@dataclass
class Topics:
    """A publisher that keeps what it was given; its requests pass the gate as storage's do."""

    gate: Gate
    messages: list[EventMessage] = field(default_factory=list)
    is_down: bool = False
    elapsed: Callable[[], float] = lambda: 0.0
    window: float = 3600.0
    """Seconds within which duplicate detection recognises a repeat of a MessageId (infra/)."""
    sent: dict[str, float] = field(default_factory=dict)
    """When each MessageId was published last."""
    repeats: list[str] = field(default_factory=list)
    """Events that handlers have published again so late that subscribers get them twice."""

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publishes all messages by one request."""
        call = Call(Kind.QUEUE_PUT, SERVICE_BUS)
        try:
            if (turn := self.gate(call, Phase.BEFORE)) is not None:
                await turn
            if self.is_down:
                raise EventsUnavailable(messages, "down")
            self._sent(messages)
            if (turn := self.gate(call, Phase.AFTER)) is not None:
                await turn
        except StorageUnavailable as failure:
            raise EventsUnavailable(messages, str(failure)) from failure
        except Resent:
            self._sent(messages)

    def _sent(self, messages: Sequence[EventMessage]) -> None:
        self.messages.extend(messages)
        for message in messages:
            now, before = self.elapsed(), self.sent.get(message.message_id)
            by_itself = process_name().startswith(HANDLER)  # a client that repeats a call hours later announces again
            if before is not None and now - before > self.window and by_itself:
                self.repeats.append(f"{message.topic} {message.message_id} {now - before:.0f} s later")
            self.sent[message.message_id] = now

    def ids(self) -> set[str]:
        """Returns the MessageIds, as duplicate detection sees them."""
        return {message.message_id for message in self.messages}

    def of(self, topic: str) -> list[dict[str, Any]]:
        """Returns the distinct bodies sent to a topic."""
        distinct = {message.message_id: message for message in self.messages if message.topic == topic}
        return [json.loads(message.body) for message in distinct.values()]
