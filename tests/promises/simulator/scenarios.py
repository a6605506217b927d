"""Every call and every handler in different situations, for the crash suite, which kills all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from shared.base.errors import RequestConflict
from shared.queue.groups import jobs as group_jobs
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.internal_messages import GROUP_QUEUE, RESOLVED_QUEUE, GroupJobBody
from shared.queue.tasks.rules import Resolved
from tests.promises.simulator.situations import (
    GROUP,
    OTHER_GROUP,
    A,
    B,
    C,
    Step,
    a_group,
    a_runs_b_waits,
    a_runs_two_wait,
    completed,
    fixed,
    just_completed_and_pending,
    nothing,
    opened_again,
    pending,
    pending_beside_another_group,
    retried,
    running,
    running_until_the_deadline,
    running_with_index_routes,
    running_without_retries,
    sealed,
    unscheduled,
)
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World


@dataclass(frozen=True)
class Scenario:
    """`prepare` leads to a situation; `act` is the call that may be killed, and that its client repeats."""

    name: str
    prepare: Step
    act: Step
    is_idempotent: bool
    """Whether the answer to a repeat acknowledges the first call: claimWork would claim something else."""
    effect: Callable[[World], bool] | None = None
    """What shows that the call was acknowledged, if no one else has acted since."""


SCENARIOS: list[Scenario] = []


def _scenario(prepare: Step, *, is_idempotent: bool = True) -> Callable[[Step], Step]:
    def register(act: Step) -> Step:
        SCENARIOS.append(Scenario(act.__name__, prepare, act, is_idempotent))
        return act

    return register


@_scenario(nothing)
async def create_first_of_group(world: World) -> None:
    """Creates a task whose group comes into being with it."""
    await world.create(A, taskGroupId=GROUP, **fixed(world))


@_scenario(a_group)
async def create_in_group(world: World) -> None:
    """Creates a task in a group that exists."""
    await world.create(A, taskGroupId=GROUP, **fixed(world))


@_scenario(pending)
async def create_waiting(world: World) -> None:
    """Creates a task whose dependency is not satisfied."""
    await world.create(B, taskGroupId=GROUP, dependencies=[A], **fixed(world))


@_scenario(completed)
async def create_satisfied(world: World) -> None:
    """Creates a task whose dependency is satisfied already."""
    await world.create(B, taskGroupId=GROUP, dependencies=[A], **fixed(world))


@_scenario(pending)
async def create_waiting_for_an_unknown_task(world: World) -> None:
    """Creates a task in a process that has never seen the dependency, which is read first."""
    world.services = world.process()
    await world.create(B, taskGroupId=GROUP, dependencies=[A], **fixed(world))


@_scenario(pending)
async def create_waiting_for_another_group(world: World) -> None:
    """Creates a task that depends on one of another group: the edge lies beside the dependency."""
    await world.create(B, taskGroupId=OTHER_GROUP, dependencies=[A], **fixed(world))


@_scenario(just_completed_and_pending)
async def create_waiting_for_one_of_two(world: World) -> None:
    """Creates a task with a pending dependency and a resolved one, whose resolution has yet to be handled."""
    await world.create(B, taskGroupId=GROUP, dependencies=[A, C], **fixed(world))


@_scenario(opened_again)
async def create_waiting_for_a_rerun(world: World) -> None:
    """Creates a task whose dependency was completed, and runs again."""
    await world.create(B, taskGroupId=GROUP, dependencies=[A], **fixed(world))


@_scenario(a_group)
async def create_waiting_for_itself(world: World) -> None:
    """Creates a task that depends on itself."""
    await world.create(A, taskGroupId=GROUP, dependencies=[A], **fixed(world))


@_scenario(pending, is_idempotent=False)
async def claim_work(world: World) -> None:
    """Claims one task, which the same process has created."""
    await world.claim()


@_scenario(unscheduled, is_idempotent=False)
async def claim_several(world: World) -> None:
    """Claims two tasks at once."""
    await world.services.lifecycle.schedule(await world.services.lifecycle.existing(B))
    await world.claim(2)


@_scenario(retried, is_idempotent=False)
async def claim_retry(world: World) -> None:
    """Claims the retry run of a task that the process does not know."""
    await world.clock.sleep(1)  # or the older wait would be as old
    world.services = world.process()
    await world.claim()


@_scenario(pending)
async def claim_task(world: World) -> None:
    """Claims a task by the older call."""
    read = await world.services.work.found_for_claim(A)
    await world.services.work.claim_task(read, 0, WORKER)


@_scenario(running, is_idempotent=False)
async def claim_after_expiry(world: World) -> None:
    """Claims when the lease comes up before the claim's timer was handled: one commit expires run 0 and claims run
    1."""
    await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)
    await world.claim()


@_scenario(running_without_retries, is_idempotent=False)
async def exhaust_by_claim(world: World) -> None:
    """Claims in the same situation without a retry left."""
    await claim_after_expiry(world)


@_scenario(running)
async def reclaim(world: World) -> None:
    """Renews a claim."""
    await world.services.work.reclaim_task(A, 0)


@_scenario(a_runs_b_waits)
async def report_completed(world: World) -> None:
    """Reports a task completed for which a dependent waits."""
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


@_scenario(running_with_index_routes)
async def report_completed_and_indexed(world: World) -> None:
    """Reports a task completed whose index entries follow."""
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


@_scenario(running)
async def report_failed(world: World) -> None:
    """Reports the last task of its group failed."""
    await world.services.lifecycle.report(A, 0, Resolved.FAILED)


@_scenario(running)
async def report_worker_shutdown(world: World) -> None:
    """Reports worker-shutdown while a retry is left."""
    await world.services.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)


@_scenario(running_until_the_deadline)
async def report_worker_shutdown_late(world: World) -> None:
    """Reports worker-shutdown of a run whose claim would have outlived its deadline."""
    await world.services.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)


@_scenario(running_without_retries)
async def report_intermittent(world: World) -> None:
    """Reports intermittent-task when no retry is left."""
    await world.services.lifecycle.report_exception(A, 0, Resolved.INTERMITTENT_TASK)


@_scenario(a_runs_b_waits)
async def report_malformed(world: World) -> None:
    """Reports malformed-payload, which is never retried."""
    await world.services.lifecycle.report_exception(A, 0, Resolved.MALFORMED_PAYLOAD)


@_scenario(running, is_idempotent=False)
async def worker_removed(world: World) -> None:
    """Removes a worker, whose run is retried. A repeat does not find the run; it is announced at takenUntil at the
    latest."""
    await world.services.workers.removed(POOL, WORKER, start="")


@_scenario(running_without_retries)
async def worker_removed_without_retries(world: World) -> None:
    """Removes a worker whose run has no retry left."""
    await world.services.workers.removed(POOL, WORKER, start="")


@_scenario(nothing)
async def declare_worker(world: World) -> None:
    """Declares a worker, which creates the worker, its task queue and its provisioner."""
    await world.services.workers.declare(POOL, WORKER, world.clock.now() + timedelta(days=2))


@_scenario(running)
async def quarantine_worker(world: World) -> None:
    """Quarantines a worker, which works on."""
    until = world.clock.now() + timedelta(hours=1)
    await world.services.workers.quarantine(POOL, WORKER, until, client_id="somebody", info="")


@_scenario(unscheduled)
async def schedule(world: World) -> None:
    """Schedules a task whatever it waits for."""
    await world.services.lifecycle.schedule(await world.services.lifecycle.existing(B))


@_scenario(unscheduled)
async def cancel_unscheduled(world: World) -> None:
    """Cancels an unscheduled task, which gets a run to be resolved in."""
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(B))


@_scenario(pending)
async def cancel_pending(world: World) -> None:
    """Cancels a pending task, whose message and index row go at once."""
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))


@_scenario(a_runs_b_waits)
async def cancel_running(world: World) -> None:
    """Cancels a running task, which the worker will learn by a 409."""
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))


@_scenario(retried)
async def cancel_retry(world: World) -> None:
    """Cancels a task whose retry run is pending."""
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))


@_scenario(completed)
async def rerun(world: World) -> None:
    """Reruns a resolved task."""
    await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))


@_scenario(unscheduled)
async def rerun_unscheduled(world: World) -> None:
    """Reruns an unscheduled task, as schedule does with another reason."""
    await world.services.lifecycle.rerun(await world.services.lifecycle.existing(B))


@_scenario(pending)
async def raise_priority(world: World) -> None:
    """Raises the priority of a pending task, whose message moves to another band."""
    read = await world.services.lifecycle.existing(A)
    try:
        await world.services.lifecycle.change_priority(read, "high")
    except RequestConflict:  # the answer to a repeat, which says that it is in force, or to one of a resolved task
        task = world.tasks()[A]
        assert task.priority == "high" or task.is_resolved or task.generation > 0


@_scenario(a_runs_b_waits)
async def seal(world: World) -> None:
    """Seals a group, so that no task can join any more."""
    await world.services.groups.seal(await world.services.groups.existing(GROUP))


@_scenario(sealed)
async def cancel_group(world: World) -> None:
    """Cancels a group of three tasks."""
    await world.services.group_jobs.call(GroupJob(task_group_id=GROUP, kind="cancel"))


@_scenario(sealed)
async def raise_group_priority(world: World) -> None:
    """Raises the priority of a group of three tasks."""
    job = GroupJob(task_group_id=GROUP, kind="priority", new_priority="high")
    changed = await world.services.group_jobs.call(job)
    await world.services.groups.announce_priority(await world.services.groups.existing(GROUP), "high", len(changed))


@_scenario(sealed)
async def raise_group_priority_by_job(world: World) -> None:
    """Raises the priority of a group by a call that has no time, so that its job does all of it."""
    job = GroupJob(task_group_id=GROUP, kind="priority", new_priority="high")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_jobs, "CALL_SECONDS", -1.0)
        changed = await world.services.group_jobs.call(job)
        await world.services.groups.announce_priority(await world.services.groups.existing(GROUP), "high", len(changed))
    for body, _ in world.messages(GROUP_QUEUE):
        await world.services.group_jobs.job_due(GroupJobBody.read(json.dumps(body)))


@_scenario(running)
async def claim_due(world: World) -> None:
    """Handles the claim message of a worker that has died."""
    await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)
    await world.claim_expired(A)


@_scenario(running_without_retries)
async def claim_due_without_retries(world: World) -> None:
    """Handles the claim message of a worker that has died, when no retry is left."""
    await claim_due(world)


@_scenario(a_runs_b_waits)
async def deadline_due_running(world: World) -> None:
    """Handles the deadline message of a task that is still running."""
    await world.clock.sleep(max(0, timedelta(hours=3, minutes=2).total_seconds() - world.clock.elapsed))
    await world.services.due.deadline_due(A, GROUP, "-", world.clock.now() - timedelta(hours=3))


@_scenario(unscheduled)
async def deadline_due_unscheduled(world: World) -> None:
    """Handles the deadline message of a task that was never scheduled."""
    await world.clock.sleep(max(0, timedelta(hours=3, minutes=2).total_seconds() - world.clock.elapsed))
    await world.services.due.deadline_due(B, GROUP, "-", world.clock.now() - timedelta(hours=3))


@_scenario(a_runs_b_waits)
async def resolved_due(world: World) -> None:
    """Handles a resolution that frees a dependent."""
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.clock.sleep(2)
    for body, _ in world.messages(RESOLVED_QUEUE):
        await world.resolved_due_here(body)


@_scenario(a_runs_two_wait)
async def resolved_due_in_both_places(world: World) -> None:
    """Handles a resolution that frees a dependent of the same group, and one of another."""
    await resolved_due(world)


@_scenario(running)
async def resolved_due_last(world: World) -> None:
    """Handles the resolution of the last task of a group."""
    await resolved_due(world)


def _here(prepare: Step) -> Step:
    """Returns the same situation, in a process that follows resolutions up itself."""

    async def prepared(world: World) -> None:
        world.services = world.process(max_followed_resolutions=2)
        await prepare(world)

    return prepared


@_scenario(_here(a_runs_b_waits))
async def report_and_follow(world: World) -> None:
    """Reports a task; the reporting process itself frees a dependent."""
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.services.following.finish(60)


@_scenario(_here(a_runs_two_wait))
async def report_and_follow_in_both_places(world: World) -> None:
    """Reports a task; the same process frees a dependent of the same group, and one of another."""
    await report_and_follow(world)


@_scenario(_here(running))
async def report_and_follow_last(world: World) -> None:
    """Reports the last task of a group, which the same process follows up."""
    await world.services.lifecycle.report(A, 0, Resolved.FAILED)
    await world.services.following.finish(60)


@_scenario(_here(unscheduled))
async def cancel_and_follow(world: World) -> None:
    """Cancels a task; its dependent stays as it is."""
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))
    await world.services.following.finish(60)


@_scenario(_here(running_without_retries))
async def claim_due_and_follow(world: World) -> None:
    """Handles the claim message of a dead worker without retries left; the same process follows the resolution up."""
    await claim_due(world)
    await world.services.following.finish(60)


async def _refused(world: World) -> None:
    with pytest.raises(RequestConflict):
        await world.create(A, taskGroupId=OTHER_GROUP)


REFUSED = [
    Scenario("create_refused_in_new_group", pending, _refused, is_idempotent=False),
    Scenario("create_refused_in_group", pending_beside_another_group, _refused, is_idempotent=False),
]
"""createTask of a task that is in another group than it says, so that all that it has written ahead is rolled back."""
