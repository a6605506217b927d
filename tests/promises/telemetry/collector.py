"""A collector for tests that takes OTLP over HTTP, and what Azure Monitor's exporter sends."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped] # no types are shipped
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Json = dict[str, Any]


@dataclass
class Collector:
    """What has arrived so far, flattened."""

    url: str
    spans: list[Json] = field(default_factory=list)
    metrics: list[Json] = field(default_factory=list)
    logs: list[Json] = field(default_factory=list)
    resources: list[Json] = field(default_factory=list)
    envelopes: list[Json] = field(default_factory=list)
    """The envelopes sent to Application Insights."""

    def points(self, name: str) -> list[Json]:
        """Returns the data points of a metric, oldest export first, each with its attributes as `labels`."""
        found = []
        for metric in self.metrics:
            if metric["name"] == name:
                for kind in ("sum", "gauge", "histogram"):
                    found += [
                        {**point, "labels": attributes(point)} for point in metric.get(kind, {}).get("dataPoints", [])
                    ]
        return found

    def take(self, path: str, body: bytes) -> None:
        """Takes a request's body."""
        if path == "/v1/traces":
            for resource in MessageToDict(ExportTraceServiceRequest.FromString(body))["resourceSpans"]:
                self.resources.append(attributes(resource["resource"]))
                self.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
        elif path == "/v1/metrics":
            for resource in MessageToDict(ExportMetricsServiceRequest.FromString(body))["resourceMetrics"]:
                self.metrics += [metric for scope in resource["scopeMetrics"] for metric in scope["metrics"]]
        elif path == "/v1/logs":
            for resource in MessageToDict(ExportLogsServiceRequest.FromString(body))["resourceLogs"]:
                self.logs += [line for scope in resource["scopeLogs"] for line in scope["logRecords"]]
        elif path.endswith("/track"):
            self.envelopes += json.loads(body)


def attributes(part: Json) -> Json:
    """Returns OTLP's attributes as a dictionary."""
    return {each["key"]: next(iter(each["value"].values()), None) for each in part.get("attributes", [])}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Yields a collector on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            taken = len(json.loads(body)) if self.path.endswith("/track") else 0
            answer = json.dumps({"itemsReceived": taken, "itemsAccepted": taken, "errors": []}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json" if taken else "application/x-protobuf")
            self.send_header("content-length", str(len(answer) if taken else 0))
            self.end_headers()
            if taken:
                self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing: the test reports what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
