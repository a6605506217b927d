"""The budget of every call (design 6), on Azurite, in warm processes: requests and sequential round trips.

Where ours are fewer than the design allows, ours are the limit. `pytest -rP` shows what each call took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.concurrency import in_waves, together
from shared.domain.artifacts import Artifact, StorageType, Upload
from shared.domain.index import Entry
from shared.domain.task import Resolved
from shared.ids import new_slugid
from shared.runtime import utc_now
from shared.storage.artifacts import ArtifactStore
from shared.storage.counting import Operations, counting
from shared.storage.interface import Storage
from shared.storage.internal_messages import INTERNAL_QUEUES
from shared.storage.messages import pending_queue
from shared.usecases.group_jobs import GroupJob
from shared.usecases.uploads import BLOCK
from tests.azurite.budgets import BUDGETS, CLAIM_TIMEOUT, POOL, WORKER, Bench, Budget, budget, poll_answer


@pytest.fixture
async def bench(storage_in_rounds: Storage) -> Bench:
    made = Bench(storage_in_rounds)
    await made.warm()
    return made


@pytest.mark.parametrize("case", BUDGETS, ids=lambda case: case.name)
async def test_within_budget(bench: Bench, case: Budget) -> None:
    operations = await case.scenario(bench)
    check(case.name, operations, case.operations, case.depth)


def check(name: str, operations: Operations, most: int, deepest: int | None) -> None:
    counts = " ".join(f"{count}{kind}" for kind, count in sorted(operations.counts.items()))
    print(f"{name}: {operations.total} of {most} operations ({counts}), depth {operations.depth} of {deepest}")
    listed = "\n".join(f"{each.level} {each.kind} {each.target}" for each in operations.requests)
    assert operations.total <= most, listed
    assert deepest is None or operations.depth <= deepest, listed
    assert operations.retries == 0


# Creation


@budget("createTask, existing group", 6, 2)
async def create_in_a_group(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition()))


@budget("createTask, first of a group", 9, 5)
async def create_a_group(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition(taskGroupId=new_slugid())))


@budget("listTaskGroups, 3 groups", 1 + 3, 2)
async def list_groups(bench: Bench) -> Operations:
    for _ in range(3):
        await bench.create(taskGroupId=new_slugid())
    return await bench.measure(bench.calls.recent_groups.page(start="", limit=3))


@budget("health", 15, 3)
async def health(bench: Bench) -> Operations:
    for queue in INTERNAL_QUEUES:
        await bench.storage.queues.create(queue)
    return await bench.measure(bench.process().health.findings())


@budget("listTaskQueueStates, one task queue", 1 + 1, 2)
async def list_task_queue_states(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.task_queue_states.page(start="", limit=100))


@budget("history, 24 hours of one task queue", 1, 1)
async def read_history(bench: Bench) -> Operations:
    await bench.calls.history.sample()
    return await bench.measure(bench.calls.history.read(POOL, utc_now() - timedelta(hours=24)))


@budget("history, a process's counts", 1, 1)
async def flush_history(bench: Bench) -> Operations:
    await bench.calls.history.flush()
    await bench.completed()
    return await bench.measure(bench.calls.history.flush())


@budget("history, the first sample of a process, one pool", 16, None)
async def sample_history(bench: Bench) -> Operations:
    for queue in INTERNAL_QUEUES:
        await bench.storage.queues.create(queue)
    await bench.calls.history.flush()
    return await bench.measure(bench.handlers.history.sample())


@budget("createTask, group raised", 8, 3)
async def raise_a_group(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.create_task(bench.definition(expires=timedelta(days=9))))


@budget("createTask, repeat", 9, 3)
async def create_again(bench: Bench) -> Operations:
    definition = bench.definition()
    await bench.calls.create_task(definition)
    return await bench.measure(bench.calls.create_task(definition))


@budget("createTask, repeat by another process", 9, 3)
async def create_again_elsewhere(bench: Bench) -> Operations:
    definition = bench.definition()
    await bench.calls.create_task(bench.definition())
    await bench.handlers.create_task(definition)
    return await bench.measure(bench.calls.create_task(definition))


@budget("createTask, 3 open dependencies", 4, 2)
async def create_with_open_dependencies(bench: Bench) -> Operations:
    return await create_with_open(bench, 3)


@budget("createTask, 48 open dependencies", 4, 2)
async def create_with_many_open_dependencies(bench: Bench) -> Operations:
    return await create_with_open(bench, 48)


async def create_with_open(bench: Bench, count: int) -> Operations:
    required = await asyncio.gather(*(bench.create() for _ in range(count)))
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 3 open dependencies that the process does not know", 4 + 3, 3)
async def create_with_unknown_dependencies(bench: Bench) -> Operations:
    required = [await bench.create() for _ in range(3)]
    return await bench.measure(bench.handlers.create_task(bench.definition(dependencies=required)))


@budget("createTask, 3 open dependencies of another group", 4 + 2 * 3, 3)
async def create_with_dependencies_elsewhere(bench: Bench) -> Operations:
    group = new_slugid()
    required = [await bench.create(taskGroupId=group) for _ in range(3)]
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 2 dependencies that were just resolved", 6 + 2, 4)
async def create_with_satisfied_dependencies(bench: Bench) -> Operations:
    required = [await bench.completed() for _ in range(2)]
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 3 dependencies of which one is resolved", 5 + 3, 4)
async def create_with_a_resolved_dependency(bench: Bench) -> Operations:
    done = await bench.completed()
    await bench.resolved_due(done)
    required = [done, *[await bench.create() for _ in range(2)]]
    bench.ahead = timedelta(minutes=2)
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 3 dependencies of which one is run again", 5 + 3 + 1, 5)
async def create_with_a_rerun_dependency(bench: Bench) -> Operations:
    done = await bench.completed()
    await bench.resolved_due(done)
    await bench.calls.lifecycle.rerun(await bench.calls.lifecycle.known(done))
    required = [done, *[await bench.create() for _ in range(2)]]
    bench.ahead = timedelta(minutes=2)
    return await bench.measure(bench.calls.create_task(bench.definition(dependencies=required)))


@budget("createTask, 1,000 open dependencies", 20, None)
async def create_with_a_thousand_dependencies(bench: Bench) -> Operations:
    group = new_slugid()
    await bench.create(taskGroupId=group)
    required = await in_waves(32, lambda _: bench.create(taskGroupId=group), range(1000))
    return await bench.measure(bench.calls.create_task(bench.definition(taskGroupId=group, dependencies=required)))


@budget("createTask, waiting for itself", 4, 2)
async def create_waiting_for_itself(bench: Bench) -> Operations:
    task_id = new_slugid()
    return await bench.measure(bench.calls.create_task(bench.definition(task_id, dependencies=[task_id])))


@budget("status", 1, 1)
async def status(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.status(await bench.create()))


@budget("task", 1, 1)
async def task(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.definition(await bench.create()))


# Work


@budget("claimWork, one task", 6, 4)
async def claim(bench: Bench) -> Operations:
    await bench.create()
    return await bench.measure(bench.calls.work.claim_work(POOL, WORKER, 1, 5))


@budget("claimWork, one task of another process", 6, 4)
async def claim_unseen(bench: Bench) -> Operations:
    """The definition is not in this process's memory: it comes with the same request."""
    for _ in range(2):
        await bench.create()
    await bench.claims(1, bench.handlers)  # from here on, its copy of the worker's row is the latest
    return await bench.measure(bench.handlers.work.claim_work(POOL, WORKER, 1, 5))


@budget("claimWork, 4 tasks", 1 + 4 * 4 + 1, None)
async def claim_four(bench: Bench) -> Operations:
    for _ in range(4):
        await bench.create()
    return await bench.measure(bench.calls.work.claim_work(POOL, WORKER, 4, 5))


@budget("claimWork with xmlMessage", 5, 3)
async def claim_polled(bench: Bench) -> Operations:
    await bench.create()
    (message,) = await bench.storage.queues.get(pending_queue(POOL, "lowest"), hidden_for=60)
    answer = poll_answer(message.text, message.receipt.message_id, message.receipt.pop_receipt)
    return await bench.measure(bench.calls.work.claim_polled(POOL, WORKER, 1, answer, 0))


@budget("claimWork, nothing there", 1, 1)
async def claim_nothing(bench: Bench) -> Operations:
    """One Get per band in use and poll."""
    return await bench.measure(bench.calls.work.claim_work(POOL, WORKER, 1, 0.01))


@budget("claimTask", 5, 4)
async def claim_task(bench: Bench) -> Operations:
    task_id = await bench.create()

    async def call() -> None:
        await bench.calls.work.claim_task(await bench.calls.work.found_for_claim(task_id), 0, WORKER)

    return await bench.measure(call())


@budget("reclaimTask", 4, 3)
async def reclaim(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.work.reclaim_task(await bench.running(), 0))


@budget("reportCompleted", 5, 3)
async def report(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.report(await bench.running(), 0, Resolved.COMPLETED))


@budget("reportException, retry", 5, 4)
async def report_retry(bench: Bench) -> Operations:
    task_id = await bench.running()
    return await bench.measure(bench.calls.lifecycle.report_exception(task_id, 0, Resolved.WORKER_SHUTDOWN))


@budget("reportException, no retry", 5, 4)
async def report_exception(bench: Bench) -> Operations:
    task_id = await bench.running()
    return await bench.measure(bench.calls.lifecycle.report_exception(task_id, 0, Resolved.INTERNAL_ERROR))


# Handlers


@budget("resolved message, leaf", 7, 5)
async def resolved(bench: Bench) -> Operations:
    task_id = await bench.completed()
    await bench.create()
    return await bench.measure(bench.resolved_due(task_id))


@budget("resolved message, last of its group", 7, 5)
async def resolved_last(bench: Bench) -> Operations:
    return await bench.measure(bench.resolved_due(await bench.completed(taskGroupId=new_slugid())))


CHECK_BETWEEN = 1
"""The group is checked beside the edges: its second read may come between two of theirs, which puts the later ones a
level deeper without making them wait."""


@budget("resolved message, a dependent that waits on", 7 + 2, 6 + CHECK_BETWEEN)
async def resolved_with_dependent(bench: Bench) -> Operations:
    task_id = await bench.running()
    await bench.create(dependencies=[task_id, await bench.create()])
    await bench.calls.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    return await bench.measure(bench.resolved_due(task_id))


@budget("resolved message, a dependent that becomes free", 7 + 3 + 1, 7 + CHECK_BETWEEN)
async def resolved_frees_one(bench: Bench) -> Operations:
    return await resolved_frees(bench, 1)


@budget("resolved message, a dependent of another group that becomes free", 7 + 3 + 1, 5)
async def resolved_frees_one_elsewhere(bench: Bench) -> Operations:
    return await resolved_frees(bench, 1, taskGroupId=new_slugid())


@budget("resolved message, 8 dependents that become free", 7 + 8 * 3 + 1, None)
async def resolved_frees_eight(bench: Bench) -> Operations:
    return await resolved_frees(bench, 8)


@budget("resolved message, 100 dependents that become free", 7 + 100 * 3 + 1, None)
async def resolved_frees_a_hundred(bench: Bench) -> Operations:
    return await resolved_frees(bench, 100)


@budget("resolved messages, 32 leaves of one dependent together", 32 * 8, None)
async def resolved_together(bench: Bench) -> Operations:
    leaves = [await bench.running() for _ in range(32)]
    waiting = await bench.create(dependencies=leaves)
    for leaf in leaves:
        await bench.calls.lifecycle.report(leaf, 0, Resolved.COMPLETED)
    operations = await bench.measure(together(*(bench.resolved_due(leaf) for leaf in leaves)))
    assert (await bench.calls.lifecycle.status(waiting)).state.value == "pending"
    return operations


async def resolved_frees(bench: Bench, count: int, **changes: Any) -> Operations:
    task_id = await bench.running()
    for _ in range(count):
        await bench.create(dependencies=[task_id], **changes)
    await bench.calls.lifecycle.report(task_id, 0, Resolved.COMPLETED)
    return await bench.measure(bench.resolved_due(task_id))


@budget("resolved message, indexed under 4 paths", 7 + 2 * 4, 7)
async def resolved_indexed(bench: Bench) -> Operations:
    routes = [f"index.bench.v2.n{number}" for number in range(4)]
    await bench.finish_indexed(routes)
    return await bench.measure(bench.resolved_due(await bench.completed(routes=routes)))


@budget("claim message due", 5, 4)
async def claim_due(bench: Bench) -> Operations:
    task_id = await bench.running()
    bench.ahead = CLAIM_TIMEOUT + timedelta(seconds=1)
    return await bench.measure(bench.handlers.timers.claim_due(task_id, 0, utc_now()))


@budget("claim message due, of a claim that was renewed", 2, 2)
async def claim_not_due(bench: Bench) -> Operations:
    return await bench.measure(bench.handlers.timers.claim_due(await bench.running(), 0, utc_now()))


async def deadline(bench: Bench, task_id: str) -> Operations:
    return await bench.measure(bench.handlers.timers.deadline_due(task_id, bench.group, "-", utc_now()))


@budget("deadline message due", 6, 4)
async def deadline_due(bench: Bench) -> Operations:
    task_id = await bench.running()
    bench.ahead = timedelta(hours=4)
    return await deadline(bench, task_id)


@budget("deadline message of a resolved task", 2, 2)
async def deadline_of_resolved(bench: Bench) -> Operations:
    task_id = await bench.completed()
    bench.ahead = timedelta(hours=4)
    return await deadline(bench, task_id)


# The index


def entry(path: str, rank: int = 0) -> Entry:
    now = utc_now()
    return Entry(path=path, task_id=new_slugid(), rank=rank, data={}, expires=now + timedelta(hours=1), at=now)


@budget("insertTask, namespaces known", 2, 2)
async def insert(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    return await bench.measure(bench.calls.index.insert(entry("bench.v2.b")))


@budget("insertTask, a lower rank", 1, 1)
async def insert_lower(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a", rank=2))
    return await bench.measure(bench.calls.index.insert(entry("bench.v2.a", rank=1)))


@budget("insertTask, 2 new namespaces", 2 + 2 * 3 + 1, 9)
async def insert_first(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("other.v2.a"))  # the table is there
    return await bench.measure(bench.calls.index.insert(entry("bench.v2.a")))


@budget("findTask", 1, 1)
async def find_indexed(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    return await bench.measure(bench.calls.index.find("bench.v2.a"))


@budget("findTasksAtIndex, 20 paths", 20, 1)
async def find_many(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    paths = ["bench.v2.a", *(f"bench.v2.absent{number}" for number in range(19))]
    return await bench.measure(bench.calls.index.find_all(paths, 0, 1000))


@budget("listTasks", 1, 1)
async def list_entries(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    return await bench.measure(bench.calls.index.entries("bench.v2", "", 1000))


# Life cycle


async def moved(bench: Bench, name: str, task_id: str, *more: Any) -> Operations:
    """A call as its endpoint makes it: read to authorise, then move."""

    async def call() -> None:
        read = await bench.calls.lifecycle.known(task_id)
        await getattr(bench.calls.lifecycle, name)(read, *more)

    return await bench.measure(call())


@budget("cancelTask, running", 6, 4)
async def cancel_running(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.running())


@budget("cancelTask, pending", 5, 4)
async def cancel_pending(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.create())


@budget("cancelTask, pending, with dependencies", 6, 4)
async def cancel_pending_that_waited(bench: Bench) -> Operations:
    task_id = await bench.unscheduled()
    await moved(bench, "schedule", task_id)
    return await moved(bench, "cancel", task_id)


@budget("cancelTask, unscheduled", 4, 4)
async def cancel_unscheduled(bench: Bench) -> Operations:
    return await moved(bench, "cancel", await bench.unscheduled())


@budget("scheduleTask", 4, 3)
async def schedule(bench: Bench) -> Operations:
    return await moved(bench, "schedule", await bench.unscheduled())


@budget("rerunTask, resolved", 6, 3)
async def rerun(bench: Bench) -> Operations:
    return await moved(bench, "rerun", await bench.completed())


@budget("rerunTask, unscheduled", 4, 3)
async def rerun_unscheduled(bench: Bench) -> Operations:
    return await moved(bench, "rerun", await bench.unscheduled())


@budget("changeTaskPriority, pending", 6, 4)
async def change_priority(bench: Bench) -> Operations:
    await bench.create(priority="high")
    return await moved(bench, "change_priority", await bench.create(), "high")


@budget("changeTaskPriority, running", 2, 2)
async def change_priority_of_running(bench: Bench) -> Operations:
    return await moved(bench, "change_priority", await bench.running(), "high")


# Groups and lists


@budget("sealTaskGroup", 2, 2)
async def seal(bench: Bench) -> Operations:
    group = new_slugid()
    await bench.create(taskGroupId=group)

    async def call() -> None:
        await bench.calls.groups.seal(await bench.calls.groups.known(group))

    return await bench.measure(call())


@budget("cancelTaskGroup, 20 pending tasks", 6 + 20 * 5, None)
async def cancel_group(bench: Bench) -> Operations:
    group = new_slugid()
    await asyncio.gather(*(bench.create(taskGroupId=group) for _ in range(20)))

    async def call() -> None:
        await bench.calls.groups.known(group)
        assert len(await bench.calls.group_jobs.call(GroupJob(task_group_id=group, kind="cancel"))) == 20
        await bench.calls.group_jobs.size(group)

    return await bench.measure(call())


@budget("listTaskGroup of 12, 4 active", 2 + 4, 2)
async def list_group(bench: Bench) -> Operations:
    group = new_slugid()
    for _ in range(8):
        await bench.resolved_due(await bench.completed(taskGroupId=group))
    for _ in range(4):
        await bench.create(taskGroupId=group)
    return await bench.measure(bench.calls.groups.list(group, start="", limit=1000))


@budget("listPendingTasks of 5", 1 + 5, 2)
async def list_pending(bench: Bench) -> Operations:
    for _ in range(5):
        await bench.create()
    return await bench.measure(bench.calls.pool_views.pending(POOL, start="", limit=1000))


@budget("listClaimedTasks of 3", 1 + 3, 2)
async def list_claimed(bench: Bench) -> Operations:
    for _ in range(3):
        await bench.running()
    return await bench.measure(bench.calls.pool_views.claimed(POOL, start="", limit=1000))


@budget("taskQueueCounts or taskQueueLoad, one claimed", 2, 2)
async def counts(bench: Bench) -> Operations:
    await bench.running()
    return await bench.measure(bench.calls.pool_views.counts(POOL))


# Artifacts


def artifact(storage_type: StorageType, **changes: Any) -> Artifact:
    return Artifact(
        name=f"public/{new_slugid()}",
        storage_type=storage_type,
        content_type="text/plain",
        expires=utc_now() + timedelta(days=1),
        **changes,
    )


@budget("createArtifact, s3, expiring with its task", 1, 1)
async def create_artifact(bench: Bench) -> Operations:
    task_id = await bench.running(expires=timedelta(days=1, seconds=5))
    wanted = artifact(StorageType.S3, upload=Upload.DIRECT)
    return await bench.measure(bench.calls.artifacts.creation.create(task_id, 0, wanted))


@budget("createArtifact, reference", 2, 1)
async def create_reference(bench: Bench) -> Operations:
    task_id = await bench.running(expires=timedelta(days=1, seconds=5))
    wanted = artifact(StorageType.REFERENCE, details={"url": "https://example.com"})
    return await bench.measure(bench.calls.artifacts.creation.create(task_id, 0, wanted))


async def test_the_whole_life_of_an_ordinary_task(bench: Bench) -> None:
    """Create, claim, a reclaim, 2.4 artifacts, complete, the handler with its commits, expiry; with the host's own
    requests for the resolved message, and without what workers send straight to storage."""
    count, artifacts = 20, 48
    ordinary = bench.definition(expires=timedelta(hours=4))
    await bench.calls.expiration.run(60)
    steps: dict[str, int] = {"the host's Get and Delete": 2 * count}

    async def step(name: str, call: Awaitable[Any]) -> Any:
        with counting() as operations:
            answer = await call
        steps[name] = steps.get(name, 0) + operations.total
        return answer

    for _ in range(count):
        definition = bench.definition(deadline=ordinary.body["deadline"], expires=timedelta(hours=4))
        await step("createTask", bench.calls.create_task(definition))
    claims = [(await step("claimWork", bench.calls.work.claim_work(POOL, WORKER, 1, 5)))[0] for _ in range(count)]
    for claim in claims:
        await step("reclaimTask", bench.calls.work.reclaim_task(claim.task.task_id, 0))
    for number in range(artifacts):
        task = claims[number % count].task
        wanted = replace(artifact(StorageType.S3, upload=Upload.DIRECT), expires=task.expires)
        await step("createArtifact", bench.calls.artifacts.creation.create(task.task_id, 0, wanted))
        stored = await ArtifactStore(bench.storage).get(task.task_id, 0, wanted.name)
        assert stored
        await bench.storage.blobs.put_block(stored.container, stored.path, BLOCK, b"content")
    for claim in claims:
        await step("reportCompleted", bench.complete(claim))
        await step("the resolved message's handler", bench.resolved_due(claim.task.task_id))
    bench.ahead = timedelta(hours=7)
    assert await step("expiration", bench.handlers.expiration.run(60)) == count
    assert await bench.calls.lifecycle._stores.tasks.status(claims[0].task.task_id) is None

    for name, total in steps.items():
        print(f"{name}: {total / count:.2f}")
    each = sum(steps.values()) / count
    print(f"in all: {each:.2f}")
    assert each <= 42


def test_every_scenario_has_a_name_of_its_own() -> None:
    names = [case.name for case in BUDGETS]
    assert len(set(names)) == len(names)
