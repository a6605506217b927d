"""Scenarios that measure handlers of internal messages (design 6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.base.concurrency import together
from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.rules import Resolved
from shared.runtime import utc_now
from shared.store import keys
from shared.store.counting import Operations
from tests.promises.azurite.budgets import Bench, budget
from tests.promises.simulator.world import CLAIM_TIMEOUT

LEAF = "resolved message, no dependents"
FREED = "resolved message … n ≤ 100 dependents that become free"
FREED_HERE = "resolved message … n ≤ 100 of them that this process has committed last"
TOGETHER = "resolved message … n of its group together"
NOT_DUE = "claim message, renewed claim; deadline message, resolved task"
NEXT_PAGE = "resolved message … a later page, with n dependents that this process has committed last"


@budget("resolved message, leaf", LEAF)
async def resolved(bench: Bench) -> Operations:
    task_id = await bench.completed()
    await bench.create()
    return await bench.measure(bench.resolved_due(task_id))


@budget("resolved message, the next one of its group", "resolved message … the next one of its group")
async def resolved_next(bench: Bench) -> Operations:
    await bench.running()
    await bench.resolved_due(await bench.completed())
    return await bench.measure(bench.resolved_due(await bench.completed()))


@budget("resolved messages, 8 of a group together", TOGETHER, n=8)
async def resolved_together(bench: Bench) -> Operations:
    await bench.running()
    await bench.resolved_due(await bench.completed())
    tasks = [await bench.completed() for _ in range(8)]
    return await bench.measure(together(*(bench.resolved_due(task_id) for task_id in tasks)))


@budget("resolved message, last of its group", "resolved message … last of its group")
async def resolved_last(bench: Bench) -> Operations:
    return await bench.measure(bench.resolved_due(await bench.completed(taskGroupId=new_slugid())))


@budget("resolved message, a dependent that waits on", LEAF, "resolved message … a dependent that waits for others")
async def resolved_with_dependent(bench: Bench) -> Operations:
    task_id = await bench.running()
    await bench.create(dependencies=[task_id, await bench.create()])
    await bench.calls.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    return await bench.measure(bench.resolved_due(task_id))


@budget("resolved message, a dependent that becomes free", LEAF, FREED, n=1)
async def resolved_frees_one(bench: Bench) -> Operations:
    return await resolved_frees(bench, 1)


@budget("resolved message, a dependent of another group that becomes free", LEAF, FREED, n=1)
async def resolved_frees_one_elsewhere(bench: Bench) -> Operations:
    return await resolved_frees(bench, 1, taskGroupId=new_slugid())


@budget("resolved message, 8 dependents that become free", LEAF, FREED, n=8)
async def resolved_frees_eight(bench: Bench) -> Operations:
    return await resolved_frees(bench, 8)


@budget("resolved message, 100 dependents that become free", LEAF, FREED, n=100)
async def resolved_frees_a_hundred(bench: Bench) -> Operations:
    return await resolved_frees(bench, 100)


@budget("resolved message, 8 dependents of this process that become free", LEAF, FREED_HERE, n=8)
async def resolved_frees_eight_here(bench: Bench) -> Operations:
    """Measures the handler in the process that has created the tasks."""
    return await resolved_frees(bench, 8, bench.calls)


@budget("resolved message, a later page of 8 dependents", NEXT_PAGE, n=8)
async def resolved_next_page(bench: Bench) -> Operations:
    task_id = await bench.running()
    _, second, *_ = sorted([await bench.create(dependencies=[task_id]) for _ in range(9)])
    await bench.calls.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    page = ResolvedBody(task_id=task_id, run_id=0, put=utc_now(), start=keys.unblocks(task_id, second))
    return await bench.measure(bench.calls.resolution.resolved_due(page))


async def resolved_frees(bench: Bench, count: int, services: Services | None = None, **changes: Any) -> Operations:
    task_id = await bench.running()
    for _ in range(count):
        await bench.create(dependencies=[task_id], **changes)
    await bench.calls.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    return await bench.measure(bench.resolved_due(task_id, services=services))


@budget("resolved message, indexed under 4 paths", LEAF, "resolved message … n routes of the index", n=4)
async def resolved_indexed(bench: Bench) -> Operations:
    routes = [f"index.bench.v2.n{number}" for number in range(4)]
    await bench.finish_indexed(routes)
    return await bench.measure(bench.resolved_due(await bench.completed(routes=routes)))


async def claim_expired(bench: Bench, task_id: str) -> Operations:
    bench.ahead = CLAIM_TIMEOUT + timedelta(seconds=1)
    return await bench.measure(await bench.claim_due(task_id))


@budget("claim message due", "claim message due")
async def claim_due(bench: Bench) -> Operations:
    return await claim_expired(bench, await bench.running())


@budget("claim message due, without a retry left", "claim message due … without a retry left")
async def claim_due_without_retries(bench: Bench) -> Operations:
    return await claim_expired(bench, await bench.running(retries=0))


@budget("claim message due, of a claim that was renewed", NOT_DUE)
async def claim_not_due(bench: Bench) -> Operations:
    return await bench.measure(await bench.claim_due(await bench.running()))


async def deadline(bench: Bench, task_id: str) -> Operations:
    return await bench.measure(bench.handlers.due.deadline_due(task_id, bench.group, "-", utc_now()))


@budget("deadline message due", "deadline message due")
async def deadline_due(bench: Bench) -> Operations:
    task_id = await bench.running()
    bench.ahead = timedelta(hours=4)
    return await deadline(bench, task_id)


@budget("deadline message of a resolved task", NOT_DUE)
async def deadline_of_resolved(bench: Bench) -> Operations:
    task_id = await bench.completed()
    bench.ahead = timedelta(hours=4)
    return await deadline(bench, task_id)


@budget("resolved message, of a later generation", LEAF, "resolved message … of a later generation")
async def resolved_again(bench: Bench) -> Operations:
    task_id = await bench.completed()
    await bench.resolved_due(task_id)
    await bench.calls.lifecycle.rerun(await bench.calls.lifecycle.existing(task_id))
    (claim,) = await bench.claims(1)
    await bench.create()
    await bench.complete(claim)
    return await bench.measure(bench.resolved_due(task_id, 1))
