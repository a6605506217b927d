"""Scenarios that measure lists and what operators look at (design 6, 10 and 12)."""

from __future__ import annotations

from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES
from shared.queue.tasks.messages import poison_queue
from shared.store.counting import Operations
from tests.promises.azurite.budget_table import ONE_READ
from tests.promises.azurite.budgets import Bench, budget
from tests.promises.simulator.world import POOL


@budget("listTaskGroups, 3 groups", "listTaskGroups", n=3)
async def list_groups(bench: Bench) -> Operations:
    for _ in range(3):
        await bench.create(taskGroupId=new_slugid())
    return await bench.measure(bench.calls.recent_groups.group_page(start="", limit=3))


@budget("listTaskGroup of 12, 4 active", "listTaskGroup, a page of which n tasks are active", n=4)
async def list_group(bench: Bench) -> Operations:
    group = new_slugid()
    for _ in range(8):
        await bench.resolved_due(await bench.completed(taskGroupId=group))
    for _ in range(4):
        await bench.create(taskGroupId=group)
    return await bench.measure(bench.calls.groups.list(group, start="", limit=1000))


@budget("statuses of 5, 2 of them unknown", "statuses", n=5)
async def statuses(bench: Bench) -> Operations:
    known = [await bench.create() for _ in range(3)]
    return await bench.measure(bench.calls.batches.statuses([*known, new_slugid(), new_slugid()]))


@budget("listTaskQueueStates, one task queue", "listTaskQueueStates", n=1)
async def list_task_queue_states(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.task_queue_states.state_page(start="", limit=100))


@budget("listPendingTasks of 5", "listPendingTasks", n=5)
async def list_pending(bench: Bench) -> Operations:
    for _ in range(5):
        await bench.create()
    return await bench.measure(bench.calls.pool_views.pending(POOL, start="", limit=1000))


@budget("listClaimedTasks of 3", "listClaimedTasks", n=3)
async def list_claimed(bench: Bench) -> Operations:
    for _ in range(3):
        await bench.running()
    return await bench.measure(bench.calls.pool_views.claimed(POOL, start="", limit=1000))


@budget("taskQueueCounts or taskQueueLoad, one claimed", "taskQueueCounts; taskQueueLoad, n claimed tasks", n=1)
async def counts(bench: Bench) -> Operations:
    await bench.running()
    return await bench.measure(bench.calls.pool_views.counts(POOL))


@budget("operations", "operations")
async def operations(bench: Bench) -> Operations:
    for queue in INTERNAL_QUEUES:
        await bench.storage.queues.create_queue(queue)
        await bench.storage.queues.create_queue(poison_queue(queue))
    await bench.calls.gauges.note_waiting()
    return await bench.measure(bench.process().operations.counts_and_times())


@budget("listPoisonMessages", ONE_READ)
async def list_poison(bench: Bench) -> Operations:
    await bench.storage.queues.create_queue(poison_queue(INTERNAL_QUEUES[0]))
    return await bench.measure(bench.calls.operations.given_up(INTERNAL_QUEUES[0]))


@budget("health", "health")
async def health(bench: Bench) -> Operations:
    for queue in INTERNAL_QUEUES:
        await bench.storage.queues.create_queue(queue)
    return await bench.measure(bench.process().health.findings())


@budget(
    "health, tasks wait that nothing takes",
    "health",
    "health … n ≤ 10 task queues in which tasks have waited and none has run",
    n=1,
)
async def health_with_a_stall(bench: Bench) -> Operations:
    for queue in INTERNAL_QUEUES:
        await bench.storage.queues.create_queue(queue)
    await bench.create()
    await bench.calls.gauges.note_waiting()
    return await bench.measure(bench.process().health.findings())


@budget("taskQueueLoad, none claimed", "taskQueueCounts … tasks wait and none is claimed")
async def load_of_waiting(bench: Bench) -> Operations:
    await bench.create()
    return await bench.measure(bench.calls.pool_views.load(POOL))


@budget("the gauges of one pool, and which task queues wait", "the gauges of n task queues", n=1)
async def gauges(bench: Bench) -> Operations:
    for queue in INTERNAL_QUEUES:
        await bench.storage.queues.create_queue(queue)
    await bench.calls.gauges.note_waiting()  # makes the table
    return await bench.measure(bench.handlers.gauges.note_waiting())
