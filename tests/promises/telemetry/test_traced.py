"""The content of the spans of requests."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from functions.observation import traced_request


@pytest.mark.parametrize(("status", "failed"), [(200, None), (404, None), (499, None), (500, "500"), (503, "503")])
def test_the_span_of_a_storage_request_has_its_status_and_no_signature(status: int, failed: str | None) -> None:
    kept, traces = InMemorySpanExporter(), TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(kept))
    url = "https://account.table.example.com/Tasks?sig=secret"
    with traced_request(traces.get_tracer("test"), "table", "PUT", url) as answered:
        answered(status)
    (span,) = kept.get_finished_spans()
    assert (span.name, span.kind, span.status.description) == ("table PUT", SpanKind.CLIENT, failed)
    assert span.attributes == {
        "http.request.method": "PUT",
        "server.address": "account.table.example.com",
        "url.path": "/Tasks",
        "http.response.status_code": status,
    }
