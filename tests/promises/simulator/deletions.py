"""Situations in which the expiry job has something to do, and the calls that may meet it there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from shared.app.services import Services
from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.queue.artifacts.rules import Upload
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved, Worker
from shared.store import keys
from tests.parts.twin.gate import Killed
from tests.promises.simulator import artifact_scenarios
from tests.promises.simulator.expiring import EARLY, HOUR, everybody, relay
from tests.promises.simulator.situations import GROUP, A, B, C, Step
from tests.promises.simulator.world import POOL, WORKER, World

OTHER_GROUP = f"{'e' * 8}ReC{'e' * 10}A"
NEW = {"which": "new"}
"""The payload of a task that uses an id again."""
Party = Callable[[World, Services], Awaitable[object]]


@dataclass(frozen=True)
class Meeting:
    """A situation in which something is due, a call that may meet the job, and what the call may answer."""

    name: str
    prepare: Step
    party: Party
    legal: frozenset[str]


def soon(world: World, hours: float) -> str:
    """Returns a date a number of hours ahead, as definitions have it."""
    return format_date(world.clock.now() + timedelta(hours=hours))


# What is due


async def bystander(world: World) -> None:
    """C exists, resolved, with content of its own, and outlives everything."""
    await world.create(C, taskGroupId=GROUP, expires=soon(world, 24 * 3), deadline=soon(world, 3))
    (claim,) = await world.claim()
    assert claim.task.task_id == C
    await world.services.lifecycle.report(C, 0, Resolved.COMPLETED)
    await world.drain(30)


async def a_task(world: World) -> None:
    """A is resolved, with content, in the group of C."""
    await bystander(world)
    await world.create(A, taskGroupId=GROUP, expires=soon(world, 1), deadline=soon(world, 1))
    (claim,) = await world.claim()
    assert claim.task.task_id == A
    await relay(world, EARLY)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(4 * HOUR)


async def a_pending_task(world: World) -> None:
    """A is pending in the group of C, and its deadline was not handled for longer than the job waits."""
    await bystander(world)
    await world.create(A, taskGroupId=GROUP, expires=soon(world, 1), deadline=soon(world, 1))
    await world.clock.sleep(9 * HOUR)


async def a_running_task(world: World) -> None:
    """A is running in the group of C, and its deadline was not handled for longer than the job waits."""
    await bystander(world)
    await world.create(A, taskGroupId=GROUP, expires=soon(world, 1), deadline=soon(world, 1))
    assert await world.claim()
    await world.clock.sleep(9 * HOUR)


def a_dead_call(task_group_id: str, *, is_alive: bool = False) -> Step:
    """createTask of A, in that group, has died before its commit; with `is_alive` A exists, in the group of C."""

    async def prepare(world: World) -> None:
        await bystander(world)
        if is_alive:
            await world.create(A, taskGroupId=GROUP, expires=soon(world, 24 * 3), payload=NEW)
        dead = world.definition(
            A, taskGroupId=task_group_id, expires=soon(world, 1), deadline=soon(world, 1), schedulerId="-"
        )
        services = world.process()

        async def killed() -> None:
            raise Killed

        services.create_task._commit = lambda attempt: killed()  # type: ignore[method-assign,assignment,return-value]
        with suppress(Killed):
            await services.create_task(dead)
        await world.clock.sleep(4 * HOUR)

    return prepare


async def a_group(world: World) -> None:
    """GROUP exists for a task that was refused; C is in another one."""
    await world.create(C, taskGroupId=OTHER_GROUP, expires=soon(world, 24 * 3))
    (claim,) = await world.claim()
    await world.services.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
    with pytest.raises(InputError):
        await world.create(A, taskGroupId=GROUP, expires=soon(world, 1), deadline=soon(world, 1), dependencies=[B])
    await world.drain(4 * HOUR)


async def an_artifact(world: World) -> None:
    """A is running, and an artifact of it has expired."""
    await bystander(world)
    await world.create(A, taskGroupId=GROUP, expires=soon(world, 24 * 2), deadline=soon(world, 5))
    assert await world.claim()
    await relay(world, EARLY, expires=world.clock.now() + timedelta(minutes=5))
    await world.clock.sleep(10)
    world.clock.advance(2 * HOUR)


async def a_worker(world: World) -> None:
    """The worker that has claimed C, its pool and its provisioner have not been seen for a day."""
    await bystander(world)
    await world.clock.sleep(26 * HOUR)


# Who meets the job


def create(task_id: str, task_group_id: str = GROUP, **changes: Any) -> Party:
    """Calls createTask of a task that lives for days."""

    async def party(world: World, services: Services) -> object:
        fixed = world.fixed or {
            "created": format_date(world.clock.now()),
            "deadline": soon(world, 3),
            "expires": soon(world, 24 * 4),
        }
        world.fixed = fixed  # a repeat sends the same
        wanted = {"taskGroupId": task_group_id, "payload": NEW, **fixed, **changes}
        return await services.create_task(world.definition(task_id, **wanted))

    return party


async def create_artifact(world: World, services: Services) -> None:
    """Calls createArtifact of the name that has expired, and puts its content."""
    await relay(world, EARLY, services)


async def create_other_kind(world: World, services: Services) -> None:
    """Calls createArtifact of that name, and puts the content straight into storage."""
    wanted = artifact_scenarios.artifact(
        world, "s3", EARLY, upload=Upload.DIRECT, content_length=len(artifact_scenarios.CONTENT)
    )
    await services.artifacts.creation.create_or_find(A, 0, wanted)


async def read_artifact(world: World, services: Services) -> None:
    """Calls getArtifact."""
    reading = services.artifacts.reading
    await reading.url(await reading.find(A, 0, EARLY, everybody))


async def read_task(world: World, services: Services) -> None:
    """Calls task and status."""
    await services.lifecycle.definition(A)
    await services.lifecycle.existing(A)


async def list_group(world: World, services: Services) -> None:
    """Calls listTaskGroup."""
    await services.groups.list(GROUP, start="", limit=1000)


async def report(world: World, services: Services) -> object:
    """Calls reportCompleted of A."""
    return await services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def cancel(world: World, services: Services) -> object:
    """Calls cancelTask of A."""
    return await services.lifecycle.cancel(await services.lifecycle.existing(A))


async def resolved_due(world: World, services: Services) -> None:
    """Handles a resolved message of A once more."""
    await services.resolution.resolved_due(ResolvedBody(task_id=A, run_id=0, put=world.clock.now()))


async def deadline_due(world: World, services: Services) -> None:
    """Handles the deadline message of A."""
    await services.due.deadline_due(A, GROUP, "-", world.clock.now() - timedelta(hours=3))


async def seal(world: World, services: Services) -> object:
    """Calls sealTaskGroup."""
    return await services.groups.seal(await services.groups.existing(GROUP))


async def job(world: World, services: Services) -> object:
    """Runs the job once more."""
    return await services.expiration.run(300)


async def claim(world: World, services: Services) -> None:
    """Calls claimWork, which notes the worker as seen."""
    await services.work.claim_work(POOL, WORKER, 1, 0.4)


async def declare(world: World, services: Services) -> None:
    """Calls declareWorker."""
    worker = Worker(worker_group=WORKER.worker_group, worker_id=WORKER.worker_id)
    await services.workers.declare(POOL, worker, world.clock.now() + timedelta(days=3))


def _meetings(situation: Step, name: str, parties: dict[str, tuple[Party, set[str]]]) -> list[Meeting]:
    return [
        Meeting(f"{name}, {other}", situation, party, frozenset(legal)) for other, (party, legal) in parties.items()
    ]


_GONE = {"ok", "ResourceNotFound"}
_USED = {"ok", "RequestConflict"}
_TASK: dict[str, tuple[Party, set[str]]] = {
    "its id is used again": (create(A), _USED),
    "its id is used again in another group": (create(A, OTHER_GROUP), _USED),
    "a task joins its group": (create(B), {"ok"}),
    "a task depends on it": (create(B, dependencies=[A]), {"InputError"}),
    "its resolution is handled again": (resolved_due, {"ok"}),
    "its deadline": (deadline_due, {"ok"}),
    "it is read": (read_task, _GONE),
    "its group is listed": (list_group, {"ok"}),
    "its group is sealed": (seal, {"ok"}),
    "its content is read": (read_artifact, {"ResourceExpired", "ResourceNotFound"}),
    "another run of the job": (job, {"ok"}),
}

MEETINGS = [
    *_meetings(a_task, "a task", _TASK),
    *_meetings(a_pending_task, "a pending task", {**_TASK, "it is cancelled": (cancel, _GONE | {"RequestConflict"})}),
    *_meetings(a_running_task, "a running task", {**_TASK, "it is reported": (report, _GONE | {"RequestConflict"})}),
    *_meetings(
        a_dead_call(GROUP),
        "a dead call",
        {
            "the call is made again": (create(A), {"ok"}),
            "its id is used in another group": (create(A, OTHER_GROUP), {"ok"}),
            "a task joins its group": (create(B), {"ok"}),
            "its group is listed": (list_group, {"ok"}),
            "its deadline": (deadline_due, {"ok"}),
            "another run of the job": (job, {"ok"}),
        },
    ),
    *_meetings(
        a_dead_call(OTHER_GROUP, is_alive=True),
        "a dead call with the id of a task",
        {
            "the task is created again": (create(A), {"ok", "RequestConflict"}),
            "its group is listed": (list_group, {"ok"}),
            "another run of the job": (job, {"ok"}),
        },
    ),
    *_meetings(
        a_group,
        "a group",
        {
            "a task joins it": (create(B), {"ok"}),
            "it is listed": (list_group, _GONE),
            "it is sealed": (seal, _GONE),
            "another run of the job": (job, {"ok"}),
        },
    ),
    *_meetings(
        an_artifact,
        "an artifact",
        {
            "it is created again": (create_artifact, {"ok"}),
            "it is created again, for a direct upload": (create_other_kind, {"ok"}),
            "it is read": (read_artifact, {"ResourceExpired", "ResourceNotFound"}),
            "its run is reported": (report, {"ok"}),
            "another run of the job": (job, {"ok"}),
        },
    ),
    *_meetings(
        a_worker,
        "a worker",
        {
            "it claims": (claim, {"ok"}),
            "it is declared": (declare, {"ok"}),
            "another run of the job": (job, {"ok"}),
        },
    ),
]


def members(world: World, task_group_id: str) -> set[str]:
    """Returns the tasks of a group by its member rows."""
    rows = world.rows(keys.GROUPS, task_group_id)
    return {row.key.split("~")[1] for row in rows if row.key.startswith("member~")}


def content_paths(world: World) -> set[str]:
    """Returns the paths of all committed content."""
    return {*world.account.committed(keys.PUBLIC), *world.account.committed(keys.PRIVATE)}
