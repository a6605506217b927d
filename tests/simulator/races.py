"""Pairs of calls and handlers that meet at one task or group, and every legal way in which that may end (contract 4).

Each is written as "what the calls answer → what the runs are right then". All ways must be reached, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from shared.domain import transitions
from shared.domain.claims import Worker
from shared.domain.priority import Priority
from shared.domain.task import Resolved
from shared.services import Services
from shared.storage.interface import Receipt
from shared.storage.internal_messages import RESOLVED_QUEUE, ResolvedMessage
from shared.usecases.group_jobs import GroupJob
from tests.simulator.scenarios import (
    GROUP,
    OTHER_GROUP,
    A,
    B,
    C,
    Step,
    a_runs_b_waits,
    completed,
    failed_and_completed_again,
    fixed,
    nothing,
    pending,
    running,
    running_without_retries,
    unscheduled,
)
from tests.simulator.world import CLAIM_TIMEOUT, POOL, World, resolved_message

WORKERS = ("worker", "other", "one", "two")
Party = Callable[[World, Services], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Race:
    """Calls that run side by side from a prepared situation, each in a process of its own."""

    name: str
    prepare: Step
    parties: tuple[Party, ...]
    legal: frozenset[str]
    task_id: str = A
    is_wide: bool = False
    """So many requests meet that the orders are sampled."""


def _race(name: str, prepare: Step, *parties: Party, legal: set[str], task_id: str = A, is_wide: bool = False) -> Race:
    return Race(name, prepare, parties, frozenset(legal), task_id, is_wide)


# Who meets


def cancel(task_id: str) -> Party:
    """cancelTask."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.cancel(await services.lifecycle.known(task_id))

    return party


def rerun(task_id: str) -> Party:
    """rerunTask."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.rerun(await services.lifecycle.known(task_id))

    return party


def schedule(task_id: str) -> Party:
    """scheduleTask."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.schedule(await services.lifecycle.known(task_id))

    return party


def change_priority(task_id: str, priority: Priority) -> Party:
    """changeTaskPriority."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.change_priority(await services.lifecycle.known(task_id), priority)

    return party


def claim(worker_id: str = "worker") -> Party:
    """claimWork, of one task: its answer reads as the claimed run."""

    async def party(world: World, services: Services) -> object:
        worker = Worker(worker_group="group", worker_id=worker_id)
        claims = await services.work.claim_work(POOL, worker, 1, 0.4)
        world.claims.extend(claims)
        return " ".join(f"run {claim.run_id}" for claim in claims) or "none"

    return party


def claim_task(task_id: str, worker_id: str) -> Party:
    """claimTask of run 0."""

    async def party(world: World, services: Services) -> object:
        worker = Worker(worker_group="group", worker_id=worker_id)
        return await services.work.claim_task(await services.work.found_for_claim(task_id), 0, worker)

    return party


def reclaim(task_id: str) -> Party:
    """reclaimTask of run 0."""
    return lambda world, services: services.work.reclaim_task(task_id, 0)


def report(task_id: str, resolution: Resolved = Resolved.COMPLETED) -> Party:
    """reportCompleted or reportFailed of run 0."""
    return lambda world, services: services.lifecycle.report(task_id, 0, resolution)


def report_exception(task_id: str, reason: Resolved) -> Party:
    """reportException of run 0."""
    return lambda world, services: services.lifecycle.report_exception(task_id, 0, reason)


def claim_due(task_id: str) -> Party:
    """The claim message of run 0, put when it was claimed."""
    return lambda world, services: services.timers.claim_due(task_id, 0, world.clock.now() - CLAIM_TIMEOUT)


def deadline_due(task_id: str) -> Party:
    """The deadline message."""

    return lambda world, services: services.timers.deadline_due(
        task_id, GROUP, "-", world.clock.now() - timedelta(hours=3)
    )


def resolved_due(task_id: str) -> Party:
    """The resolved message of run 0."""

    async def party(world: World, services: Services) -> object:
        (body, *_) = [body for body, _ in world.messages(RESOLVED_QUEUE) if body["taskId"] == task_id]
        await services.resolution.resolved_due(resolved_message(body))
        return None

    return party


def handle_resolved(task_id: str, run_id: int = 0) -> Party:
    """The handler of the resolved message of a run, which is put before the commit that it announces."""

    async def party(world: World, services: Services) -> object:
        message = ResolvedMessage(task_id=task_id, run_id=run_id, put=world.clock.now())
        await services.resolution.resolved_due(message)
        return None

    return party


def commit_completed(task_id: str) -> Party:
    """The commit of reportCompleted of run 0 with its event: what it puts ahead is in a handler's hands already."""

    async def party(world: World, services: Services) -> object:
        read = await services.lifecycle.known(task_id)
        decision = transitions.report(read.task, 0, Resolved.COMPLETED, world.clock.now())
        assert decision.task is not None
        committed = await services.stores.tasks.commit(read, decision.task)
        await services.stores.announcer.announce(decision.events, committed)
        return None

    return party


def report_and_follow(task_id: str) -> Party:
    """reportCompleted of run 0, and its resolved message handled for good."""

    async def party(world: World, services: Services) -> object:
        await services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        (message,) = world.memory.messages(RESOLVED_QUEUE)
        receipt = Receipt(message_id=message.message_id, pop_receipt=message.pop_receipt, visible=message.visible)
        await resolved_due(task_id)(world, services)
        await world.memory.storage.queues.delete(RESOLVED_QUEUE, receipt)
        return None

    return party


def create(task_id: str, **changes: Any) -> Party:
    """createTask; the dates are always the same."""

    async def party(world: World, services: Services) -> object:
        wanted = {"taskGroupId": GROUP, **fixed(world), **changes}
        return await services.create_task(world.definition(task_id, **wanted))

    return party


def create_knowing(task_id: str, **changes: Any) -> Party:
    """createTask in a process that has seen the dependencies created: nothing is read ahead of the edges."""

    async def party(world: World, services: Services) -> object:
        for required in changes["dependencies"]:
            services.stores.known.note(replace(world.tasks()[required], runs=()))
        return await create(task_id, **changes)(world, services)

    return party


async def seal(world: World, services: Services) -> object:
    """sealTaskGroup."""
    return await services.groups.seal(await services.groups.known(GROUP))


async def seal_and_cancel(world: World, services: Services) -> object:
    """sealTaskGroup, then cancelTaskGroup."""
    await services.groups.seal(await services.groups.known(GROUP))
    return await services.group_jobs.call(GroupJob(task_group_id=GROUP, kind="cancel"))


async def reconcile(world: World, services: Services) -> object:
    """The reconciler's look at the pool."""
    return await services.reconciler.check_pool(POOL)


# Where they meet


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
    await world.services.stores.messages.delay_pending(message.handle, 1)
    await world.clock.sleep(0.9)


DEPENDENT: dict[str, Any] = {"dependencies": [A]}
ELSEWHERE: dict[str, Any] = {**DEPENDENT, "taskGroupId": OTHER_GROUP}

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
