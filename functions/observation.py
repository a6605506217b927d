"""Observes each call and each message: one log line, one span, its duration, and how many storage requests it made.
Each storage request and each sending of events has a span below that of its call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.base.errors import CallAgain
from shared.queue.events.announcer import EventsUnavailable, Publisher
from shared.queue.events.rendering import EventMessage
from shared.runtime import Runtime
from shared.store.counting import counting
from shared.telemetry.instruments import DURATION, STORAGE_OPERATIONS
from shared.telemetry.logs import READS, bound

_PARENTS = TraceContextTextMapPropagator()


@contextmanager
def traced_request(tracer: Tracer, service: str, method: str, url: str) -> Iterator[Callable[[int], None]]:
    """Yields a span for a request to a storage service, its retries included. The caller sends it the status of the
    answer. Query strings, which may hold a signature, are left out."""
    parts = urlsplit(url)
    attributes = {"http.request.method": method, "server.address": parts.hostname or "", "url.path": parts.path}
    with tracer.start_as_current_span(f"{service} {method}", kind=SpanKind.CLIENT, attributes=attributes) as span:

        def answered(status: int) -> None:
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(StatusCode.ERROR, str(status))

        yield answered


@dataclass(frozen=True)
class TracedPublisher:
    """A publisher that records a span for each sending."""

    _publisher: Publisher
    _tracer: Tracer

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publishes through the wrapped publisher, in a span."""
        topics = ",".join(sorted({message.topic for message in messages}))
        attributes = {"messaging.system": "servicebus", "messaging.destination.name": topics}
        with self._tracer.start_as_current_span("publish", kind=SpanKind.PRODUCER, attributes=attributes) as span:
            try:
                await self._publisher.publish(messages)
            except EventsUnavailable:
                span.set_status(StatusCode.ERROR, "unavailable")
                raise


log = logging.getLogger("taskcluster.calls")
reads = logging.getLogger(READS)


@dataclass
class Observed:
    """What is observed of a call or message, filled in while it is handled: its outcome, whether a failure is the
    service's own, and further fields."""

    outcome: str = "broken off"
    failed: bool = False
    fields: dict[str, str | int] = field(default_factory=dict)


@contextmanager
def observed(
    runtime: Runtime, call: str, kind: SpanKind, fields: dict[str, str | int], *, parent: str | None = None
) -> Iterator[Observed]:
    """Returns a context manager around one call or message. `fields` are in every line that is logged inside. `parent`
    is the caller's span, as a W3C traceparent."""
    seen, started = Observed(), time.monotonic()
    tracer = runtime.tracer
    context = _PARENTS.extract({"traceparent": parent}) if parent and tracer else None
    with (
        bound(call=call, **fields),
        counting() as operations,
        tracer.start_as_current_span(call, context, kind, fields) if tracer else nullcontext(INVALID_SPAN) as span,
    ):
        try:
            yield seen
        finally:
            seconds = time.monotonic() - started
            runtime.meter.record(DURATION, seconds, call, seen.outcome)
            runtime.meter.record(STORAGE_OPERATIONS, operations.total, call)
            figures = {**seen.fields, "outcome": seen.outcome, "storageOperations": operations.total}
            span.set_attributes(figures)
            if seen.failed:
                span.set_status(StatusCode.ERROR, seen.outcome)
            is_success = seen.outcome[0] in "23" or seen.outcome == CallAgain.outcome
            is_read = is_success and not operations.has_changed
            (reads if is_read else log).info(
                "%s: %s after %.0f ms",
                call,
                seen.outcome,
                seconds * 1000,
                extra={"action": "call_done", "milliseconds": round(seconds * 1000, 1), **figures},
            )
