"""What a process remembers of tasks that exist, so that createTask need not read them."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared import remembered
from shared.domain.task import Task
from shared.frozen import dataclass
from shared.memo import Memo

SETTLED_BY = timedelta(minutes=1)
"""How long it usually takes until a task's rows in its group show its resolution; until then its status row is read."""


@dataclass(frozen=True, slots=True)
class _Known:
    task_group_id: str
    expires: datetime
    resolved: datetime | None


class KnownTasks:
    """Tasks with their groups. Neither a task's group nor its expiration ever changes, and no task goes before that.

    An id may be used again after its task has expired: so what is remembered is good for a caller that needs the task
    until then, and says nothing to any other.
    """

    def __init__(self) -> None:
        self._known: Memo[str, _Known] = Memo(remembered.DEPENDENCIES)

    def note(self, task: Task) -> None:
        """Notes that a task exists, and whether it is resolved."""
        resolved = task.last_run.resolved if task.is_resolved else None
        known = _Known(task.task_group_id, task.expires, resolved)
        if self._known.get(task.task_id) != known:
            self._known[task.task_id] = known

    def group_of(self, task_id: str, now: datetime, until: datetime) -> str | None:
        """The group of a task that exists until then; None where that is not known.

        Nor is it said of a task that this process has just seen resolved: a client that has seen it may expect a task
        which waits for that one alone to be pending at once.
        """
        known = self._known.get(task_id)
        if known is None or known.expires < until:
            return None
        return None if known.resolved is not None and now - known.resolved < SETTLED_BY else known.task_group_id
