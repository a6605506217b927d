"""Scenarios that measure calls on a task or on a whole group (design 6)."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.app.services import Services
from shared.base.ids import new_slugid
from shared.queue.groups.jobs import GroupJob
from shared.store.counting import Operations
from tests.promises.azurite.budget_table import ONE_READ
from tests.promises.azurite.budgets import PASSED, Bench, budget


@budget("status", ONE_READ)
async def status(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.status(await bench.create()))


@budget("task", ONE_READ)
async def task(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.definition(await bench.create()))


async def moved(bench: Bench, name: str, task_id: str, *more: Any, services: Services | None = None) -> Operations:
    """Measures a call as its endpoint makes it: the task is looked up to authorise the call, then moved."""
    lifecycle = (services or bench.calls).lifecycle

    async def call() -> None:
        await getattr(lifecycle, name)(await lifecycle.existing(task_id), *more)

    return await bench.measure(call())


@budget("cancelTask, running", "cancelTask, running")
async def cancel_running(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.running())


@budget("cancelTask, pending", "cancelTask … pending")
async def cancel_pending(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.create())


@budget(
    "cancelTask, pending, of another process",
    "cancelTask … pending",
    "cancelTask … by a process that does not know the task, as the next ones",
)
async def cancel_of_another_process(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.create(), services=bench.handlers)


@budget("cancelTask, pending, with dependencies", "cancelTask … pending", "cancelTask … of a task with dependencies")
async def cancel_pending_that_waited(bench: Bench) -> Operations:
    task_id = await bench.unscheduled()
    await moved(bench, "schedule", task_id)
    return await moved(bench, "cancel", task_id)


@budget("cancelTask, unscheduled", "cancelTask … unscheduled")
async def cancel_unscheduled(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.unscheduled())


@budget("scheduleTask", "scheduleTask; rerunTask, unscheduled")
async def schedule(bench: Bench) -> Operations:
    return await moved(bench, "schedule", await bench.unscheduled())


@budget("rerunTask, resolved", "rerunTask, resolved")
async def rerun(bench: Bench) -> Operations:
    return await moved(bench, "rerun", await bench.completed())


@budget("rerunTask, unscheduled", "scheduleTask; rerunTask, unscheduled")
async def rerun_unscheduled(bench: Bench) -> Operations:
    return await moved(bench, "rerun", await bench.unscheduled())


@budget("rerunTask, pending", "rerunTask, pending, running")
async def rerun_pending(bench: Bench) -> Operations:
    return await moved(bench, "rerun", await bench.create())


@budget("rerunTask, pending, of another process", "rerunTask, pending, running")
async def rerun_pending_of_another_process(bench: Bench) -> Operations:
    return await moved(bench, "rerun", await bench.create(), services=bench.process())


@budget("changeTaskPriority, pending", "changeTaskPriority … pending")
async def change_priority(bench: Bench) -> Operations:
    await bench.create(priority="high")
    return await moved(bench, "change_priority", await bench.create(), "high")


@budget("changeTaskPriority, running", "changeTaskPriority, running, unscheduled")
async def change_priority_of_running(bench: Bench) -> Operations:
    return await moved(bench, "change_priority", await bench.running(), "high")


@budget("sealTaskGroup", "sealTaskGroup")
async def seal(bench: Bench) -> Operations:
    group = new_slugid()
    await bench.create(taskGroupId=group)

    async def call() -> None:
        await bench.calls.groups.seal(await bench.calls.groups.existing(group))

    return await bench.measure(call())


@budget("cancelTaskGroup, 20 pending tasks", "cancelTaskGroup of n pending tasks", n=20)
async def cancel_group(bench: Bench) -> Operations:
    group = new_slugid()
    await asyncio.gather(*(bench.create(taskGroupId=group) for _ in range(20)))

    async def call() -> None:
        await bench.calls.groups.existing(group)
        assert len(await bench.calls.group_jobs.call(GroupJob(task_group_id=group, kind="cancel"))) == 20
        await bench.calls.group_jobs.size(group)

    return await bench.measure(call())


@budget(
    "changeTaskPriority, unscheduled, after another process's call on its group",
    "changeTaskPriority, running, unscheduled",
    f"changeTaskPriority {PASSED}",
)
async def change_priority_after_a_call_on_the_group(bench: Bench) -> Operations:
    group = new_slugid()
    task_id = await bench.unscheduled(taskGroupId=group)
    await bench.count_call(group)
    return await moved(bench, "change_priority", task_id, "high")


@budget(
    "changeTaskPriority, running, after another process's call on its group",
    "changeTaskPriority, running, unscheduled",
    f"changeTaskPriority {PASSED}, running",
)
async def change_priority_of_running_after_a_call_on_the_group(bench: Bench) -> Operations:
    task_id = await bench.running()
    await bench.count_call(bench.group)
    return await moved(bench, "change_priority", task_id, "high")


@budget(
    "changeTaskPriority, running, of another process",
    "changeTaskPriority, running, unscheduled",
    "cancelTask … by a process that does not know the task, as the next ones",
)
async def change_priority_of_another_process(bench: Bench) -> Operations:
    return await moved(bench, "change_priority", await bench.running(), "high", services=bench.process())


@budget("rerunTask, after another process's call on its group", "rerunTask, resolved", f"rerunTask {PASSED}")
async def rerun_after_a_call_on_the_group(bench: Bench) -> Operations:
    task_id = await bench.completed()
    await bench.count_call(bench.group)
    return await moved(bench, "rerun", task_id)


@budget("changeTaskPriority, unscheduled", "changeTaskPriority, running, unscheduled")
async def change_priority_of_unscheduled(bench: Bench) -> Operations:
    return await moved(bench, "change_priority", await bench.unscheduled(), "high")
