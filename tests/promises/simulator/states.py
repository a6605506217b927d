"""A task in each of the states that a call can find it in, and all calls and handlers with all that they may name.

A is the task, in GROUP; C is another one of its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.queue.artifacts.rules import Upload
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved, Worker
from tests.promises.simulator import parties
from tests.promises.simulator.aged import dates
from tests.promises.simulator.ages import Leave, Look
from tests.promises.simulator.artifact_scenarios import artifact
from tests.promises.simulator.looking import left_to_its_job
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, C, fixed
from tests.promises.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World

OTHER_POOL = "provisioner/other"
STRANGER = Worker(worker_group="group", worker_id="stranger")
ALL_RUNS = (0, 1, 2)


# States


async def unscheduled(world: World) -> None:
    await dates(world)  # type: ignore[arg-type]
    await world.create(C, taskGroupId=GROUP, taskQueueId=OTHER_POOL)
    await world.create(A, taskGroupId=GROUP, dependencies=[C], **fixed(world))


async def pending(world: World) -> None:
    await dates(world)  # type: ignore[arg-type]
    await world.create(A, taskGroupId=GROUP, **fixed(world))


async def running(world: World) -> None:
    await pending(world)
    assert await world.claim()


async def running_by_claim_task(world: World) -> None:
    await pending(world)
    await parties.claim_task(A, "worker")(world, world.services)


async def lapsed(world: World) -> None:
    await running(world)
    await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)


async def lapsed_without_retries(world: World) -> None:
    await dates(world)  # type: ignore[arg-type]
    await world.create(A, taskGroupId=GROUP, retries=0, **fixed(world))
    assert await world.claim()
    await world.clock.sleep(CLAIM_TIMEOUT.total_seconds() + 1)


async def retried(world: World) -> None:
    await running(world)
    await world.services.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)


async def retry_running(world: World) -> None:
    await retried(world)
    assert await world.claim()


async def retried_twice(world: World) -> None:
    await retry_running(world)
    await world.services.lifecycle.report_exception(A, 1, Resolved.WORKER_SHUTDOWN)


async def completed(world: World) -> None:
    await running(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def failed(world: World) -> None:
    await running(world)
    await world.services.lifecycle.report(A, 0, Resolved.FAILED)


async def exhausted(world: World) -> None:
    await lapsed_without_retries(world)
    await world.drain(1)


async def cancelled(world: World) -> None:
    await running(world)
    await parties.cancel(A)(world, world.services)


async def opened_again(world: World) -> None:
    await completed(world)
    await parties.rerun(A)(world, world.services)


async def running_again(world: World) -> None:
    await opened_again(world)
    assert await world.claim()


async def completed_again(world: World) -> None:
    await running_again(world)
    await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)


async def overdue(world: World) -> None:
    await pending(world)
    await world.clock.sleep(timedelta(hours=3, minutes=1).total_seconds())


async def overdue_and_running(world: World) -> None:
    await running(world)
    await world.clock.sleep(timedelta(hours=3, minutes=1).total_seconds())


STATES: tuple[Leave, ...] = (
    unscheduled,
    pending,
    running,
    running_by_claim_task,
    lapsed,
    lapsed_without_retries,
    retried,
    retry_running,
    retried_twice,
    completed,
    failed,
    exhausted,
    cancelled,
    opened_again,
    running_again,
    completed_again,
    overdue,
    overdue_and_running,
)


# Calls


def _claim_work(pool: str, worker: Worker) -> Look:
    async def call(world: Any, services: Services) -> object:
        claims = await services.work.claim_work(pool, worker, 1, 0.4)
        return [claim.run_id for claim in claims]

    return call


def _claim_task(run_id: int, worker: Worker) -> Look:
    async def call(world: Any, services: Services) -> object:
        return (await services.work.claim_task(await services.work.found_for_claim(A), run_id, worker)).run_id

    return call


def _removed(pool: str, worker: Worker) -> Look:
    async def call(world: Any, services: Services) -> object:
        runs, _ = await services.workers.removed(pool, worker, start="")
        return [run_id for _, run_id in runs]

    return call


def _create(**changes: Any) -> Look:
    async def call(world: Any, services: Services) -> None:
        await services.create_task(world.definition(A, **{"taskGroupId": GROUP, **fixed(world), **changes}))

    return call


def _create_artifact(run_id: int) -> Look:
    async def call(world: Any, services: Services) -> None:
        wanted = artifact(world, "s3", upload=Upload.RELAY)
        await services.artifacts.creation.create_or_find(A, run_id, wanted)

    return call


def _job(kind: Any, group: str, priority: Any = None) -> Look:
    job = GroupJob(task_group_id=group, kind=kind, new_priority=priority)

    async def due(_: Any, services: Services) -> None:
        await services.group_jobs.job_due(await left_to_its_job(services, job))

    return due


def _claim_due(run_id: int, *, of_this_claim: bool = True) -> Look:
    """Returns a call that handles the claim message of a run that began when the run did, or earlier."""

    async def call(world: Any, services: Services) -> None:
        task = world.tasks()[A]
        started = task.runs[run_id].started if run_id <= task.last_run_id else None
        begun = started or world.clock.now() - timedelta(minutes=10)
        if not of_this_claim:
            begun -= timedelta(seconds=1)
        await services.due.claim_due(A, run_id, world.clock.now() - timedelta(minutes=10), begun)

    return call


def _deadline_due(group: str) -> Look:
    return lambda world, services: services.due.deadline_due(A, group, "-", world.clock.now() - timedelta(minutes=10))


def _resolved_due(run_id: int) -> Look:
    async def call(world: Any, services: Services) -> None:
        put = world.clock.now() - timedelta(minutes=10)
        await services.resolution.resolved_due(ResolvedBody(task_id=A, run_id=run_id, put=put))

    return call


def _of_each_run(name: str, call: Any) -> dict[str, Look]:
    return {f"{name} of run {run_id}": call(run_id) for run_id in ALL_RUNS}


def _report(run_id: int) -> Look:
    return lambda world, services: services.lifecycle.report(A, run_id, Resolved.COMPLETED)


def _report_shutdown(run_id: int) -> Look:
    return lambda world, services: services.lifecycle.report_exception(A, run_id, Resolved.WORKER_SHUTDOWN)


def _report_malformed(run_id: int) -> Look:
    return lambda world, services: services.lifecycle.report_exception(A, run_id, Resolved.MALFORMED_PAYLOAD)


CALLS: Mapping[str, Look] = {
    "createTask again": _create(),
    "createTask again, with another payload": _create(payload={"other": True}),
    "createTask again, in another group": _create(taskGroupId=OTHER_GROUP),
    "createTask again, of another task queue": _create(taskQueueId=OTHER_POOL, workerType="other"),
    "scheduleTask": parties.schedule(A),
    "cancelTask": parties.cancel(A),
    "rerunTask": parties.rerun(A),
    "changeTaskPriority": parties.change_priority(A, "high"),
    "claimWork": _claim_work(POOL, WORKER),
    "claimWork by a stranger": _claim_work(POOL, STRANGER),
    "claimWork of another task queue": _claim_work(OTHER_POOL, WORKER),
    **_of_each_run("claimTask", lambda run_id: _claim_task(run_id, WORKER)),
    **_of_each_run("claimTask by a stranger", lambda run_id: _claim_task(run_id, STRANGER)),
    **_of_each_run("reclaimTask", lambda run_id: lambda world, services: services.work.reclaim_task(A, run_id)),
    **_of_each_run("reportCompleted", _report),
    **_of_each_run("reportException, worker-shutdown", _report_shutdown),
    **_of_each_run("reportException, malformed-payload", _report_malformed),
    **_of_each_run("createArtifact", _create_artifact),
    "workerRemoved": _removed(POOL, WORKER),
    "workerRemoved of a stranger": _removed(POOL, STRANGER),
    "workerRemoved in another task queue": _removed(OTHER_POOL, WORKER),
    "cancelTaskGroup": _job("cancel", GROUP),
    "cancelTaskGroup of another group": _job("cancel", OTHER_GROUP),
    "changeTaskGroupPriority": _job("priority", GROUP, "high"),
    **_of_each_run("claim message", _claim_due),
    **_of_each_run("claim message of an earlier claim", lambda run_id: _claim_due(run_id, of_this_claim=False)),
    "deadline message": _deadline_due(GROUP),
    "deadline message of another group": _deadline_due(OTHER_GROUP),
    **_of_each_run("resolved message", _resolved_due),
    "reconciler": lambda world, services: services.reconciler.check_pool(POOL),
    "reconciler of another task queue": lambda world, services: services.reconciler.check_pool(OTHER_POOL),
}
