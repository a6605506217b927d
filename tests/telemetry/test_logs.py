"""Lines and their fields."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry._logs import NoOpLogger
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, Sampler
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from functions.observation import observed
from shared.base.shares import NAMELESS, share_of
from shared.runtime import Runtime
from shared.store.counting import Kind, recorded
from shared.telemetry.export import OpenTelemetrySpans, _LogHandler
from shared.telemetry.logs import Record, bound, structure_logs
from shared.telemetry.nameless import EACH_MINUTE, Nameless
from shared.telemetry.sampling import OwnChoice
from tests.unit.test_shares import in_the_name_of


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """What is logged by the service's loggers in the test."""
    found: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler, before = Keep(), logging.getLogRecordFactory()
    logger = logging.getLogger("taskcluster")
    level = logger.level
    structure_logs()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logging.setLogRecordFactory(before)


log = logging.getLogger("taskcluster.test")


def split(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """A line's text and its fields."""
    text, _, fields = record.getMessage().partition(" {")
    return text, json.loads("{" + fields) if fields else {}


def test_a_line_ends_with_its_fields(lines: list[logging.LogRecord]) -> None:
    log.info("task %s is done", "é", extra={"action": "done", "runId": 0})
    assert split(lines[0]) == ("task é is done", {"action": "done", "runId": 0})


def test_a_line_without_fields_is_its_text(lines: list[logging.LogRecord]) -> None:
    log.info("100%")
    log.info("nothing of %s", "note")
    assert [line.getMessage() for line in lines] == ["100%", "nothing of note"]


def test_half_characters_are_escaped(lines: list[logging.LogRecord]) -> None:
    """The host's handler sends text as UTF-8, and would fail the call that logs it."""
    log.info("name %s, é", "\ud800", extra={"note": "\udfff"})
    assert lines[0].getMessage().encode().decode() == 'name \\ud800, é {"note": "\\udfff"}'


def test_bound_fields_are_in_every_line_inside(lines: list[logging.LogRecord]) -> None:
    with bound(requestId="r", call="claimWork"):
        log.info("a")
        with bound(taskId="t", call="inner"):
            log.info("b", extra={"taskId": "u"})
        log.info("c")
    log.info("d")
    assert [split(line)[1] for line in lines] == [
        {"requestId": "r", "call": "claimWork"},
        {"requestId": "r", "call": "inner", "taskId": "u"},
        {"requestId": "r", "call": "claimWork"},
        {},
    ]


async def test_calls_side_by_side_do_not_mix_their_fields(lines: list[logging.LogRecord]) -> None:
    async def call(number: int) -> None:
        with bound(number=number):
            await asyncio.sleep(0)
            log.info("x")
            await asyncio.create_task(inner())

    async def inner() -> None:
        log.info("y")

    await asyncio.gather(*(call(number) for number in range(3)))
    numbers = [(split(line)[0], split(line)[1]["number"]) for line in lines]
    assert sorted(numbers) == [(text, number) for text in "xy" for number in range(3)]


def test_a_failure_keeps_its_stack_and_its_fields(lines: list[logging.LogRecord]) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed", extra={"action": "failed"})
    text = logging.Formatter().format(lines[0])
    assert text.startswith('failed {"action": "failed"}\nTraceback')
    assert text.endswith("ValueError: no")


def test_lines_of_others_stay_as_they_are() -> None:
    with bound(requestId="r"):
        record = Record("azure.core", logging.INFO, "file", 1, "text %d", (1,), None)
    assert record.getMessage() == "text 1"
    assert Record("taskclusters", logging.INFO, "file", 1, "text", (), None).fields == {}


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF])
def test_lines_of_calls_that_only_read_are_exported_with_their_traces(
    lines: list[logging.LogRecord], sampler: Sampler
) -> None:
    """They are most of all lines; those of calls that change something, or are refused, are all kept."""
    exported = list[str]()

    class Keep(NoOpLogger):
        def emit(self, *_: object, **said: Any) -> None:
            exported.append(said["attributes"]["call"])

    tracer = OpenTelemetrySpans(TracerProvider(sampler=sampler).get_tracer("test"))
    runtime = Runtime(tracer=tracer)
    handler = _LogHandler(Keep("kept"))
    logging.getLogger("taskcluster").addHandler(handler)
    try:
        for call, outcome, changes in (("status", "200", False), ("createTask", "200", True), ("task", "404", False)):
            kind = Kind.TABLE_WRITE if changes else Kind.TABLE_READ
            with observed(runtime, call, "server", {}) as seen, recorded(kind, "Tasks"):
                seen.outcome = outcome
    finally:
        logging.getLogger("taskcluster").removeHandler(handler)
    assert len(lines) == 3
    assert exported == [*(["status"] if sampler is ALWAYS_ON else []), "createTask", "task"]


def test_libraries_of_azure_say_what_is_wrong_alone(lines: list[logging.LogRecord]) -> None:
    assert not logging.getLogger("azure.servicebus._pyamqp._connection_async").isEnabledFor(logging.INFO)


def test_exporter_that_fails_fails_no_call(capsys: pytest.CaptureFixture[str], lines: list[logging.LogRecord]) -> None:
    """Between a commit and its announcement, a line that raises would lose the event."""

    class Broken(NoOpLogger):
        def emit(self, *_: object, **__: object) -> None:
            raise RuntimeError("no room")

    handler = _LogHandler(Broken("broken"))
    log.addHandler(handler)
    try:
        log.info("a line")
    finally:
        log.removeHandler(handler)
    assert len(lines) == 1
    assert "no room" in capsys.readouterr().err


class Sent(NoOpLogger):
    """Keeps what is exported."""

    def __init__(self) -> None:
        super().__init__("test")
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def emit(self, *arguments: Any, **line: Any) -> None:
        self.lines.append((line["body"], line["attributes"]))


@pytest.fixture
def sent(lines: list[logging.LogRecord]) -> Iterator[tuple[Sent, _LogHandler]]:
    logger = Sent()
    handler = _LogHandler(logger)
    logging.getLogger("taskcluster").addHandler(handler)
    yield logger, handler
    logging.getLogger("taskcluster").removeHandler(handler)


def test_calls_without_a_name_fill_no_log(sent: tuple[Sent, _LogHandler]) -> None:
    """The daily cap of a deployment's log is where its alerts stop."""
    logger, handler = sent
    clock = 0.0
    handler._nameless = Nameless(lambda: clock)
    with in_the_name_of(NAMELESS):
        for number in range(1000):
            with bound(call="status", requestId=str(number)):
                log.info("status: 403", extra={"action": "call_done", "outcome": "403"})
        log.warning("storage failed", extra={"action": "storage_unavailable"})
    with in_the_name_of(share_of("somebody")):
        log.info("named", extra={"action": "call_done", "outcome": "200"})
    assert [text for text, _ in logger.lines] == ["status: 403"] * EACH_MINUTE + ["storage failed", "named"]
    clock = 60.0
    with in_the_name_of(NAMELESS):
        log.info("status: 403", extra={"action": "call_done", "outcome": "403"})
    (summary, attributes), (text, _) = logger.lines[-2:]
    assert (attributes["action"], attributes["lines"]) == ("lines_left_out", 1000 - EACH_MINUTE)
    assert "980 × INFO status 403" in summary
    assert text == "status: 403"
    assert "requestId" not in attributes


def test_a_stranger_does_not_decide_what_is_traced() -> None:
    stranger = TraceContextTextMapPropagator().extract({"traceparent": f"00-{1:032x}-{1:016x}-01"})
    outcomes = iter([0.1, 0.9, 0.1])
    sampler = OwnChoice(0.5, lambda: next(outcomes))
    kept = [sampler.should_sample(stranger, 1, "call").decision is Decision.RECORD_AND_SAMPLE for _ in range(2)]
    assert kept == [True, False]
    spans = TracerProvider(sampler=sampler).get_tracer("test")
    with spans.start_as_current_span("call", context=stranger) as call, spans.start_as_current_span("below") as below:
        assert [each.is_recording() for each in (call, below)] == [True, True]
        assert below.get_span_context().trace_id == 1, "it is found by the caller's trace all the same"


@pytest.mark.parametrize(
    ("kind", "argument", "ratio"),
    [
        ("", "", 1),
        ("parentbased_traceidratio", "0.2", 0.2),
        ("traceidratio", "0", 0.0),
        ("parentbased_always_off", "", 0),
        ("always_on", "0.3", 1),
    ],
)
def test_the_share_of_traces_is_set_as_opentelemetry_has_it(kind: str, argument: str, ratio: float) -> None:
    sampler = OwnChoice.of({"OTEL_TRACES_SAMPLER": kind, "OTEL_TRACES_SAMPLER_ARG": argument})
    assert sampler.get_description() == f"OwnChoice{{{ratio}}}"
