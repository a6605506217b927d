"""Whether a task's rows agree with each other, and how to put right what does not (design 2, 7).

The status row is the only truth; everything else must follow from it. What a call or a handler may still be at is left
alone: only what was present for `Records.settled` counts. Messages can't be looked up in Azure's queues, so a lost one
shows only when it is overdue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.base.concurrency import in_waves
from shared.index.rules import entries_of
from shared.queue.groups.rows import Group
from shared.queue.tasks.codec import DefinitionIncomplete, decode_task
from shared.queue.tasks.definition import Definition, satisfies
from shared.queue.tasks.effects import row_of
from shared.queue.tasks.rules import RETRY_OF, State, Task
from shared.store import keys
from shared.store.expiring import LAST_RETRY, deletable_from
from shared.store.interface import Row
from shared.store.partitions import rows_of
from tools.admin.account import Records
from tools.admin.repair import Repair, TaskRepairs, group_guards, guards, put_resolved, set_group_guards

_ATTEMPTS = 5
_WIDTH = 32
"""Dependencies looked at in parallel."""


@dataclass(frozen=True)
class Finding:
    """Something that should not be so. Without a repair it needs a person."""

    text: str
    repair: Repair | None = None


@dataclass(frozen=True)
class _Look:
    """Holds what one look has found, and the ETag of the status row at its beginning."""

    etag: str
    found: list[Finding]


async def inspect_task(records: Records, task_id: str) -> list[Finding]:
    """Returns what is wrong with a task; nothing if all is well. Raises StorageUnavailable.

    Rows are read one after the other while calls go on. So something counts as wrong only if a second look finds it
    too, and the status row did not change from the first look to the second. A task that changes all the time is being
    worked on, and nothing is said of it.
    """
    return await _found_twice(lambda: _look(records, task_id))


async def _found_twice(looking: Callable[[], Awaitable[_Look]]) -> list[Finding]:
    look = await looking()
    for _attempt in range(_ATTEMPTS):
        if not look.found:
            return []
        before, look = look, await looking()
        if before.etag == look.etag:
            texts = {finding.text for finding in before.found}
            return [finding for finding in look.found if finding.text in texts]
    return []


async def _look(records: Records, task_id: str) -> _Look:
    start, end = keys.TASK_ROWS[0], keys.UPLOADS[1]
    pages = rows_of(records.storage.tables, keys.TASKS, task_id, start=start, end=end)
    rows = {row.key: row async for page in pages for row in page}
    status = rows.get(keys.TASK_STATUS)
    if status is None:
        is_part = keys.TASK_DEFINITION in rows
        return _Look("", [Finding("no status row" if is_part else "there is no such task")])
    task = decode_task(status)
    try:
        definition = await records.tasks.definition(task_id)
    except DefinitionIncomplete:
        return _Look(status.etag, [Finding("the rows of the definition are not complete")])
    if definition is None:
        return _Look(status.etag, [Finding("no definition row")])
    repairs = TaskRepairs(records, status, task)
    found = [*_runs(task), *_guards(task, rows, repairs)]
    found += _overdue(records, task, repairs)
    found += await _deletion(records, task, repairs)
    if records.runtime.now() - status.timestamp >= records.settled:
        found += await _group_rows(records, task, repairs)
        found += await _pool_rows(records, task, repairs)
        found += await _dependencies(records, task, definition, repairs)
        found += await _index(records, task, definition)
    return _Look(status.etag, found)


def _runs(task: Task) -> Iterator[Finding]:
    for run_id, run in enumerate(task.runs[:-1]):
        if not run.state.is_resolved:
            yield Finding(f"run {run_id} is {run.state.value}, and there is a later one")
    retried = sum(run.reason_created in RETRY_OF.values() for run in task.runs)
    if retried > task.retries * (task.generation + 1) or not 0 <= task.retries_left <= task.retries:
        yield Finding(f"{retried} retries of {task.retries}, {task.retries_left} left")


def _guards(task: Task, rows: dict[str, Row], repairs: TaskRepairs) -> Iterator[Finding]:
    """Finds guards that do not follow from the status row. They are written in its own transaction, so they differ only
    in a copy, or if somebody has written by hand."""
    present = [key for key in rows if key == keys.TASK_OPEN or key.startswith(keys.UPLOADS[0])]
    if (keys.TASK_OPEN in rows) == task.is_resolved:
        yield Finding(f"it is {task.state.value}, but its guard says otherwise", repairs.set_guards(present))
    elif set(present) != (wanted := guards(task)):
        yield Finding(f"guards are {sorted(present)} instead of {sorted(wanted)}", repairs.set_guards(present))


def _overdue(records: Records, task: Task, repairs: TaskRepairs) -> Iterator[Finding]:
    now = records.runtime.now()
    if not task.is_resolved and now - task.deadline > records.settled:
        yield Finding(
            f"unresolved since its deadline, {task.deadline}",
            repairs.put_deadline(),
        )
    taken_until = task.last_run.taken_until if task.state is State.RUNNING else None
    if taken_until is not None and now - taken_until > records.settled:
        yield Finding(
            f"running since its claim ended, {taken_until}",
            repairs.put_claim(),
        )


async def _deletion(records: Records, task: Task, repairs: TaskRepairs) -> list[Finding]:
    """Finds a task whose deletion is not scheduled, neither by a sweep of its group nor by a row of its own."""
    group = await records.groups.header(task.task_group_id)
    member = await records.storage.tables.get_row(keys.GROUPS, task.task_group_id, keys.member(task.task_id))
    sweep = group if member is not None else None
    swept, own = (
        keys.expiring(keys.SWEPT_GROUP, task.task_group_id),
        keys.expiring("task", task.task_id, task.task_group_id),
    )
    if sweep is not None and await _is_scheduled(records, sweep.expires, swept):
        return []
    if await _is_scheduled(records, task.expires, own):
        return []
    return [Finding("it would never be deleted", repairs.schedule_deletion(sweep))]


async def _is_scheduled(records: Records, expires: datetime, key: str) -> bool:
    """Returns whether a deletion is scheduled: in the bucket of its hour or, if that is over, in a later bucket to
    which it was moved."""
    own, now = deletable_from(expires), records.runtime.now()
    first = (await records.expiry.position()).hour
    hours = {keys.hour(own)} if own >= first else set()
    if own <= now:
        last = now + LAST_RETRY + timedelta(hours=1)
        hours |= {
            keys.hour(first + timedelta(hours=number)) for number in range((last - first) // timedelta(hours=1) + 1)
        }

    async def is_there(hour: str) -> bool:
        return await records.storage.tables.get_row(keys.EXPIRY, hour, key) is not None

    return any(await in_waves(_WIDTH, is_there, sorted(hours)))


async def _group_rows(records: Records, task: Task, repairs: TaskRepairs) -> list[Finding]:
    tables, group = records.storage.tables, task.task_group_id
    found: list[Finding] = []
    if await tables.get_row(keys.GROUPS, group, keys.member(task.task_id)) is None:
        found.append(Finding(f"it is no member of its group {group}"))
    prefix = keys.active(task.task_id, 0)[:-4]
    page = await tables.query(keys.GROUPS, group, start=prefix, end=f"{prefix}\x7f")
    active = {int(row.key.removeprefix(prefix)) for row in page.rows}
    if not task.is_resolved and task.generation not in active:
        found.append(Finding("its group does not count it as unresolved", repairs.count_as_unresolved()))
    if task.is_resolved and any(generation <= task.generation for generation in active):
        found.append(Finding("its group counts it as unresolved", repairs.handle_again()))
    header = await records.groups.header(group)
    return found if header is None else [*found, *await _guards_of(records, header)]


async def _pool_rows(records: Records, task: Task, repairs: TaskRepairs) -> list[Finding]:
    """Compares the index rows of the last run with its state. If a pending row is missing, the reconciler does not
    notice a lost message either."""
    if not task.runs or task.last_run.reason_created.value == "exception":
        return []
    tables, pool, row = records.storage.tables, keys.pool(task.task_queue_id), row_of(task, task.last_run_id)
    pending = await tables.get_row(keys.POOLS, pool, keys.pending(row)) is not None
    claimed = row.started is not None and await tables.get_row(keys.POOLS, pool, keys.claimed(row)) is not None
    if task.is_resolved and (pending or claimed):
        return [Finding("its pool still lists it", repairs.handle_again())]
    listed = pending if task.state is State.PENDING else claimed
    if task.is_resolved or listed:
        return []
    return [Finding(f"its pool does not list it as {task.state.value}", repairs.list_in_pool())]


async def _dependencies(records: Records, task: Task, definition: Definition, repairs: TaskRepairs) -> list[Finding]:
    async def look(dependency: tuple[int, str]) -> list[Finding]:
        index, required_id = dependency
        required = None if required_id == task.task_id else await records.tasks.status(required_id)
        if required is None:
            return []
        if not await _has_edge(records, required, task):
            return [Finding(f"{required_id} would not wake it", repairs.wake_from(required_id))]
        return _unnoticed(records, task, definition, index, required)

    dependencies = await in_waves(_WIDTH, look, enumerate(definition.dependencies))
    found = [finding for each in dependencies for finding in each]
    if task.is_free and not task.runs and task.dependencies:
        found.append(Finding("nothing holds it back, and it has no run"))
    return found


async def _has_edge(records: Records, required: Task, task: Task) -> bool:
    tables, group = records.storage.tables, task.task_group_id
    if required.task_group_id == group:
        return await tables.get_row(keys.GROUPS, group, keys.unblocks(required.task_id, task.task_id)) is not None
    return await tables.get_row(keys.TASKS, required.task_id, keys.dependent(task.task_id)) is not None


async def _index(records: Records, task: Task, definition: Definition) -> list[Finding]:
    """Finds index entries that a completed task asks for and that are missing, and not replaced or deleted."""

    async def enter() -> bool:
        assert resolved is not None, "it has completed"
        await records.index.task_completed(definition, resolved)
        return True

    resolved = task.last_run.resolved if task.state is State.COMPLETED else None
    found = []
    for wanted in () if resolved is None else entries_of(definition, resolved):
        if wanted.expires <= records.runtime.now():
            continue
        stored, deleted = await records.index.look_up(wanted.path)
        if deleted is not None and wanted.at <= deleted:
            continue
        if stored is None or (wanted.rank, wanted.at) > (stored.rank, stored.at):
            other = "nothing" if stored is None else stored.task_id
            found.append(Finding(f"the index has {other} at {wanted.path}", enter))
    return found


def _unnoticed(records: Records, task: Task, definition: Definition, index: int, required: Task) -> list[Finding]:
    if task.is_resolved or task.satisfied >> index & 1 or not satisfies(definition, required.state):
        return []
    resolved = required.last_run.resolved
    if resolved is None or records.runtime.now() - resolved < records.settled:
        return []
    return [Finding(f"{required.task_id} is resolved, and it was not notified", _again(records, required))]


async def inspect_group(records: Records, task_group_id: str) -> list[Finding]:
    """Returns what is wrong with a group's own rows. Its tasks are looked at one by one (`group_tasks`,
    `inspect_task`). As with tasks, something counts only if two looks find it between which the header did not change.
    """
    return await _found_twice(lambda: _look_at_group(records, task_group_id))


async def _look_at_group(records: Records, task_group_id: str) -> _Look:
    now = records.runtime.now()
    group = await records.groups.header(task_group_id)
    if group is None:
        return _Look("", [Finding("there is no such group")])
    found = await _guards_of(records, group)
    active, start = await records.groups.active_page(task_group_id, None)
    due = await records.groups.due(task_group_id)
    resolution = "" if due is None else due.resolution
    for row in active:
        task = await records.tasks.status(row.task_id)
        if task is None and now - row.written > records.settled:
            text = f"it counts {row.task_id}, which does not exist"
            found.append(Finding(text, _remove_orphans(records, resolution)))
    if resolution and not active and start is None:
        found += await _unannounced(records, resolution, now)
    return _Look(group.etag, found)


async def _guards_of(records: Records, group: Group) -> list[Finding]:
    start, end = keys.GROUP_GUARDS
    pages = rows_of(records.storage.tables, keys.GROUPS, group.task_group_id, start=start, end=end)
    there = {row.key async for page in pages for row in page}
    if there == group_guards(group):
        return []
    text = f"the guards of group {group.task_group_id} do not agree with its header"
    return [Finding(text, set_group_guards(records, group, there))]


def _remove_orphans(records: Records, due: str) -> Repair | None:
    """Returns the repair that removes orphaned rows: it calls for the check that is due, if one is."""
    return (lambda: _check_again(records, due)) if due else None


async def _unannounced(records: Records, due: str, now: datetime) -> Sequence[Finding]:
    task = await records.tasks.status(due.partition("~")[0])
    resolved = task.last_run.resolved if task is not None and task.is_resolved else None
    if resolved is None or now - resolved < records.settled:
        return ()
    return (Finding("it is resolved, and was not announced", lambda: _check_again(records, due)),)


async def _check_again(records: Records, due: str) -> bool:
    task = await records.tasks.status(due.partition("~")[0])
    if task is None:
        return False
    await put_resolved(records, task)
    return True


def _again(records: Records, task: Task) -> Repair:
    """Returns the repair that has the resolution of a task's last run handled once more."""

    async def repair() -> bool:
        await put_resolved(records, task)
        return True

    return repair


async def group_tasks(records: Records, task_group_id: str) -> list[str]:
    """Returns the ids of all members."""
    return [row.key.partition("~")[2] async for page in records.groups.all_members(task_group_id) for row in page]
