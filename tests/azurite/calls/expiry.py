"""The expiry job (design 6)."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.dates import format_date
from shared.domain.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.runtime import utc_now
from shared.storage.counting import Kind, Operations
from shared.storage.expiry import ExpiryStore
from shared.storage.internal_messages import EVENTS_QUEUE
from tests.azurite.budgets import Bench, budget

NOTHING = "expiry, nothing is due"
A_TASK = "expiry … one task of a group that stays"


async def run(bench: Bench) -> Operations:
    return await bench.measure(bench.handlers.expiration.run(300))


@budget("expiry, nothing is due", NOTHING)
async def nothing(bench: Bench) -> Operations:
    await run(bench)
    return await run(bench)


@budget("expiry, a task", NOTHING, A_TASK)
async def a_task(bench: Bench) -> Operations:
    """In the first hour that is not finished; that hour alone is over."""
    end = utc_now() + timedelta(minutes=30)
    task_id = await bench.completed(deadline=format_date(end), expires=end - utc_now())
    await bench.resolved_due(task_id)
    await bench.storage.queues.create(EVENTS_QUEUE)
    hour = (end + EXPIRY_GRACE_PERIOD).replace(minute=0, second=0, microsecond=0)
    await ExpiryStore(bench.storage, utc_now).finished_before(hour)
    bench.ahead = hour + timedelta(hours=1) + ROWS_COMPLETE_AFTER - utc_now() + timedelta(minutes=1)
    operations = await run(bench)
    assert await bench.handlers.stores.tasks.status(task_id) is None
    assert operations.counts[Kind.QUEUE_LENGTH] == 1
    return operations
