"""What tests/reports.py leaves out, and that it keeps everything of a test that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import reports


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ({"setup": "passed", "call": "passed", "teardown": "passed"}, ["call"]),
        ({"setup": "passed", "call": "failed", "teardown": "passed"}, ["setup", "call", "teardown"]),
        ({"setup": "passed", "call": "passed", "teardown": "failed"}, ["setup", "call", "teardown"]),
        ({"setup": "passed", "call": "skipped", "teardown": "passed"}, ["setup", "call", "teardown"]),
        ({"setup": "failed", "teardown": "passed"}, ["setup", "teardown"]),
        ({"setup": "skipped", "teardown": "passed"}, ["setup", "teardown"]),
    ],
)
def test_what_is_told_of_a_test(monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, str], told: list[str]) -> None:
    heard: list[str] = []
    made = [SimpleNamespace(when=when, passed=outcome == "passed") for when, outcome in outcomes.items()]
    monkeypatch.setattr(reports, "runtestprotocol", lambda item, *, log, nextitem: [] if log else made)
    item: Any = SimpleNamespace(
        ihook=SimpleNamespace(pytest_runtest_logreport=lambda report: heard.append(report.when))
    )
    assert reports.Brief().pytest_runtest_protocol(item, None)
    assert heard == told


@pytest.mark.parametrize(
    ("options", "is_brief"),
    [({}, True), ({"verbose": 1}, False), ({"durations": 5}, False), ({"xmlpath": "tests.xml"}, False)],
)
def test_who_asks_for_more_is_told_all(options: dict[str, Any], is_brief: bool) -> None:
    registered: list[object] = []
    config: Any = SimpleNamespace(
        workerinput={},
        getoption={
            "verbose": 0,
            "durations": None,
            "setuponly": False,
            "setupshow": False,
            "xmlpath": None,
            **options,
        }.get,
        pluginmanager=SimpleNamespace(register=registered.append),
    )
    reports.pytest_configure(config)
    assert bool(registered) == is_brief
