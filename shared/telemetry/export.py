"""Telemetry to Application Insights and to OTLP collectors, with OpenTelemetry's SDK.

Imported only where an exporter is set up: the SDK takes a third of a second to load, Azure's exporter another.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Literal

from opentelemetry import metrics, trace
from opentelemetry._logs import Logger, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.telemetry.instruments import INSTRUMENTS, SCOPE, Instrument
from shared.telemetry.logs import NAMESPACE, READS, Record
from shared.telemetry.meter import Labels, Meter, bounded
from shared.telemetry.nameless import Nameless
from shared.telemetry.sampling import OwnChoice

_Take = Callable[[float, dict[str, str]], None]
GAUGE_SECONDS = 150.0
"""The seconds for which a gauge is reported after it was read: gauges are read every minute."""


@dataclass(frozen=True)
class Export:
    """The OpenTelemetry providers. They send in the background, and flush when the process stops in an orderly way."""

    traces: TracerProvider
    metrics: MeterProvider
    logs: LoggerProvider | None
    handler: logging.Handler | None
    replaces_host: bool
    """Whether log lines go to Application Insights, where the Functions host would send their text as well."""

    def listen(self, meter: Meter) -> None:
        """Exports what has been counted so far, and everything that is measured from now on."""
        meter.listen(_Measurements(self.metrics.get_meter(SCOPE)))

    def take_lines(self) -> None:
        """Lets only the exporter send log lines from now on, if the host would send each of them a second time, as
        plain text."""
        if self.replaces_host:
            logging.getLogger(NAMESPACE).propagate = False

    def close(self) -> None:
        """Flushes and shuts down."""
        logging.getLogger(NAMESPACE).propagate = True
        if self.handler is not None:
            logging.getLogger(NAMESPACE).removeHandler(self.handler)
        self.traces.shutdown()
        self.metrics.shutdown()
        if self.logs is not None:
            self.logs.shutdown()


def start_export(settings: Settings, process: str) -> Export:
    """Starts what the settings ask for; `process` names this process among those of the deployment."""
    resource = Resource.create(
        {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", "") or SCOPE,
            "service.version": settings.app_version,
            "service.instance.id": process,
        }
    )
    traces = TracerProvider(sampler=OwnChoice.of(os.environ), resource=resource)
    trace.set_tracer_provider(traces)  # from now on the process's tracer records; Azure's exporter finds the resource
    for span_exporter in _exporters(settings, "traces"):
        traces.add_span_processor(_SpanProcessor(span_exporter))
    readers = [PeriodicExportingMetricReader(exporter) for exporter in _exporters(settings, "metrics")]
    measured = MeterProvider(metric_readers=readers, resource=resource)
    logs = _logs(settings, resource)
    handler = None
    if logs is not None:
        handler = _LogHandler(logs.get_logger(SCOPE))
        logging.getLogger(NAMESPACE).addHandler(handler)
    replaces_host = settings.applicationinsights_connection_string is not None
    return Export(traces, measured, logs, handler, replaces_host)


class _SpanProcessor(BatchSpanProcessor):
    """Exports spans, but only few of calls without a name."""

    def __init__(self, exporter: SpanExporter) -> None:
        super().__init__(exporter)
        self._nameless = Nameless()

    def on_end(self, span: ReadableSpan) -> None:
        self._nameless.left_out()
        if self._nameless.may_record("span", span.name):
            super().on_end(span)


_EXPORTERS = {
    "traces": ("trace_exporter.OTLPSpanExporter", "AzureMonitorTraceExporter"),
    "metrics": ("metric_exporter.OTLPMetricExporter", "AzureMonitorMetricExporter"),
    "logs": ("_log_exporter.OTLPLogExporter", "AzureMonitorLogExporter"),
}
"""For each signal, the exporters for an OTLP collector and for Application Insights."""


def _exporters(settings: Settings, signal: Literal["traces", "metrics", "logs"]) -> Iterator[Any]:
    """The exporters of a signal that are set up; others are not loaded. `none` in OpenTelemetry's own variable
    (OTEL_TRACES_EXPORTER, …) switches that for the collector off."""
    otlp, azure = _EXPORTERS[signal]
    if settings.otel_exporter_otlp_endpoint and os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "") != "none":
        module, _, name = otlp.partition(".")
        yield getattr(import_module(f"opentelemetry.exporter.otlp.proto.http.{module}"), name)()
    if settings.applicationinsights_connection_string is not None:
        # Azure's exporters send statistics about themselves to Microsoft unless they are configured not to.
        os.environ.setdefault("APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL", "true")
        text = settings.applicationinsights_connection_string.get_secret_value()
        yield getattr(import_module("azure.monitor.opentelemetry.exporter"), azure)(connection_string=text)


def _logs(settings: Settings, resource: Resource) -> LoggerProvider | None:
    exporters = list(_exporters(settings, "logs"))
    if not exporters:
        return None
    provider = LoggerProvider(resource=resource)
    for exporter in exporters:
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    return provider


class _Measurements:
    """Passes measurements on to OpenTelemetry's instruments of the same names."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._take = {instrument: _taker(meter, instrument) for instrument in INSTRUMENTS}
        self._series: dict[Instrument, set[Labels]] = {instrument: set() for instrument in INSTRUMENTS}

    def __call__(self, instrument: Instrument, value: float, labels: Labels) -> None:
        if instrument.kind != "gauge":  # gauges forget
            labels = bounded(labels, self._series[instrument])
            self._series[instrument].add(labels)
        self._take[instrument](value, dict(zip(instrument.labels, labels, strict=True)))


def _taker(meter: metrics.Meter, instrument: Instrument) -> _Take:
    name, unit, text = instrument.name, instrument.unit, instrument.description
    if instrument.kind == "counter":
        return meter.create_counter(name, unit, text).add
    if instrument.kind == "gauge":
        gauge = _Gauge()
        meter.create_observable_gauge(name, [gauge.observe], unit, text)
        return gauge.set
    buckets = list(instrument.buckets)
    return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=buckets).record


class _Gauge:
    """Values that are reported only while they are fresh: another process may read the gauges next time."""

    def __init__(self) -> None:
        self._values: dict[tuple[tuple[str, str], ...], tuple[float, float]] = {}

    def set(self, value: float, labels: dict[str, str]) -> None:
        self._values[tuple(labels.items())] = (time.monotonic(), value)

    def observe(self, options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        oldest = time.monotonic() - GAUGE_SECONDS
        for labels, (read, value) in list(self._values.items()):
            if read >= oldest:
                yield metrics.Observation(value, dict(labels))
            else:
                del self._values[labels]


class _LogHandler(logging.Handler):
    """Passes log records with their fields and the current span on to OpenTelemetry."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger
        self._nameless = Nameless()

    def emit(self, record: logging.LogRecord) -> None:
        """Passes one record on. Reports failures on stderr, as all handlers of `logging` do, so that they never fail
        the call that logs."""
        try:
            self._summarise(record.created, self._nameless.left_out())
            if record.name == READS and not trace.get_current_span().get_span_context().trace_flags.sampled:
                return
            fields = record.fields if isinstance(record, Record) else {}
            what = f"{record.levelname} {fields.get('call', '')} {fields.get('outcome', fields.get('action', ''))}"
            if self._nameless.may_record(record.levelname, what):
                self._export(record, fields)
        except Exception:
            self.handleError(record)

    def _summarise(self, now: float, left_out: Counter[str]) -> None:
        if left_out:
            most = ", ".join(f"{count} × {what}" for what, count in left_out.most_common(10))
            text = f"{left_out.total()} lines of calls without a name were left out in a minute: {most}"
            fields = {"action": "lines_left_out", "logger": NAMESPACE}
            self._send(now, logging.INFO, text, {**fields, "lines": left_out.total()})

    def _export(self, record: logging.LogRecord, fields: Mapping[str, object]) -> None:
        attributes: dict[str, str | int | float] = {
            name: value if isinstance(value, str | int | float) else str(value) for name, value in fields.items()
        }
        if record.exc_info:
            attributes["exception.stacktrace"] = logging.Formatter().formatException(record.exc_info)
        text = str(record.msg) % record.args if record.args else str(record.msg)
        self._send(record.created, record.levelno, text, {**attributes, "logger": record.name})

    def _send(self, created: float, level: int, text: str, attributes: Mapping[str, str | int | float]) -> None:
        self._logger.emit(
            timestamp=int(created * 1e9),
            severity_number=_severity(level),
            severity_text=logging.getLevelName(level),
            body=text,
            attributes=attributes,
        )


def _severity(level: int) -> SeverityNumber:
    for bound, severity in (
        (logging.CRITICAL, SeverityNumber.FATAL),
        (logging.ERROR, SeverityNumber.ERROR),
        (logging.WARNING, SeverityNumber.WARN),
        (logging.INFO, SeverityNumber.INFO),
    ):
        if level >= bound:
            return severity
    return SeverityNumber.DEBUG
