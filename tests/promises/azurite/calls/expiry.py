"""Scenarios that measure the expiry job (design 6)."""

from __future__ import annotations

from datetime import timedelta

from shared.base.dates import format_date
from shared.base.ids import new_slugid
from shared.base.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.queue.groups.membership import MARGIN
from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.runtime import utc_now
from shared.store.counting import Kind, Operations
from shared.store.expiring import ExpiryStore
from tests.promises.azurite.budgets import Bench, budget

NOTHING = "expiry, nothing is due"
A_GROUP = "expiry … a group with its n ≤ 16 tasks"
A_TASK = "expiry … a group that stays, n ≤ 16 of its tasks"


async def run(bench: Bench) -> Operations:
    return await bench.measure(bench.handlers.expiration.run(300))


@budget("expiry, nothing is due", NOTHING)
async def nothing(bench: Bench) -> Operations:
    await run(bench)
    return await run(bench)


@budget("expiry, a group", NOTHING, A_GROUP, n=1)
async def a_group(bench: Bench) -> Operations:
    return await of_a_group(bench, stays=False)


@budget("expiry, a task of a group that stays", NOTHING, A_TASK, n=1)
async def a_task(bench: Bench) -> Operations:
    return await of_a_group(bench, stays=True)


async def of_a_group(bench: Bench, *, stays: bool) -> Operations:
    """Measures the expiry job at a task that has expired, alone or with one that stays in the group. Of the hours that
    are not finished, only that of the task, or of the group, is over."""
    end, group = utc_now() + timedelta(minutes=30), new_slugid()
    if stays:
        await bench.resolved_due(await bench.completed(taskGroupId=group))
    task_id = await bench.completed(taskGroupId=group, deadline=format_date(end), expires=end - utc_now())
    await bench.resolved_due(task_id)
    await bench.storage.queues.create_queue(EVENTS_QUEUE)
    due = (end if stays else end + MARGIN) + EXPIRY_GRACE_PERIOD
    hour = due.replace(minute=0, second=0, microsecond=0)
    await ExpiryStore(bench.storage, utc_now).finished_before(hour)
    bench.ahead = hour + timedelta(hours=1) + ROWS_COMPLETE_AFTER - utc_now() + timedelta(minutes=1)
    operations = await run(bench)
    assert await bench.handlers.stores.tasks.status(task_id) is None
    assert (await bench.handlers.stores.groups.header(group) is not None) == stays
    assert operations.counts[Kind.QUEUE_LENGTH] == 1
    return operations
