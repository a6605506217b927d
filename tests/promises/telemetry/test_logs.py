"""Log lines and their fields."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry._logs import NoOpLogger
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import SpanKind

from functions.observation import observed
from shared.runtime import Runtime
from shared.store.counting import Kind, recorded
from shared.telemetry.export import _LogHandler
from shared.telemetry.logs import bound, structure_logs
from shared.telemetry.sampling import OwnChoice


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """Yields what the service's loggers log in the test."""
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
    """Returns a line's text and its fields."""
    text, _, fields = record.getMessage().partition(" {")
    return text, json.loads("{" + fields) if fields else {}


def test_a_line_ends_with_its_fields(lines: list[logging.LogRecord]) -> None:
    log.info("task %s is done", "é", extra={"action": "done", "runId": 0})
    assert split(lines[0]) == ("task é is done", {"action": "done", "runId": 0})


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


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF])
def test_lines_of_calls_that_only_read_are_exported_with_their_traces(
    lines: list[logging.LogRecord], sampler: Sampler
) -> None:
    """Lines of calls that only read are exported with their traces alone; all others are kept."""
    exported = list[str]()

    class Keep(NoOpLogger):
        def emit(self, *_: object, **said: Any) -> None:
            exported.append(said["attributes"]["call"])

    runtime = Runtime(tracer=TracerProvider(sampler=sampler).get_tracer("test"))
    handler = _LogHandler(Keep("kept"))
    logging.getLogger("taskcluster").addHandler(handler)
    try:
        for call, outcome, changes in (("status", "200", False), ("createTask", "200", True), ("task", "404", False)):
            kind = Kind.TABLE_WRITE if changes else Kind.TABLE_READ
            with observed(runtime, call, SpanKind.SERVER, {}) as seen, recorded(kind, "Tasks"):
                seen.outcome = outcome
    finally:
        logging.getLogger("taskcluster").removeHandler(handler)
    assert len(lines) == 3
    assert exported == [*(["status"] if sampler is ALWAYS_ON else []), "createTask", "task"]


def test_libraries_of_azure_say_what_is_wrong_alone(lines: list[logging.LogRecord]) -> None:
    assert not logging.getLogger("azure.servicebus._pyamqp._connection_async").isEnabledFor(logging.INFO)


def test_exporter_that_fails_fails_no_call(capsys: pytest.CaptureFixture[str], lines: list[logging.LogRecord]) -> None:
    """An exporter that fails makes no call fail, which would lose the event of a commit."""

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
