"""Calls and handlers that find what others have left; each returns its answer."""

from __future__ import annotations

import json
from datetime import timedelta

from shared.app.services import Services
from shared.auth.clients.accounts import CreateClientRequest
from shared.base.dates import parse_date
from shared.base.protocol import ORPHAN_AFTER
from shared.queue.artifacts.rules import Upload
from shared.queue.groups.jobs import GroupJob
from shared.queue.pools.directory import DirectoryKind
from shared.queue.tasks.internal_messages import (
    CLAIM_QUEUE,
    DEADLINE_QUEUE,
    RESOLVED_QUEUE,
    ClaimBody,
    GroupJobBody,
    ResolvedBody,
)
from shared.queue.tasks.reconciler import MIN_ROW_AGE
from shared.queue.tasks.rules import Resolved
from tests.promises.simulator.artifact_scenarios import artifact
from tests.promises.simulator.expiring import CLIENT, EARLY, everybody
from tests.promises.simulator.probing import Probe
from tests.promises.simulator.situations import GROUP, A, B, C, fixed
from tests.promises.simulator.world import POOL, WORKER


async def claim_due(world: Probe, services: Services) -> object:
    """Handles the claim message; tells whether it will look again right when the claim's commit cannot come any
    more."""
    (body, *_) = (body for body, _ in world.messages(CLAIM_QUEUE))
    message = ClaimBody.read(json.dumps(body))
    await services.due.claim_due(message.task_id, message.run_id, message.put, message.started)
    put = [visible for _, visible in world.messages(CLAIM_QUEUE)][1:]
    return [abs(visible - message.put - ORPHAN_AFTER) < timedelta(seconds=2) for visible in put]


async def deadline_due(world: Probe, services: Services) -> None:
    """Handles the deadline message."""
    ((body, _),) = world.messages(DEADLINE_QUEUE)
    await services.due.deadline_due(A, GROUP, "-", parse_date(body["put"]))


async def resolved_due(world: Probe, services: Services) -> None:
    """Handles the resolved message that was put last."""
    *_, (body, _) = world.messages(RESOLVED_QUEUE)
    await services.resolution.resolved_due(ResolvedBody.read(json.dumps(body)))


async def check_pool(world: Probe, services: Services) -> object:
    """Runs the reconciler."""
    return await services.reconciler.check_pool(POOL)


async def check_pool_with_a_later_message(world: Probe, services: Services) -> object:
    """Creates a task, and runs the reconciler a minute later."""
    await services.create_task(world.definition(C, taskGroupId=GROUP))
    await world.clock.sleep(MIN_ROW_AGE.total_seconds() + 2)
    return await services.reconciler.check_pool(POOL)


async def vain_wait(world: Probe, services: Services) -> None:
    """Lets the reconciler look because a worker waited in vain."""
    await services.reconciler.after_empty_poll(POOL)


async def left_to_its_job(services: Services, job: GroupJob) -> GroupJobBody:
    """Returns the job of a call on a group that has done nothing else."""
    return await services.group_jobs._counted(job)


async def group_job_due(world: Probe, services: Services) -> None:
    """Handles the job of a cancelTaskGroup whose call has done nothing else."""
    await services.group_jobs.job_due(await left_to_its_job(services, GroupJob(task_group_id=GROUP, kind="cancel")))


async def create_again(world: Probe, services: Services) -> object:
    """Calls createTask of A once more."""
    return await services.create_task(world.definition(A, taskGroupId=GROUP, **fixed(world)))


async def create(world: Probe, services: Services) -> object:
    """Calls createTask of A, with the present dates."""
    return await services.create_task(world.definition(A, taskGroupId=GROUP))


async def create_in_the_pool(world: Probe, services: Services) -> object:
    """Calls createTask of another task."""
    return await services.create_task(world.definition(C, taskGroupId=GROUP))


async def create_dependent(world: Probe, services: Services) -> object:
    """Calls createTask of a task that depends on A."""
    return await services.create_task(world.definition(B, taskGroupId=GROUP, dependencies=[A]))


async def report(world: Probe, services: Services) -> object:
    """Calls reportCompleted of A."""
    return await services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def load(world: Probe, services: Services) -> object:
    """Calls taskQueueLoad."""
    counts, stall = await services.pool_views.load(POOL)
    return counts.pending, counts.claimed, stall and stall.reason


async def list_pending(world: Probe, services: Services) -> object:
    """Calls listPendingTasks."""
    runs, _ = await services.pool_views.pending(POOL, start="", limit=10)
    return len(runs)


async def list_group(world: Probe, services: Services) -> object:
    """Calls listTaskGroup."""
    _, (tasks, _) = await services.groups.list(GROUP, start="", limit=1000)
    return len(tasks)


async def get_worker(world: Probe, services: Services) -> object:
    """Calls getWorker."""
    return (await services.workers.find_worker(POOL, WORKER)).record.worker_id


async def list_task_queues(world: Probe, services: Services) -> object:
    """Calls listTaskQueues."""
    entries, _ = await services.directory.directory_page(DirectoryKind.TASK_QUEUE, start="", limit=10)
    return [entry.name for entry in entries]


async def create_artifact(world: Probe, services: Services) -> object:
    """Calls createArtifact."""
    wanted = artifact(world, "s3", EARLY, upload=Upload.RELAY)
    return bool(await services.artifacts.creation.create_or_find(A, 0, wanted))


async def findings(world: Probe, services: Services) -> object:
    """Calls health."""
    return [finding.code for finding in await services.health.findings()]


async def expire(world: Probe, services: Services) -> object:
    """Runs the expiry job."""
    await services.expiration.run(60)
    return {row.partition for row in world.rows("Tasks")} and "stays"


async def create_client_again(world: Probe, services: Services) -> object:
    """Calls createClient once more."""
    record = await services.clients.find_client(CLIENT)
    request = CreateClientRequest(description="", expires=record["expires"], scopes=[], deleteOnExpiration=False)
    return bool(await services.clients.make_client(CLIENT, request, everybody))


async def use_client(world: Probe, services: Services) -> None:
    """Authenticates a call of the client."""
    found = await services.keyring.client(CLIENT)
    assert found is not None
    await services.keyring.used(found)
