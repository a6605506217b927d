"""The deployed app works with host.json: addresses, time limits, queues, extensions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import functions
from shared.queue.groups import jobs
from shared.queue.tasks import reconciler
from tests.promises.infra import templates
from tools.local.host.config import parse_host_json
from tools.local.state import ROOT

BUNDLE = '"version": "[4.*, 5.0.0)"'
"""Versions of the extensions whose queue trigger the local host is compared with (docs/functions-host.md)."""
FRONT_END = 230.0
"""Seconds after which Azure's front end cuts the connection of a call."""
TEXT = (ROOT / "host.json").read_text()
DAY = 86_400.0
"""Seconds of a day, which is longer than storage refuses to put messages again."""


def _problems(text: str) -> Iterator[str]:
    host = parse_host_json(text)
    if host.route_prefix:
        yield f"every path would begin with /{host.route_prefix}"
    if host.function_timeout != functions.LONGEST_RUN + functions.MARGIN:
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


def test_everything_ends_before_the_host_ends_it() -> None:
    """Every call, run and job ends before the host would end it, together with the calls and messages beside it."""
    timers = (ROOT / "functions" / "timer_triggers.py").read_text()  # its import reads the settings of an app
    assert "EXPIRY_SECONDS = 240.0\n" in timers
    for seconds in (jobs.JOB_SECONDS, reconciler.LONGEST_CHECK, 240.0):
        assert seconds + functions.MARGIN <= functions.LONGEST_RUN
    assert functions.LONGEST_CALL < FRONT_END < functions.LONGEST_RUN


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('"routePrefix": ""', '"routePrefix": "api"', "begin with /api"),
        ('"functionTimeout": "00:05:00"', '"functionTimeout": "05:00"', "18000"),
        ('"functionTimeout": "00:05:00"', '"functionTimeout": "00:04:00"', "240"),
        ('"functionTimeout": "00:05:00"', '"functionTimeout": "-1"', "None"),
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


def test_alerts_and_workbook_read_what_the_host_and_the_app_write() -> None:
    """Alerts and the workbook read what the host and the app write. The host sends only failed requests, so nothing but
    failures may be counted by them."""
    levels = json.loads(TEXT)["logging"]["logLevel"]
    assert (levels["default"], levels["Host.Results"], levels["Azure.Core"]) == ("Warning", "Error", "Error")
    rules = templates.resources("Microsoft.Insights/scheduledQueryRules")
    queries = [each.body["properties"]["criteria"]["allOf"][0]["query"] for each in rules]
    queries += [item["content"]["query"] for item in templates.document("workbook.json")["items"] if item["type"] == 3]
    of_host = [query for query in queries if not query.startswith(("AppMetrics | where Name", "_LogOperation |"))]
    assert len(of_host) == 1
    assert of_host[0].startswith('AppRequests | where tostring(Properties.Category) == "Host.Results" |')
