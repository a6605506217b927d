"""Compares how often the timers run with what depends on it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from shared.overview.health import JOB_LATE
from shared.queue.tasks.reconciler import LONGEST_CHECK
from shared.telemetry.export import GAUGE_SECONDS
from tools.local.host.ncrontab import parse_schedule
from tools.local.state import ROOT

SOURCE = (ROOT / "functions" / "timer_triggers.py").read_text(encoding="utf-8")
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def _every(schedule: str) -> timedelta:
    """Returns the time between two runs."""
    parsed = parse_schedule(schedule)
    first = parsed.next(STARTED)
    return parsed.next(first) - first


def _schedules() -> dict[str, timedelta]:
    found = re.findall(
        r'function_name\("(\w+)"\)\n@blueprint\.timer_trigger\(arg_name="timer", schedule="([^"]+)"\)', SOURCE
    )
    return {name: _every(schedule) for name, schedule in found}


def test_what_has_expired_and_messages_that_are_gone_are_noticed_as_soon_as_is_promised() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    stuck = (ROOT / "docs" / "why-not-running.md").read_text(encoding="utf-8")
    every = _schedules()
    assert every == {"expire": timedelta(minutes=10), "reconcile": timedelta(minutes=5)}
    assert "The expiry job runs every ten minutes" in operations
    assert "by itself within five minutes" in stuck
    (limit,) = re.findall(r"EXPIRY_SECONDS = ([\d.]+)", SOURCE)
    assert timedelta(seconds=float(limit)) < every["expire"], "a run ends before the next one begins"
    assert timedelta(seconds=LONGEST_CHECK) <= every["reconcile"]
    assert 3 * every["expire"] < JOB_LATE, "several runs, before health says that it is late"
    alerts = (ROOT / "infra" / "modules" / "alerts.bicep").read_text(encoding="utf-8")
    (minutes,) = re.findall(r"\d+", re.findall(r"'timers-stand-still'.*?threshold: (\d+)", alerts, re.DOTALL)[0])
    assert 3 * max(every.values()) <= timedelta(minutes=int(minutes)), "some runs are missed before it fires"


def test_gauges_are_read_again_before_they_are_forgotten() -> None:
    exporting, alone = re.findall(r'OBSERVED: Final = "([^"]+)" if [\w.]+ else "([^"]+)"', SOURCE)[0]
    assert 2 * _every(exporting) < timedelta(seconds=GAUGE_SECONDS), "one run may be missed"
    assert _every(alone) == timedelta(minutes=5), "`waitingNoted` is at most that old: contract 14"
