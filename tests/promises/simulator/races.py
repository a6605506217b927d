"""Lists pairs of calls and handlers that meet at one task or group, and every legal way in which that may end (contract
4). Each is written as "what the calls answer → what the runs are right then". All ways must be reached, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.queue.tasks.rules import Resolved
from tests.promises.simulator.parties import (
    DEPENDENT,
    ELSEWHERE,
    Party,
    cancel,
    change_priority,
    claim,
    claim_due,
    claim_task,
    create,
    create_knowing,
    deadline_due,
    handle_resolved,
    reclaim,
    reconcile,
    report,
    report_and_follow,
    report_and_follow_here,
    report_exception,
    rerun,
    resolved_due,
    schedule,
    seal,
    seal_and_cancel,
)
from tests.promises.simulator.situations import (
    GROUP,
    A,
    B,
    C,
    Step,
    a_runs_b_waits,
    completed,
    failed_and_completed_again,
    nothing,
    pending,
    running,
    running_without_retries,
    unscheduled,
)
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, World


@dataclass(frozen=True)
class Race:
    """Calls that run side by side from a prepared situation, each in a process of its own."""

    name: str
    prepare: Step
    parties: tuple[Party, ...]
    legal: frozenset[str]
    task_id: str = A
    is_wide: bool = False
    """Whether so many requests meet that the orders are only sampled."""


def _race(name: str, prepare: Step, *parties: Party, legal: set[str], task_id: str = A, is_wide: bool = False) -> Race:
    return Race(name, prepare, parties, frozenset(legal), task_id, is_wide)


async def lapsed(world: World) -> None:
    """A's claim has just expired, and no one has looked yet."""
    await running(world)
    await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)


async def lapsed_without_retries(world: World) -> None:
    """The same without a retry left."""
    await running_without_retries(world)
    await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)


async def late(world: World) -> None:
    """A runs past its deadline, on a claim that is good for a while."""
    await pending(world)
    await world.clock.sleep(timedelta(hours=2, minutes=59).total_seconds())
    assert await world.claim()
    await world.clock.sleep(120)


async def late_and_lapsed(world: World) -> None:
    """A runs past its deadline, and its claim has expired."""
    await running(world)
    await world.clock.sleep(timedelta(hours=3, minutes=2).total_seconds())


async def just_completed(world: World) -> None:
    """A is completed, B waits for it; the resolved message has yet to be handled."""
    await a_runs_b_waits(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def two_just_completed(world: World) -> None:
    """A and C are completed, B waits for both; the resolved messages have yet to be handled."""
    await all_just_completed(world)
    await world.create(B, taskGroupId=GROUP, dependencies=[A, C])


async def just_completed_alone(world: World) -> None:
    """A, all of a group, is completed; the resolved message has yet to be handled."""
    await running(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def all_just_completed(world: World) -> None:
    """A and C, all of a group, are completed; the resolved messages have yet to be handled."""
    await running(world)
    await world.create(C, taskGroupId=GROUP)
    assert await world.claim()
    for task_id in (A, C):
        await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)


async def both_running(world: World) -> None:
    """A and C, all of a group, are running."""
    await running(world)
    await world.create(C, taskGroupId=GROUP)
    assert await world.claim()


async def forgotten(world: World) -> None:
    """A is pending, and its message was taken by somebody who then did nothing: it is about to come back."""
    await pending(world)
    await world.clock.sleep(60)
    assert await world.services.stores.messages.poll(POOL, "lowest", count=1, hidden_for=60)
    await world.clock.sleep(61)


async def stolen(world: World) -> None:
    """A is pending, and somebody with a poll URL hides its message for days."""
    await pending(world)
    assert await world.services.stores.messages.poll(POOL, "lowest", count=1, hidden_for=6 * 24 * 3600)
    await world.clock.sleep(61)


async def stolen_and_back(world: World) -> None:
    """The same, and it shows the message again just now."""
    await pending(world)
    (message,) = await world.services.stores.messages.poll(POOL, "lowest", count=1, hidden_for=6 * 24 * 3600)
    await world.clock.sleep(61)
    soon = world.clock.now() + timedelta(seconds=1)
    messages = world.services.stores.messages
    await messages.move_pending(message.handle, message.content, soon)
    await world.clock.sleep(0.9)


RACES = [
    _race("cancel a pending task, claim it", pending, cancel(A), claim(),
          legal={"ok, none: exception canceled", "ok, run 0: exception canceled"}),
    _race("cancel a running task, report it", running, cancel(A), report(A),
          legal={"ok, 409: exception canceled", "ok, ok: completed completed"}),
    _race("cancel a running task, renew its claim", running, cancel(A), reclaim(A),
          legal={"ok, 409: exception canceled", "ok, ok: exception canceled"}),
    _race("cancel a running task, its worker shuts down", running, cancel(A),
          report_exception(A, Resolved.WORKER_SHUTDOWN),
          legal={"ok, 409: exception canceled", "ok, ok: exception worker-shutdown, exception canceled"}),
    _race("renew an expired claim, its timer", lapsed, reclaim(A), claim_due(A),
          legal={"ok, ok: running", "409, ok: exception claim-expired, pending"}),
    _race("renew an expired claim, its reappeared message", lapsed, reclaim(A), claim("other"),
          legal={"ok, none: running", "409, run 1: exception claim-expired, running"}),
    _race("an expired claim's timer, its reappeared message", lapsed, claim_due(A), claim("other"),
          legal={"ok, run 1: exception claim-expired, running"}),
    _race("an expired claim's timer, its reappeared message, no retry", lapsed_without_retries, claim_due(A),
          claim("other"), legal={"ok, none: exception claim-expired"}),
    _race("an expired claim's timer, twice", lapsed, claim_due(A), claim_due(A),
          legal={"ok, ok: exception claim-expired, pending"}),
    _race("complete a run, its claim's timer", lapsed, report(A), claim_due(A),
          legal={"ok, ok: completed completed", "409, ok: exception claim-expired, pending"}),
    _race("complete a run, its reappeared message", lapsed, report(A), claim("other"),
          legal={"ok, none: completed completed", "409, run 1: exception claim-expired, running"}),
    _race("the worker shuts down, its claim's timer", lapsed, report_exception(A, Resolved.WORKER_SHUTDOWN),
          claim_due(A),
          legal={"ok, ok: exception worker-shutdown, pending", "409, ok: exception claim-expired, pending"}),
    _race("complete a run, its deadline", late, report(A), deadline_due(A),
          legal={"ok, ok: completed completed", "409, ok: exception deadline-exceeded"}),
    _race("a claim's timer, the deadline", late_and_lapsed, claim_due(A), deadline_due(A),
          legal={"ok, ok: exception deadline-exceeded"}),
    _race("complete and fail a run", running, report(A), report(A, Resolved.FAILED),
          legal={"ok, 409: completed completed", "409, ok: failed failed"}),
    _race("complete a run twice", running, report(A), report(A), legal={"ok, ok: completed completed"}),
    _race("two claimers of one task", pending, claim("one"), claim("two"),
          legal={"run 0, none: running", "none, run 0: running"}),
    _race("two claimTasks of one run", pending, claim_task(A, "one"), claim_task(A, "two"),
          legal={"ok, 409: running", "409, ok: running"}),
    _race("claimTask and claimWork", pending, claim_task(A, "one"), claim("two"),
          legal={"ok, none: running", "409, run 0: running"}),
    _race("change the priority, claim", pending, change_priority(A, "high"), claim(),
          legal={"ok, none: pending", "ok, run 0: running"}),
    _race("change the priority, cancel", pending, change_priority(A, "high"), cancel(A),
          legal={"ok, ok: exception canceled", "409, ok: exception canceled"}),
    _race("change the priority twice", pending, change_priority(A, "high"), change_priority(A, "low"),
          legal={"ok, ok: pending"}),
    _race("the reconciler, a claim", forgotten, reconcile, claim(), legal={"ok, run 0: running"}),
    _race("the reconciler, a claim of what just comes back", stolen_and_back, reconcile, claim(),
          legal={"ok, none: pending", "ok, run 0: running"}),
    _race("the reconciler, cancel", stolen, reconcile, cancel(A), legal={"ok, ok: exception canceled"}),
    _race("the reconciler, change the priority", stolen, reconcile, change_priority(A, "high"),
          legal={"ok, ok: pending"}),
    _race("the reconciler, twice", stolen, reconcile, reconcile, legal={"ok, ok: pending"}),
    _race("a new dependent, its dependency completes", running, create(B, **DEPENDENT), report(A), task_id=B,
          legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a new dependent, all that its dependency's completion leads to", running, create(B, **DEPENDENT),
          report_and_follow(A), task_id=B, legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a new dependent, its dependency's completion, followed by the same process", running,
          create_knowing(B, **DEPENDENT), report_and_follow_here(A), task_id=B,
          legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a dependency's completion, followed by the same process, its message", a_runs_b_waits,
          report_and_follow_here(A), handle_resolved(A), task_id=B, legal={"ok, ok: pending"}, is_wide=True),
    _race("a dependency's completion, followed by the same process, rerun the dependency", a_runs_b_waits,
          report_and_follow_here(A), rerun(A),
          legal={"ok, ok: completed completed, pending", "ok, ok: completed completed"}),
    _race("the last two reports of a group, followed by their processes", both_running, report_and_follow_here(A),
          report_and_follow_here(C), legal={"ok, ok: completed completed"}, is_wide=True),
    _race("a new dependent, its dependency's resolution", just_completed, create(C, **DEPENDENT), resolved_due(A),
          task_id=C, legal={"ok, ok: pending"}),
    _race("a new dependent that knows its dependency, that one completes", running, create_knowing(B, **DEPENDENT),
          report(A), task_id=B, legal={"ok, ok: unscheduled"}),
    _race("a new dependent that knows its dependency, all that its completion leads to", running,
          create_knowing(B, **DEPENDENT), report_and_follow(A), task_id=B,
          legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a new dependent that knows its dependency, its resolution", just_completed, create_knowing(C, **DEPENDENT),
          handle_resolved(A), task_id=C, legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a new dependent of another group, all that its dependency's completion leads to", running,
          create_knowing(B, **ELSEWHERE), report_and_follow(A), task_id=B,
          legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a new dependent of another group, its dependency's resolution", just_completed, create(C, **ELSEWHERE),
          handle_resolved(A), task_id=C, legal={"ok, ok: pending"}),
    _race("a new dependent, its dependency is run again", completed, create_knowing(C, **DEPENDENT), rerun(A),
          task_id=C, legal={"ok, ok: unscheduled", "ok, ok: pending"}),
    _race("a new dependent of a rerun, the late first resolution", failed_and_completed_again,
          create_knowing(C, **DEPENDENT), handle_resolved(A, 0), handle_resolved(A, 1), task_id=C, is_wide=True,
          legal={"ok, ok, ok: unscheduled", "ok, ok, ok: pending"}),
    _race("two resolutions of one dependent's dependencies", two_just_completed, handle_resolved(A),
          handle_resolved(C), task_id=B, legal={"ok, ok: pending"}),
    _race("a dependency's resolution, twice", just_completed, resolved_due(A), resolved_due(A), task_id=B,
          legal={"ok, ok: pending"}),
    _race("a dependency's resolution, schedule the dependent", just_completed, resolved_due(A), schedule(B), task_id=B,
          legal={"ok, ok: pending"}),
    _race("a dependency's resolution, cancel the dependent", just_completed, resolved_due(A), cancel(B), task_id=B,
          legal={"ok, ok: exception canceled"}),
    _race("a dependency's resolution, rerun the dependency", just_completed, resolved_due(A), rerun(A),
          legal={"ok, ok: completed completed, pending"}),
    _race("rerun and cancel what is completed", completed, rerun(A), cancel(A),
          legal={"ok, ok: completed completed, pending", "ok, ok: completed completed, exception canceled"}),
    _race("rerun what is completed, claim", completed, rerun(A), claim(),
          legal={"ok, none: completed completed, pending", "ok, run 1: completed completed, running"}),
    _race("rerun twice", completed, rerun(A), rerun(A), legal={"ok, ok: completed completed, pending"}),
    _race("schedule twice", unscheduled, schedule(B), schedule(B), task_id=B, legal={"ok, ok: pending"}),
    _race("the last two tasks of a group", all_just_completed, resolved_due(A), resolved_due(C),
          legal={"ok, ok: completed completed"}),
    _race("the last two reports of a group", both_running, report(A), report(C), legal={"ok, ok: completed completed"}),
    _race("the last task of a group, another one", just_completed_alone, create(C), resolved_due(A), task_id=C,
          legal={"ok, ok: pending"}),
    _race("seal a group, create in it", pending, seal, create(C), task_id=C,
          legal={"ok, 409: none", "ok, ok: pending"}),
    _race("seal twice", pending, seal, seal, legal={"ok, ok: pending"}),
    _race("seal and cancel a group, create in it", pending, seal_and_cancel, create(C), task_id=C,
          legal={"ok, 409: none", "ok, ok: pending", "ok, ok: exception canceled"}),
    _race("the same task twice", nothing, create(A), create(A), is_wide=True,
          legal={"ok, ok: pending"}),
    _race("the same task with two definitions", nothing, create(A), create(A, payload={"other": True}),
          is_wide=True,
          legal={"ok, 409: pending", "409, ok: pending"}),
    _race("a group for two schedulers", nothing, create(A), create(A, schedulerId="other"),
          is_wide=True,
          legal={"ok, 409: pending", "409, ok: pending"}),
    _race("the first two of a group", nothing, create(A), create(C), is_wide=True,
          legal={"ok, ok: pending"}),
]  # fmt: skip
