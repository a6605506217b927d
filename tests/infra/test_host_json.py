"""host.json is one with which the deployed app works: addresses, time limits, queues, extensions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shared.base.protocol import MESSAGE_LOST_AFTER
from tools.local.host.config import parse_host_json
from tools.local.state import ROOT

BUNDLE = '"version": "[4.*, 5.0.0)"'
"""The extensions whose queue trigger the local host is held against (docs/functions-host.md)."""
TIMERS = (ROOT / "functions" / "timer_triggers.py").read_text()
"""As a text: what is imported from there reads the settings of an app."""
TEXT = (ROOT / "host.json").read_text()
DAY = 86_400.0
"""Seconds: longer than storage refuses to put messages again."""


def _problems(text: str) -> Iterator[str]:
    host = parse_host_json(text)
    longest = re.search(r"^LONGEST_RUN = ([\d.]+)$", TIMERS, re.MULTILINE)
    assert longest is not None
    if host.route_prefix:
        yield f"every path would begin with /{host.route_prefix}"
    if (
        host.function_timeout is None
        or not float(longest[1]) < host.function_timeout <= MESSAGE_LOST_AFTER.total_seconds()
    ):
        yield f"functions may run for {host.function_timeout} s"
    if host.queues.message_encoding != "base64":
        yield "messages are written in base64"
    if host.queues.max_dequeue_count * host.queues.visibility_timeout < DAY:
        yield "the host gives a message up without a line, before the app does"
    if not 0 < host.queues.visibility_timeout <= 60:
        yield "a failed message comes again at once, or late"
    if host.queues.max_polling_interval > 10:
        yield "claims and deadlines are noticed late"
    if BUNDLE not in text:
        yield "these are other extensions"


def test_the_app_works_with_it() -> None:
    assert list(_problems(TEXT)) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('"routePrefix": ""', '"routePrefix": "api"', "begin with /api"),
        ('"functionTimeout": "00:10:00"', '"functionTimeout": "10:00"', "36000"),
        ('"functionTimeout": "00:10:00"', '"functionTimeout": "00:05:00"', "300"),
        ('"functionTimeout": "00:10:00"', '"functionTimeout": "-1"', "None"),
        ('"base64"', '"none"', "base64"),
        ('"maxDequeueCount": 10000', '"maxDequeueCount": 5', "gives a message up"),
        ('"visibilityTimeout": "00:00:10"', '"visibilityTimeout": "00:10:00"', "late"),
        ('"maxPollingInterval": "00:00:02"', '"maxPollingInterval": "00:02"', "noticed late"),
        ("[4.*", "[3.*", "other extensions"),
    ],
)
def test_a_mistake_in_it_is_found(old: str, new: str, found: str) -> None:
    assert old in TEXT
    assert any(found in each for each in _problems(TEXT.replace(old, new)))
