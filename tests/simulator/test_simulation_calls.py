"""The simulation's calls are the code's: the same requests to the same resources in the same round trips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Any

from shared.base.dates import parse_date
from shared.queue.tasks.internal_messages import CLAIM_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store.counting import Kind, Operations, counting
from tests.simulator.world import CLAIM_TIMEOUT, World
from tools.bench.simulation.calls import BLOBS, CALLS, PENDING, Call


def _round_trips(operations: Operations) -> list[Counter[str]]:
    """What was recorded, by level. A band's queue counts as any band's."""
    levels: list[Counter[str]] = [Counter() for _ in range(operations.depth)]
    for request in operations.requests:
        target = PENDING if request.target.startswith("pending-") else request.target
        target = BLOBS if request.kind in (Kind.BLOB_READ, Kind.BLOB_WRITE) else target
        levels[request.level - 1][f"{request.kind.value} {target}"] += 1
    return levels


async def _recorded(call: Awaitable[Any]) -> list[Counter[str]]:
    with counting() as operations:
        await call
    return _round_trips(operations)


def _modelled(call: Call) -> list[Counter[str]]:
    return [Counter(level) for level in call]


def _message(world: World, queue: str, task_id: str) -> dict[str, Any]:
    (body,) = (body for body, _ in world.messages(queue) if body["taskId"] == task_id)
    return body


async def _known(world: World) -> str:
    """A group, a band and a worker that the process knows."""
    group = await world.create()
    await world.claim()
    await world.services.lifecycle.report(group, 0, Resolved.COMPLETED)
    await world.drain(60)
    await world.create(taskGroupId=group)
    await world.claim()
    return group


def _same(name: str, recorded: list[Counter[str]]) -> None:
    assert recorded == _modelled(CALLS[name]), name


def test_the_life_of_a_task_is_recorded_as_it_is_modelled() -> None:
    world = World()

    async def story() -> None:
        claiming, other = world.process(), world.process()
        group = await _known(world)
        await world.clock.sleep(1)  # its wait is the later one
        await world.create(taskGroupId=group)
        (claim,) = await world.claim(services=claiming)
        await other.work.reclaim_task(claim.task.task_id, 0)
        task_id = world.slugid()
        _same("createTask", await _recorded(world.create(task_id, taskGroupId=group)))
        _same("claimWork", await _recorded(world.claim(services=claiming)))
        _same("reclaimTask", await _recorded(other.work.reclaim_task(task_id, 0)))
        _same("status", await _recorded(world.services.lifecycle.status(task_id)))
        report = world.process().lifecycle.report(task_id, 0, Resolved.COMPLETED)
        _same("reportCompleted", await _recorded(report))
        body = {"taskId": task_id, "runId": 0, "put": "2026-01-01T00:00:00.000Z"}
        _same("resolved", await _recorded(world.resolved_due_here(body)))

    world.run(story())


def test_a_claim_that_expires_is_recorded_as_it_is_modelled() -> None:
    world = World()

    async def story() -> None:
        group = await _known(world)
        task_id = await world.create(taskGroupId=group)
        await world.claim()
        body = _message(world, CLAIM_QUEUE, task_id)
        world.clock.advance(CLAIM_TIMEOUT.total_seconds() + 1)
        due = world.services.timers.claim_due(
            task_id, body["runId"], parse_date(body["put"]), parse_date(body["started"])
        )
        _same("claim", await _recorded(due))

    world.run(story())
