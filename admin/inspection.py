"""Whether a task's rows agree with each other, and how to put right what does not (design 2, 7).

The status row is the only truth; everything else must follow from it. What a call or a handler may still be at is left
alone: only what has stood for `Records.settled` counts. Messages can't be looked up in Azure's queues, so a lost one
shows only when it is overdue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from admin.account import Records
from shared.domain.creation import satisfies
from shared.domain.definition import Definition
from shared.domain.effects import ChangePoolRows, row_of
from shared.domain.task import RETRY_OF, State, Task
from shared.storage import keys
from shared.storage.codec import decode_task
from shared.storage.expiry import KEPT
from shared.storage.interface import Row
from shared.storage.partitions import read_all

Repair = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Finding:
    """Something that should not be so. Without a repair it needs a person."""

    text: str
    repair: Repair | None = None


async def inspect_task(records: Records, task_id: str) -> list[Finding]:
    """What is wrong with a task; nothing if all is well. Raises StorageUnavailable."""
    rows = {row.key: row for row in await read_all(records.storage, keys.TASKS, task_id, ())}
    status = await records.storage.tables.get(keys.TASKS, task_id, keys.TASK_STATUS)
    if status is None:
        return [Finding("there is no such task")] if keys.TASK_DEFINITION not in rows else [Finding("no status row")]
    task = decode_task(status)
    definition = await records.tasks.definition(task_id)
    if definition is None:
        return [Finding("no definition row")]
    found = [*_runs(task), *_guards(task, rows)]
    found += _overdue(records, task)
    if not await _is_filed(records, definition):
        found.append(Finding("it would never be deleted", lambda: records.expiry.task(definition)))
    if records.runtime.now() - status.timestamp >= records.settled:
        found += await _group_rows(records, task)
        found += await _pool_rows(records, task)
        found += await _dependencies(records, task, definition)
    return found


def _runs(task: Task) -> Iterator[Finding]:
    for run_id, run in enumerate(task.runs[:-1]):
        if not run.state.is_resolved:
            yield Finding(f"run {run_id} is {run.state.value}, and there is a later one")
    retried = sum(run.reason_created in RETRY_OF.values() for run in task.runs)
    if retried > task.retries * (task.generation + 1) or not 0 <= task.retries_left <= task.retries:
        yield Finding(f"{retried} retries of {task.retries}, {task.retries_left} left")


def _guards(task: Task, rows: dict[str, Row]) -> Iterator[Finding]:
    """Guards are part of the status row's own transaction: they are wrong only if somebody has written by hand."""
    if (keys.TASK_OPEN in rows) == task.is_resolved:
        yield Finding(f"it is {task.state.value}, but its guard says otherwise")
    wanted = {keys.upload(run_id) for run_id, run in enumerate(task.runs) if run.state is State.RUNNING}
    present = {key for key in rows if key.startswith("upload~")}
    if present != wanted:
        yield Finding(f"upload guards are {sorted(present)} instead of {sorted(wanted)}")


def _overdue(records: Records, task: Task) -> Iterator[Finding]:
    now = records.runtime.now()
    if not task.is_resolved and now - task.deadline > records.settled:
        yield Finding(
            f"unresolved since its deadline, {task.deadline}",
            lambda: records.messages.put_deadline(task.task_id, task.task_group_id, task.scheduler_id, task.deadline),
        )
    taken_until = task.last_run.taken_until if task.state is State.RUNNING else None
    if taken_until is not None and now - taken_until > records.settled:
        yield Finding(
            f"running since its claim ended, {taken_until}",
            lambda: records.messages.put_claim(task.task_id, task.last_run_id, taken_until),
        )


async def _is_filed(records: Records, definition: Definition) -> bool:
    key = keys.expiring("task", definition.task_id, definition.task_group_id)
    return await records.storage.tables.get(keys.EXPIRY, keys.hour(definition.expires + KEPT), key) is not None


async def _group_rows(records: Records, task: Task) -> list[Finding]:
    tables, group = records.storage.tables, task.task_group_id
    found = []
    if await tables.get(keys.GROUPS, group, keys.member(task.task_id)) is None:
        found.append(Finding(f"it is no member of its group {group}"))
    prefix = keys.active(task.task_id, 0)[:-4]
    page = await tables.query(keys.GROUPS, group, start=prefix, end=f"{prefix}\x7f")
    active = {int(row.key.removeprefix(prefix)) for row in page.rows}
    if not task.is_resolved and task.generation not in active:
        found.append(
            Finding(
                "its group does not count it as unresolved",
                lambda: records.groups.add_active(group, task.task_id, task.generation),
            )
        )
    if task.is_resolved and any(generation <= task.generation for generation in active):
        found.append(Finding("its group counts it as unresolved", lambda: _put_resolved(records, task)))
    return found


async def _pool_rows(records: Records, task: Task) -> list[Finding]:
    """The index rows of the last run. A missing pending row also hides a lost message from the reconciler."""
    if not task.runs or task.last_run.reason_created.value == "exception":
        return []
    tables, pool, row = records.storage.tables, keys.pool(task.task_queue_id), row_of(task, task.last_run_id)
    pending = await tables.get(keys.POOLS, pool, keys.pending(row)) is not None
    claimed = row.started is not None and await tables.get(keys.POOLS, pool, keys.claimed(row)) is not None
    if task.is_resolved and (pending or claimed):
        return [Finding("its pool still lists it", lambda: _put_resolved(records, task))]
    listed = pending if task.state is State.PENDING else claimed
    if task.is_resolved or listed:
        return []
    change = ChangePoolRows(task_queue_id=task.task_queue_id, add=(row,))
    return [
        Finding(
            f"its pool does not list it as {task.state.value}",
            lambda: records.pools.change([change], task.task_queue_id),
        )
    ]


async def _dependencies(records: Records, task: Task, definition: Definition) -> list[Finding]:
    found: list[Finding] = []
    for index, required_id in enumerate(definition.dependencies):
        if required_id == task.task_id:
            continue
        if await records.storage.tables.get(keys.TASKS, required_id, keys.dependent(task.task_id)) is None:
            required = await records.tasks.status(required_id)
            if required is not None:
                found.append(_unheard(records, required_id, task.task_id))
            continue
        found += await _unnoticed(records, task, definition, index, required_id)
    if task.is_free and not task.runs and task.dependencies:
        found.append(Finding("nothing holds it back, and it has no run"))
    return found


def _unheard(records: Records, required_id: str, task_id: str) -> Finding:
    return Finding(
        f"{required_id} would not wake it", lambda: records.tasks.touch_edge(required=required_id, dependent=task_id)
    )


async def _unnoticed(
    records: Records, task: Task, definition: Definition, index: int, required_id: str
) -> list[Finding]:
    if task.is_resolved or task.satisfied >> index & 1:
        return []
    required = await records.tasks.status(required_id)
    if required is None or not satisfies(definition, required.state):
        return []
    resolved = required.last_run.resolved
    if resolved is None or records.runtime.now() - resolved < records.settled:
        return []
    return [Finding(f"{required_id} is resolved, and it was not told", lambda: _put_resolved(records, required))]


async def _put_resolved(records: Records, task: Task) -> object:
    """Lets the handler of resolutions do all of its work once more: it may be repeated."""
    return await records.messages.put_resolved(task.task_id, task.last_run_id)


async def inspect_group(records: Records, task_group_id: str) -> list[Finding]:
    """What is wrong with a group's own rows. Its tasks are looked at one by one (`group_tasks`, `inspect_task`)."""
    now = records.runtime.now()
    group = await records.groups.header(task_group_id)
    if group is None:
        return [Finding("there is no such group")]
    found = []
    guard = await records.storage.tables.get(keys.GROUPS, task_group_id, keys.scheduler(group.scheduler_id))
    if (guard is None) != (group.sealed is not None):
        found.append(Finding("its scheduler's guard does not agree with whether it is sealed"))
    active, start = await records.groups.active_page(task_group_id, None)
    for row in active:
        task = await records.tasks.status(row.task_id)
        if task is None and now - row.written > records.settled:
            found.append(Finding(f"it counts {row.task_id}, which does not exist", _surplus(records, group.due)))
    if group.due and not active and start is None:
        found += await _unannounced(records, group.due, now)
    return found


def _surplus(records: Records, due: str) -> Repair | None:
    """The check that follows any resolution removes such rows; one that is due can be called for."""
    return (lambda: _check_again(records, due)) if due else None


async def _unannounced(records: Records, due: str, now: datetime) -> Sequence[Finding]:
    task = await records.tasks.status(due.partition("~")[0])
    resolved = task.last_run.resolved if task is not None and task.is_resolved else None
    if resolved is None or now - resolved < records.settled:
        return ()
    return (Finding("it is resolved, and was not announced", lambda: _check_again(records, due)),)


async def _check_again(records: Records, due: str) -> object:
    task = await records.tasks.status(due.partition("~")[0])
    return None if task is None else await _put_resolved(records, task)


async def group_tasks(records: Records, task_group_id: str) -> list[str]:
    """The ids of all members."""
    found: list[str] = []
    start: str | None = None
    while True:
        members, start = await records.groups.members(task_group_id, start, 1000)
        found.extend(member.task_id for member in members)
        if start is None:
            return found
