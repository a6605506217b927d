"""Scenarios that measure createTask (design 6)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from shared.base.concurrency import in_waves
from shared.base.ids import new_slugid
from shared.store.counting import Operations
from tests.promises.azurite.budgets import PASSED, Bench, budget

OPEN = "createTask … n ≤ 48 open dependencies of its group, known to the process"
UNKNOWN = "createTask … n dependencies that were just resolved, or that the process does not know, besides"
EARLIER = "createTask … first of an earlier hour than its group"
ONE_RESOLVED = "createTask … n ≤ 48 dependencies, one of them resolved"


@budget("createTask, existing group", "createTask, known group")
async def create_in_a_group(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition()))


@budget("createTask, first of a group", "createTask … first task of a group")
async def create_a_group(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition(taskGroupId=new_slugid())))


@budget("createTask, group raised", "createTask, known group", "createTask … would outlive its group")
async def raise_a_group(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition(expires=timedelta(days=9))))


@budget("createTask, after another process's call on its group", "createTask, known group", f"createTask {PASSED}")
async def create_after_a_call_on_the_group(bench: Bench) -> Operations:
    await bench.count_call(bench.group)
    return await bench.measure(bench.calls.create_task(bench.definition()))


@budget("createTask, of an earlier hour", "createTask, known group", EARLIER)
async def create_for_an_earlier_hour(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition(expires=timedelta(days=1))))


@budget("createTask, of an earlier hour, the next one", "createTask, known group")
async def create_again_for_an_earlier_hour(bench: Bench) -> Operations:
    definition, other = (bench.definition(expires=timedelta(days=1)) for _ in range(2))
    await bench.calls.create_task(definition)
    return await bench.measure(
        bench.calls.create_task(replace(other, body={**other.body, "expires": definition.body["expires"]}))
    )


@budget("createTask, repeat", "createTask, known group", "createTask … repeated")
async def create_again(bench: Bench) -> Operations:
    definition = bench.definition()
    await bench.calls.create_task(definition)
    bench.ahead = timedelta(seconds=1)  # within the same millisecond both would write the same index row
    return await bench.measure(bench.calls.create_task(definition))


@budget("createTask, repeat by another process", "createTask, known group", "createTask … repeated")
async def create_again_elsewhere(bench: Bench) -> Operations:
    definition = bench.definition()
    await bench.calls.create_task(bench.definition())
    await bench.handlers.create_task(definition)
    bench.ahead = timedelta(seconds=1)
    return await bench.measure(bench.calls.create_task(definition))


@budget("createTask, 3 open dependencies", OPEN)
async def create_with_open_dependencies(bench: Bench) -> Operations:
    return await create_with_open(bench, 3)


@budget("createTask, 48 open dependencies", OPEN)
async def create_with_many_open_dependencies(bench: Bench) -> Operations:
    return await create_with_open(bench, 48)


async def create_with_open(bench: Bench, count: int) -> Operations:
    required = await asyncio.gather(*(bench.create() for _ in range(count)))
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 3 open dependencies that the process does not know", OPEN, UNKNOWN, n=3)
async def create_with_unknown_dependencies(bench: Bench) -> Operations:
    required = [await bench.create() for _ in range(3)]
    return await bench.measure(bench.handlers.create_task(bench.definition(dependencies=required)))


@budget(
    "createTask, 3 open dependencies of another group",
    OPEN,
    "createTask … n dependencies of another group, besides",
    n=3,
)
async def create_with_dependencies_elsewhere(bench: Bench) -> Operations:
    group = new_slugid()
    required = [await bench.create(taskGroupId=group) for _ in range(3)]
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget(
    "createTask, 2 dependencies that were just resolved", "createTask … n dependencies that were all just resolved", n=2
)
async def create_with_satisfied_dependencies(bench: Bench) -> Operations:
    required = [await bench.completed() for _ in range(2)]
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 3 dependencies of which one is resolved", ONE_RESOLVED, n=3)
async def create_with_a_resolved_dependency(bench: Bench) -> Operations:
    done = await bench.completed()
    await bench.resolved_due(done)
    required = [done, *[await bench.create() for _ in range(2)]]
    bench.ahead = timedelta(minutes=2)
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget(
    "createTask, 3 dependencies of which one is run again", ONE_RESOLVED, "createTask … one that was run again", n=3
)
async def create_with_a_rerun_dependency(bench: Bench) -> Operations:
    done = await bench.completed()
    await bench.resolved_due(done)
    await bench.calls.lifecycle.rerun(await bench.calls.lifecycle.existing(done))
    required = [done, *[await bench.create() for _ in range(2)]]
    bench.ahead = timedelta(minutes=2)
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 1,000 open dependencies", "createTask … 1,000 dependencies in a group of 1,000")
async def create_with_a_thousand_dependencies(bench: Bench) -> Operations:
    group = new_slugid()
    await bench.create(taskGroupId=group)
    required = await in_waves(32, lambda _: bench.create(taskGroupId=group), range(1000))
    return await bench.measure(bench.calls.create_task(bench.definition(taskGroupId=group, dependencies=required)))


@budget("createTask, waiting for itself", OPEN)
async def create_waiting_for_itself(bench: Bench) -> Operations:
    task_id = new_slugid()
    return await bench.measure(bench.calls.create_task(bench.definition(task_id, dependencies=[task_id])))
