"""What a sample holds: every kind of row, message and blob, with tasks in all of their states."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.base.dates import format_date
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from tests.promises.admin.test_restore import one_of_everything
from tests.promises.simulator import situations
from tests.promises.simulator.indexing import entry
from tests.promises.simulator.registry import ANOTHER
from tests.promises.simulator.world import POOL, World

PATH = "demo.v2.kept"


async def many_lives(world: World) -> None:
    """Plays one of everything, and tasks that wait, run, depend, were cancelled, sealed, or not announced."""
    await one_of_everything(world)  # with a quarantined worker: another one claims
    services = world.services
    indexed = await world.create(routes=[f"index.{PATH}"], extra={"index": {"rank": 3}}, priority="highest")
    (claim,) = await services.work.claim_work(POOL, ANOTHER, 1, 1.5)
    assert claim.task.task_id == indexed
    await services.lifecycle.report(indexed, claim.run_id, Resolved.COMPLETED)
    await world.drain(5)
    await services.index.insert(entry(world, f"{PATH}.by-hand", rank=7, days=5))
    waits_for = [await world.create(priority="very-high", retries=number % 2) for number in range(4)]
    await world.create(dependencies=waits_for)
    await world.create(dependencies=waits_for[:1], requires="all-resolved", deadline=_in(world, days=1))
    (renewed, _) = await services.work.claim_work(POOL, ANOTHER, 2, 1.5)
    await world.clock.sleep(300)
    await services.work.reclaim_task(renewed.task.task_id, renewed.run_id)
    cancelled = await world.create()
    await services.lifecycle.cancel(await services.lifecycle.existing(cancelled))
    group = await world.create(taskGroupId=situations.OTHER_GROUP)
    await services.groups.seal(await services.groups.existing(situations.OTHER_GROUP))
    await services.lifecycle.cancel(await services.lifecycle.existing(group))
    world.topics.is_down = True
    again = await world.create(retries=0)
    await services.lifecycle.cancel(await services.lifecycle.existing(again))
    await services.lifecycle.rerun(await services.lifecycle.existing(again))
    world.topics.is_down = False


def _in(world: World, *, days: float) -> str:
    return format_date(world.clock.now() + timedelta(days=days))


async def answers(services: Services, task_ids: list[str]) -> dict[str, Any]:
    """Returns by question what a deployment says about what it has stored."""
    found: dict[str, Any] = {}
    for task_id in task_ids:
        found[f"status {task_id}"] = await _status(services, task_id)
        found[f"task {task_id}"] = await services.lifecycle.definition(task_id)
    for path in (PATH, f"{PATH}.by-hand"):
        found[f"index {path}"] = await _entry(services, path)
    found["roles"] = await services.roles.all()
    return found


def task_ids(rows: list[Any]) -> list[str]:
    """Returns the ids of the tasks in these rows."""
    return sorted(row.partition for row in rows if row.key == keys.TASK_STATUS)


async def _status(services: Services, task_id: str) -> Any:
    return (await services.lifecycle.status(task_id)).as_json()


async def _entry(services: Services, path: str) -> Any:
    found = await services.index.find(path)
    return {"taskId": found.task_id, "rank": found.rank, "expires": format_date(found.expires)}
