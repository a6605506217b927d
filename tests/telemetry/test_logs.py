"""Lines and their fields."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry._logs import NoOpLogger

from shared.telemetry.export import _LogHandler
from shared.telemetry.logs import Record, bound, structure_logs


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
