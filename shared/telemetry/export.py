"""Telemetry to Application Insights and to OTLP collectors, with OpenTelemetry's SDK. Imported only where an exporter
is set up: the SDK takes a third of a second to load, Azure's exporter another."""

from __future__ import annotations

import logging
import os
import time
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

from shared.base.settings import Settings
from shared.telemetry.instruments import INSTRUMENTS, SCOPE, Instrument
from shared.telemetry.logs import NAMESPACE, READS, Record
from shared.telemetry.meter import Labels, Meter
from shared.telemetry.sampling import Nameless, OwnChoice

log = logging.getLogger("taskcluster.telemetry")

GAUGE_SECONDS = 150.0
"""The seconds for which a gauge is reported after it was read: gauges are read every minute."""


def start_export(settings: Settings, meter: Meter) -> None:
    """Starts what the settings ask for. Exports what `meter` has counted so far, and everything that is measured from
    now on. OpenTelemetry sends in the background, and flushes when the process stops in an orderly way."""
    resource = Resource.create(
        {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", "") or SCOPE,
            "service.version": settings.app_version,
            "service.instance.id": meter.process,
        }
    )
    traces = TracerProvider(sampler=OwnChoice.of(os.environ), resource=resource)
    trace.set_tracer_provider(traces)  # from now on the process's tracer records; Azure's exporter finds the resource
    for span_exporter in _exporters(settings, "traces"):
        traces.add_span_processor(_SpanProcessor(span_exporter))
    readers = [PeriodicExportingMetricReader(exporter) for exporter in _exporters(settings, "metrics")]
    measured = MeterProvider(metric_readers=readers, resource=resource).get_meter(SCOPE)
    lines = logging.getLogger(NAMESPACE)
    if processors := [BatchLogRecordProcessor(exporter) for exporter in _exporters(settings, "logs")]:
        logs = LoggerProvider(resource=resource)
        for processor in processors:
            logs.add_log_record_processor(processor)
        lines.addHandler(_LogHandler(logs.get_logger(SCOPE)))
    take = {instrument: _taker(measured, instrument) for instrument in INSTRUMENTS}
    meter.listen(lambda instrument, value, labels: take[instrument](value, labels))
    log.info("telemetry is exported", extra={"action": "telemetry_started"})
    if settings.applicationinsights_connection_string is not None:
        lines.propagate = False  # else the Functions host would send each line a second time, as plain text


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
    """Yields the exporters of a signal that are set up; others are not loaded. `none` in OpenTelemetry's own variable
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


def _taker(meter: metrics.Meter, instrument: Instrument) -> Callable[[float, Labels], None]:
    """Returns a function that passes measurements on to OpenTelemetry's instrument of the same name."""
    name, unit, text = instrument.name, instrument.unit, instrument.description
    if instrument.kind == "counter":
        take: Callable[[float, dict[str, str]], None] = meter.create_counter(name, unit, text).add
    elif instrument.kind == "gauge":
        gauge = _Gauge()
        meter.create_observable_gauge(name, [gauge.observe], unit, text)
        take = gauge.set
    else:
        buckets = list(instrument.buckets)
        take = meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=buckets).record
    return lambda value, labels: take(value, dict(zip(instrument.labels, labels, strict=True)))


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


_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.NOTSET, SeverityNumber.DEBUG),
)


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
            if left_out := self._nameless.left_out():
                lines, most = left_out.total(), ", ".join(f"{n} × {what}" for what, n in left_out.most_common(10))
                text = f"{lines} lines of calls without a name were left out in a minute: {most}"
                about: dict[str, str | int | float] = {"action": "lines_left_out", "logger": NAMESPACE, "lines": lines}
                self._export_batch(record.created, logging.INFO, text, about)
            if record.name == READS and not trace.get_current_span().get_span_context().trace_flags.sampled:
                return
            fields = record.fields if isinstance(record, Record) else {}
            what = f"{record.levelname} {fields.get('call', '')} {fields.get('outcome', fields.get('action', ''))}"
            if not self._nameless.may_record(record.levelname, what):
                return
            attributes: dict[str, str | int | float] = {
                name: value if isinstance(value, str | int | float) else str(value) for name, value in fields.items()
            }
            if record.exc_info:
                attributes["exception.stacktrace"] = logging.Formatter().formatException(record.exc_info)
            text = str(record.msg) % record.args if record.args else str(record.msg)
            self._export_batch(record.created, record.levelno, text, {**attributes, "logger": record.name})
        except Exception:
            self.handleError(record)

    def _export_batch(self, created: float, level: int, text: str, attributes: Mapping[str, str | int | float]) -> None:
        self._logger.emit(
            timestamp=int(created * 1e9),
            severity_number=next(number for least, number in _SEVERITIES if level >= least),
            severity_text=logging.getLevelName(level),
            body=text,
            attributes=attributes,
        )
