"""Calls and handlers that meet at one task or group; each returns its answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.base.priority import Priority
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE, ResolvedBody
from shared.queue.tasks.rules import Resolved, Worker
from shared.store.interface import Receipt
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, fixed
from tests.promises.simulator.world import POOL, World, resolved_message

WORKERS = ("worker", "other", "one", "two")
Party = Callable[[World, Services], Coroutine[Any, Any, object]]


def cancel(task_id: str) -> Party:
    """Returns a party that calls cancelTask."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.cancel(await services.lifecycle.existing(task_id))

    return party


def rerun(task_id: str) -> Party:
    """Returns a party that calls rerunTask."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.rerun(await services.lifecycle.existing(task_id))

    return party


def schedule(task_id: str) -> Party:
    """Returns a party that calls scheduleTask."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.schedule(await services.lifecycle.existing(task_id))

    return party


def change_priority(task_id: str, priority: Priority) -> Party:
    """Returns a party that calls changeTaskPriority."""

    async def party(world: World, services: Services) -> object:
        return await services.lifecycle.change_priority(await services.lifecycle.existing(task_id), priority)

    return party


def claim(worker_id: str = "worker") -> Party:
    """Returns a party that calls claimWork for one task; its answer reads as the claimed run."""

    async def party(world: World, services: Services) -> object:
        worker = Worker(worker_group="group", worker_id=worker_id)
        claims = await services.work.claim_work(POOL, worker, 1, 0.4)
        world.claims.extend(claims)
        return " ".join(f"run {claim.run_id}" for claim in claims) or "none"

    return party


def claim_task(task_id: str, worker_id: str) -> Party:
    """Returns a party that calls claimTask of run 0."""

    async def party(world: World, services: Services) -> object:
        worker = Worker(worker_group="group", worker_id=worker_id)
        return await services.work.claim_task(await services.work.found_for_claim(task_id), 0, worker)

    return party


def reclaim(task_id: str) -> Party:
    """Returns a party that calls reclaimTask of run 0."""
    return lambda world, services: services.work.reclaim_task(task_id, 0)


def report(task_id: str, resolution: Resolved = Resolved.COMPLETED) -> Party:
    """Returns a party that calls reportCompleted or reportFailed of run 0."""
    return lambda world, services: services.lifecycle.report(task_id, 0, resolution)


def report_exception(task_id: str, reason: Resolved) -> Party:
    """Returns a party that calls reportException of run 0."""
    return lambda world, services: services.lifecycle.report_exception(task_id, 0, reason)


def claim_due(task_id: str) -> Party:
    """Returns a party that handles the claim message of run 0, put when it was claimed."""
    return lambda world, services: world.claim_expired(task_id, services)


def deadline_due(task_id: str) -> Party:
    """Returns a party that handles the deadline message."""

    return lambda world, services: services.due.deadline_due(
        task_id, GROUP, "-", world.clock.now() - timedelta(hours=3)
    )


def resolved_due(task_id: str) -> Party:
    """Returns a party that handles the resolved message of run 0."""

    async def party(world: World, services: Services) -> object:
        (body, *_) = [body for body, _ in world.messages(RESOLVED_QUEUE) if body["taskId"] == task_id]
        await services.resolution.resolved_due(resolved_message(body))
        return None

    return party


def handle_resolved(task_id: str, run_id: int = 0) -> Party:
    """Returns a party that handles the resolved message of a run, which is put before the commit that it announces."""

    async def party(world: World, services: Services) -> object:
        message = ResolvedBody(task_id=task_id, run_id=run_id, put=world.clock.now())
        await services.resolution.resolved_due(message)
        return None

    return party


def report_and_follow(task_id: str) -> Party:
    """Returns a party that calls reportCompleted of run 0, and handles its resolved message for good."""

    async def party(world: World, services: Services) -> object:
        await services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        (message,) = world.memory.messages(RESOLVED_QUEUE)
        receipt = Receipt(message_id=message.message_id, pop_receipt=message.pop_receipt, visible=message.visible)
        await resolved_due(task_id)(world, services)
        await world.memory.storage.queues.delete_message(RESOLVED_QUEUE, receipt)
        return None

    return party


def report_and_follow_here(task_id: str) -> Party:
    """Returns a party that calls reportCompleted of run 0, and follows the resolution up in the same process."""

    async def party(world: World, services: Services) -> object:
        here = world.process(max_followed_resolutions=1)
        await here.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        await here.following.finish(60)
        return None

    return party


def create(task_id: str, **changes: Any) -> Party:
    """Returns a party that calls createTask; the dates are always the same."""

    async def party(world: World, services: Services) -> object:
        wanted = {"taskGroupId": GROUP, **fixed(world), **changes}
        return await services.create_task(world.definition(task_id, **wanted))

    return party


def create_knowing(task_id: str, **changes: Any) -> Party:
    """Returns a party that calls createTask in a process that knows the dependencies: nothing is read ahead of the
    edges."""

    async def party(world: World, services: Services) -> object:
        for required in changes["dependencies"]:
            services.stores.known.note_task(replace(world.tasks()[required], runs=()))
        return await create(task_id, **changes)(world, services)

    return party


async def seal(world: World, services: Services) -> object:
    """Calls sealTaskGroup."""
    return await services.groups.seal(await services.groups.existing(GROUP))


async def seal_and_cancel(world: World, services: Services) -> object:
    """Calls sealTaskGroup, then cancelTaskGroup."""
    await services.groups.seal(await services.groups.existing(GROUP))
    return await services.group_jobs.call(GroupJob(task_group_id=GROUP, kind="cancel"))


async def reconcile(world: World, services: Services) -> object:
    """Runs the reconciler on the pool."""
    return await services.reconciler.check_pool(POOL)


DEPENDENT: dict[str, Any] = {"dependencies": [A]}
ELSEWHERE: dict[str, Any] = {**DEPENDENT, "taskGroupId": OTHER_GROUP}
