"""Spans around what a call asks of the platform: each storage request, each sending of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncHTTPPolicy

from shared.events.messages import EventMessage
from shared.events.publisher import EventsUnavailable
from shared.telemetry.tracing import Tracer
from shared.usecases.announcer import Publisher


class TracingPolicy(AsyncHTTPPolicy[Any, Any]):
    """A span for each request to a storage service, its retries included. Query strings, which may hold a signature,
    are left out."""

    def __init__(self, tracer: Tracer, service: str) -> None:
        super().__init__()
        self._tracer = tracer
        self._service = service

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """The request in its span."""
        url, method = urlsplit(request.http_request.url), request.http_request.method
        attributes = {"http.request.method": method, "server.address": url.hostname or "", "url.path": url.path}
        with self._tracer.span(f"{self._service} {method}", "client", attributes) as span:
            response = await self.next.send(request)
            status = response.http_response.status_code
            span.note({"http.response.status_code": status})
            if status >= 500:
                span.fail(str(status))
        return response


class TracedPublisher:
    """A publisher whose sending shows in traces."""

    def __init__(self, publisher: Publisher, tracer: Tracer) -> None:
        self._publisher = publisher
        self._tracer = tracer

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """As the publisher that it stands before."""
        topics = ",".join(sorted({message.topic for message in messages}))
        attributes = {"messaging.system": "servicebus", "messaging.destination.name": topics}
        with self._tracer.span("publish", "producer", attributes) as span:
            try:
                await self._publisher.publish(messages)
            except EventsUnavailable:
                span.fail("unavailable")
                raise
