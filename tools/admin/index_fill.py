"""Enters tasks into the index that completed before there was one (contract 18.6).

The same rules as when a task completes: each entry has the time of the resolution, so that a later completion of equal
rank keeps its path, and filling twice changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.base.concurrency import in_waves
from shared.index.rules import entries_of
from shared.queue.tasks.rules import Run, State
from tools.admin.account import Records

PAGE = 1000
"""Tasks after which progress is reported."""
WIDTH = 16
"""Tasks read side by side."""


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What a fill has looked at and done."""

    tasks: int
    """Tasks that were read."""
    indexed: int
    """Tasks that have completed and ask for a path; whether they won it is decided by rank and time."""


async def fill(
    records: Records,
    task_ids: AsyncIterable[str],
    since: datetime | None,
    progress: Callable[[Filled], None],
) -> Filled:
    """Indexes those of the tasks that have completed, and not before `since`. May be repeated and interrupted.

    Raises StorageUnavailable, ServiceUnavailable.
    """
    done = Filled(tasks=0, indexed=0)

    async def enter(task_id: str) -> bool:
        return await _add_to_index(records, task_id, since)

    page: list[str] = []
    async for task_id in task_ids:
        page.append(task_id)
        if len(page) == PAGE:
            done = _added(done, await in_waves(WIDTH, enter, page))
            progress(done)
            page.clear()
    return _added(done, await in_waves(WIDTH, enter, page))


def _added(done: Filled, entered: list[bool]) -> Filled:
    return Filled(tasks=done.tasks + len(entered), indexed=done.indexed + sum(entered))


async def _add_to_index(records: Records, task_id: str, since: datetime | None) -> bool:
    """Enters a task by its last completed run: a rerun that failed afterwards does not take its path away."""
    found = await records.tasks.find(task_id)
    if found is None:
        return False
    resolved = _completed(found.task.runs)
    if resolved is None or (since is not None and resolved < since):
        return False
    read = await records.tasks.unpacked(found)
    if read is None or not entries_of(read.definition, resolved):
        return False
    await records.index.task_completed(read.definition, resolved)
    return True


def _completed(runs: Sequence[Run]) -> datetime | None:
    """When a run completed last."""
    return max(
        (run.resolved for run in runs if run.state is State.COMPLETED and run.resolved is not None), default=None
    )
