"""Tasks in each state, and what a decision asks for: what tests of the state machine have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.queue.tasks.effects import Decision
from shared.queue.tasks.rules import Created, Resolved, Task
from tests.parts.unit.tasks import a_task, pending_run, resolved_run, running_run

UNSCHEDULED = a_task()
PENDING = a_task(pending_run())
RUNNING = a_task(running_run())
RETRIED = a_task(resolved_run(Resolved.WORKER_SHUTDOWN), pending_run(reason_created=Created.RETRY), retries_left=4)
RESOLVED = [a_task(resolved_run(reason)) for reason in Resolved]


def after(decision: Decision) -> Task:
    """Returns the task that is committed."""
    assert decision.task is not None
    return decision.task


def kinds(effects: Iterable[Any]) -> list[str]:
    """Returns the names of effects, in order."""
    return sorted(type(effect).__name__ for effect in effects)


def announced(decision: Decision) -> list[tuple[str, int | None]]:
    """Returns exchange and run of each event."""
    return [(event.exchange.value, event.run_id) for event in decision.events]


def steps(decision: Decision) -> list[list[str]]:
    """Returns the names of the effects after the commit, step by step."""
    return [kinds(step) for step in decision.after]
