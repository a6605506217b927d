"""What sending events raises: a module of its own, so that importing it does not load the Service Bus SDK."""

from __future__ import annotations

from collections.abc import Sequence

from shared.errors import ServiceError
from shared.events.messages import EventMessage


class EventsUnavailable(ServiceError):
    """Not every message was accepted. `unsent` are those that were not, though one of them may still arrive."""

    def __init__(self, unsent: Sequence[EventMessage], reason: str) -> None:
        super().__init__(f"{len(unsent)} messages could not be sent: {reason}")
        self.unsent = tuple(unsent)
