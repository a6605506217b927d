"""Rows and messages that name the wrong task, run, generation, time, pool or group, in a deployment at work.

A call that was refused, or died, or a request that took effect late can leave each of them. Status rows decide, so what
anybody is shown or given, and how every task ends, is as without it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from shared.app.services import Services
from shared.base.dates import format_date
from shared.queue.pools.directory import DirectoryKind
from shared.queue.pools.rows import _values
from shared.queue.tasks.effects import PoolRow, pending_content
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, DEADLINE_QUEUE, ClaimBody, DeadlineBody, ResolvedBody
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store import keys
from shared.store.interface import Upsert
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, B, C
from tests.promises.simulator.states import OTHER_POOL
from tests.promises.simulator.world import POOL, WORKER, World

Plant = Callable[[World], Coroutine[Any, Any, None]]
D, E, NOBODY = (f"{letter * 8}Q{letter}C{letter * 10}A" for letter in "fgh")
"""Ids of a task of another group and pool, of one that was completed, and of one that does not exist."""
FIRST = Worker(worker_group="a", worker_id="first")
ANOTHER = Worker(worker_group="group", worker_id="another")
HOUR = 3600.0
A_MOMENT = 200.0
"""Seconds after which it is noticed that nobody takes a task, and before which a worker counts as there."""


async def _write(table: str, partition: str, key: str, values: Mapping[str, Any], world: World) -> None:
    await world.account.connect().tables.transact(table, partition, [Upsert(key, dict(values))])


def _index_row(state: State, task_id: str, run_id: int, minutes: float = 0, *, overdue: bool = False) -> Plant:
    """Plants an index row in POOL of a run that was scheduled and claimed `minutes` earlier than it was."""

    async def plant(world: World) -> None:
        task = world.tasks().get(task_id)
        run = task.runs[run_id] if task is not None and run_id <= task.last_run_id else None
        scheduled = (run.scheduled if run else world.clock.now()) - timedelta(minutes=minutes)
        started = ((run.started if run else None) or world.clock.now()) - timedelta(minutes=minutes)
        deadline = task.deadline if task is not None else world.clock.now() + timedelta(hours=3)
        row = PoolRow(
            task_queue_id=POOL,
            state=state,
            scheduled=scheduled,
            started=started if state is State.RUNNING else None,
            task_id=task_id,
            run_id=run_id,
            priority="lowest",
            deadline=world.clock.now() - timedelta(days=1) if overdue else deadline,
            claim_id="c" * 22,
            worker_group=WORKER.worker_group,
            worker_id=WORKER.worker_id,
        )
        key = keys.pending(row) if state is State.PENDING else keys.claimed(row)
        await _write(keys.POOLS, keys.pool(POOL), key, _values(row), world)

    return plant


def _of_group(group: str, *rows: str) -> Plant:
    """Plants rows of a group."""

    async def plant(world: World) -> None:
        for key in rows:
            await _write(keys.GROUPS, group, key, {}, world)

    return plant


def _of_task(task_id: str, key: str) -> Plant:
    return partial(_write, keys.TASKS, task_id, key, {})


def _due(kind: str, *words: str, **values: Any) -> Plant:
    """Plants a row of the Expiry table in an hour that is over soon."""

    async def plant(world: World) -> None:
        await _write(keys.EXPIRY, keys.hour(world.clock.now()), keys.expiring(kind, *words), values, world)

    return plant


def _pending_message(task_id: str, run_id: int, *, is_the_only_one: bool = False) -> Plant:
    """Plants a message of a task in the queue of POOL, as a refused call may have put it."""

    async def plant(world: World) -> None:
        content = replace(pending_content(world.tasks()[task_id], run_id), task_queue_id=POOL)
        text = world.services.stores.messages._pending_text(pending_queue(POOL, "lowest"), content)
        if is_the_only_one:
            world.memory.queues._queues[pending_queue(POOL, "lowest")].clear()
        await world.account.connect().queues.put_message(pending_queue(POOL, "lowest"), text)

    return plant


def _message(make: Callable[[World], Any]) -> Plant:
    async def plant(world: World) -> None:
        await world.services.stores.messages.put_body(make(world), 0)

    return plant


MISPLACED: Mapping[str, Plant] = {
    "pending row of a task of another pool": _index_row(State.PENDING, D, 0),
    "pending row of a task of another pool, overdue": _index_row(State.PENDING, D, 0, overdue=True),
    "pending row of another time": _index_row(State.PENDING, C, 1, 20),
    "pending row of a run that is not there": _index_row(State.PENDING, C, 2),
    "pending row of a running run": _index_row(State.PENDING, A, 1),
    "pending row of an earlier run": _index_row(State.PENDING, A, 0),
    "pending row of a resolved task": _index_row(State.PENDING, E, 0),
    "pending row of no task": _index_row(State.PENDING, NOBODY, 0),
    "claimed row of a task of another pool": _index_row(State.RUNNING, D, 0),
    "claimed row of another time": _index_row(State.RUNNING, A, 1, 20),
    "claimed row of an earlier run": _index_row(State.RUNNING, A, 0),
    "claimed row of a pending run": _index_row(State.RUNNING, C, 1),
    "claimed row of a resolved task": _index_row(State.RUNNING, E, 0),
    "claimed row of no task": _index_row(State.RUNNING, NOBODY, 0),
    "rows of a task of another group": _of_group(GROUP, keys.member(D), keys.active(D, 0)),
    "rows of a rerun of a task of another group": _of_group(GROUP, keys.member(D), keys.active(D, 1)),
    "rows of no task": _of_group(GROUP, keys.member(NOBODY), keys.active(NOBODY, 0)),
    "active row of a later generation": _of_group(GROUP, keys.active(C, 1)),
    "active row of a settled task": _of_group(GROUP, keys.active(E, 0)),
    "edge to a task that does not depend on it": _of_group(GROUP, keys.unblocks(A, C)),
    "edge to no task": _of_group(GROUP, keys.unblocks(A, NOBODY)),
    "edge to itself": _of_group(GROUP, keys.unblocks(A, A)),
    "edge of another group to a task that does not depend on it": _of_task(A, keys.dependent(D)),
    "edge of another group to no task": _of_task(A, keys.dependent(NOBODY)),
    "expiry of a task that lasts": _due("task", A, GROUP, taskGroupId=GROUP),
    "expiry of a task in another group": _due("task", D, GROUP, taskGroupId=GROUP),
    "expiry of a group that lasts": _due(keys.SWEPT_GROUP, GROUP),
    "expiry of a worker that lasts": _due(
        "worker", keys.pool(POOL), WORKER.worker_group, WORKER.worker_id, taskQueueId=POOL
    ),
    "expiry of a task queue that lasts": _due(DirectoryKind.TASK_QUEUE, *POOL.split("/")),
    "expiry of a provisioner that lasts": _due(DirectoryKind.PROVISIONER, POOL.split("/")[0]),
    "message of a task of another pool": _pending_message(D, 0),
    "message of an earlier run": _pending_message(C, 0, is_the_only_one=True),
    "message of a resolved task": _pending_message(E, 0),
    "deadline message of another group": _message(
        lambda world: DeadlineBody(task_id=A, task_group_id=OTHER_GROUP, scheduler_id="-", put=world.clock.now())
    ),
    "resolved message of a run that runs": _message(
        lambda world: ResolvedBody(task_id=A, run_id=1, put=world.clock.now())
    ),
    "resolved message of a run that was retried": _message(
        lambda world: ResolvedBody(task_id=A, run_id=0, put=world.clock.now())
    ),
    "claim message of another claim": _message(
        lambda world: ClaimBody(task_id=A, run_id=1, put=world.clock.now(), started=world.clock.now())
    ),
}


@dataclass
class Life:
    """What was shown on the way, and which rows there were when all that was due had been handled: a while after
    something was misplaced, and when all tasks of its group had been resolved."""

    shown: list[object]
    rows: list[set[tuple[str, str]]]


async def life(
    world: World,
    plant: Plant | None,
    age: float,
    *,
    counts_messages: bool = True,
    loses: bool = False,
) -> Life:
    """Plays tasks of two groups and two task queues, from their creation until they have expired. Something is
    misplaced early, and is `age` seconds old when they go on. `loses` says that the messages of what waits are lost by
    then. `counts_messages` adds to what is shown."""
    told = Life([], [])
    services, show = world.services, partial(shown, world, counts_messages=counts_messages)
    changes: dict[str, Any] = {"taskGroupId": GROUP, "deadline": format_date(world.clock.now() + timedelta(hours=5))}
    for task_id in (E, A, C):
        await world.create(task_id, **changes)
        assert await world.claim()
        if task_id == E:
            await services.lifecycle.report(E, 0, Resolved.COMPLETED)
            await world.drain(30)
        else:
            await services.lifecycle.report_exception(task_id, 0, Resolved.WORKER_SHUTDOWN)
            await world.clock.sleep(2)
        if task_id == A:
            assert await world.claim()
    await world.create(B, dependencies=[A], **changes)
    await world.create(D, **{**changes, "taskGroupId": OTHER_GROUP, "taskQueueId": OTHER_POOL})
    await world.drain(1)
    for worker in (FIRST, ANOTHER):
        for pool in (POOL, OTHER_POOL):
            await services.workers.declare(pool, worker, world.clock.now() + timedelta(days=1))
    until = world.clock.now() + timedelta(days=1)
    await services.workers.quarantine(OTHER_POOL, FIRST, until, client_id="somebody", info="")
    if plant is not None:
        await plant(world)
    if loses:
        world.memory.queues._queues[pending_queue(POOL, "lowest")].clear()
    told.shown.append(await show())
    await world.drain(min(age, A_MOMENT))
    told.shown.append(await show())
    await world.drain(max(age - A_MOMENT, 0))
    told.shown.append(await show())
    told.rows.append(_rows(world))
    await _claim(world, told)
    await services.lifecycle.report(A, 1, Resolved.COMPLETED)
    await world.drain(60)
    told.shown.append(await show())
    await _claim(world, told)
    told.shown.append(await show())
    for task_id, run_id in ((B, 0), (C, 1)):
        await services.lifecycle.report(task_id, run_id, Resolved.COMPLETED)
    await world.drain(700)
    told.shown.append(await show())
    told.rows.append(_rows(world))
    await world.drain(7 * HOUR)
    told.shown.append(await show())
    told.shown.append(sorted(Counter((each.topic, _about(each.body)) for each in world.topics.messages)))
    for _ in range(20):
        await world.handlers.expiration.run(300)
        await world.drain(6 * HOUR)
    told.shown.append(sorted(key for _, key in _rows(world)))
    return told


async def _claim(world: World, told: Life) -> None:
    claims = await world.services.work.claim_work(POOL, ANOTHER, 4, 1.5)
    told.shown.append(sorted((claim.task.task_id, claim.run_id) for claim in claims))


TABLES = (keys.TASKS, keys.GROUPS, keys.POOLS, keys.EXPIRY)


def _rows(world: World) -> set[tuple[str, str]]:
    return {(row.partition, row.key) for table in TABLES for row in world.rows(table)}


TIMERS = (CLAIM_QUEUE, DEADLINE_QUEUE)


def _about(body: str | bytes) -> str:
    told = json.loads(body)
    return f"{told.get('status', {}).get('taskId', told.get('taskGroupId'))} {told.get('runId')}"


async def shown(world: World, *, counts_messages: bool) -> list[object]:
    """Returns what callers are shown, and with `counts_messages` how many timers each task has."""
    services = world.process()
    seen: list[object] = [
        (task.task_id, [(run.state, run.reason_resolved) for run in task.runs], task.satisfied, task.priority)
        for task in world.tasks().values()
    ]
    for pool in (POOL, OTHER_POOL):
        counts = await services.pool_views.counts(pool)
        pending = await _all(partial(services.pool_views.pending, pool, limit=50))
        claimed = await _all(partial(services.pool_views.claimed, pool, limit=50))
        runs = [sorted((each.task.task_id, each.task.last_run_id) for each in listed) for listed in (pending, claimed)]
        seen.append((pool, counts.claimed, *runs))
    for group in (GROUP, OTHER_GROUP):
        members = await _all(partial(_members, services, group))
        seen.append((group, sorted(each.status["taskId"] for each in members)))
    unresolved = {task.task_id for task in world.tasks().values() if not task.is_resolved}
    timed = Counter(body["taskId"] for queue in TIMERS for body, _ in world.messages(queue))
    seen.append({task_id: timed[task_id] for task_id in unresolved} if counts_messages else {})
    resolved = Counter(body["taskGroupId"] for body in world.topics.of("task-group-resolved"))
    seen.append(resolved if counts_messages else Counter())
    _, stall = await services.pool_views.load(OTHER_POOL)
    seen.append(stall and stall.reason)
    waiting = [body for body, _ in world.messages(pending_queue(POOL, "lowest"))]
    hints = {task.task_id: task.hint_id for task in world.tasks().values() if not task.is_resolved}
    named = {(each["taskId"], each["runId"]) for each in waiting if hints.get(each["taskId"]) == each["hintId"]}
    seen.append(named if counts_messages else set())
    workers = await _all(partial(services.workers.worker_page, POOL, limit=50))
    seen.append(sorted(each.worker_id for each in workers))
    return seen


async def _all(read: Callable[..., Coroutine[Any, Any, tuple[list[Any], str | None]]]) -> list[Any]:
    found: list[Any] = []
    start: str | None = ""
    while start is not None:
        page, start = await read(start=start)
        found += page
    return found


async def _members(services: Services, group: str, *, start: str) -> tuple[list[Any], str | None]:
    _, (tasks, resume) = await services.groups.list(group, start=start, limit=50)
    return list(tasks), resume
