"""What the spans of requests and of sent events say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.observation import traced_request
from shared.queue.events.breaker import EventsUnavailable
from shared.queue.events.rendering import EventMessage
from shared.telemetry.tracing import Attributes, Kind


@dataclass
class Recorded:
    """A span as it was recorded."""

    name: str
    kind: Kind
    attributes: dict[str, Any]
    failed: str | None = None

    def note(self, attributes: Attributes) -> None:
        self.attributes |= attributes

    def fail(self, reason: str) -> None:
        self.failed = reason


@dataclass
class Recorder:
    """A tracer that keeps its spans."""

    is_on: bool = True
    spans: list[Recorded] = field(default_factory=list)

    @contextmanager
    def span(self, name: str, kind: Kind, attributes: Attributes, *, parent: str | None = None) -> Iterator[Recorded]:
        self.spans.append(Recorded(name, kind, dict(attributes)))
        yield self.spans[-1]


@pytest.mark.parametrize(("status", "failed"), [(200, None), (404, None), (499, None), (500, "500"), (503, "503")])
def test_the_span_of_a_storage_request_has_its_status_and_no_signature(status: int, failed: str | None) -> None:
    recorder = Recorder()
    with traced_request(recorder, "table", "PUT", "https://account.table.example.com/Tasks?sig=secret") as answered:
        answered(status)
    (span,) = recorder.spans
    assert (span.name, span.kind, span.failed) == ("table PUT", "client", failed)
    assert span.attributes == {
        "http.request.method": "PUT",
        "server.address": "account.table.example.com",
        "url.path": "/Tasks",
        "http.response.status_code": status,
    }


class Topics:
    """A publisher that is there, or is not."""

    def __init__(self, *, unavailable: bool) -> None:
        self._unavailable = unavailable

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        if self._unavailable:
            raise EventsUnavailable(messages, "no broker")
