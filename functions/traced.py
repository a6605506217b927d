"""Spans around what a call asks of the platform: each storage request, each sending of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from shared.events.messages import EventMessage
from shared.events.unavailable import EventsUnavailable
from shared.telemetry.tracing import Tracer
from shared.usecases.announcer import Publisher


@contextmanager
def traced_request(tracer: Tracer, service: str, method: str, url: str) -> Iterator[Callable[[int], None]]:
    """A span for a request to a storage service, its retries included; to be given the status of the answer.

    Query strings, which may hold a signature, are left out.
    """
    parts = urlsplit(url)
    attributes = {"http.request.method": method, "server.address": parts.hostname or "", "url.path": parts.path}
    with tracer.span(f"{service} {method}", "client", attributes) as span:

        def answered(status: int) -> None:
            span.note({"http.response.status_code": status})
            if status >= 500:
                span.fail(str(status))

        yield answered


class TracedPublisher:
    """A publisher whose sending shows in traces."""

    def __init__(self, publisher: Publisher, tracer: Tracer) -> None:
        self._publisher = publisher
        self._tracer = tracer

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """As `publish` of the wrapped publisher, in a span."""
        topics = ",".join(sorted({message.topic for message in messages}))
        attributes = {"messaging.system": "servicebus", "messaging.destination.name": topics}
        with self._tracer.span("publish", "producer", attributes) as span:
            try:
                await self._publisher.publish(messages)
            except EventsUnavailable:
                span.fail("unavailable")
                raise
