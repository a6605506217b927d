"""What a transition asks for besides the commit of the status row. Data only; the executor carries it out (design 5).
Write-ahead effects are put before the commit, the others follow it (design 2.2)."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from shared.base.errors import ApiError, ServiceError
from shared.base.frozen import dataclass
from shared.base.priority import Priority
from shared.queue.events.rules import TaskEvent
from shared.queue.tasks.rules import MessageHandle, Run, State, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingContent:
    """The content of a pending message. `run_id` is a hint only: the status row decides."""

    task_queue_id: str
    task_id: str
    run_id: int
    hint_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PutPending:
    """A new pending message. `visible` in the future makes it the lease of a claim; None means at once."""

    content: PendingContent
    priority: Priority
    visible: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldPending:
    """Move the pending message to `visible`, with this content; None means at once. When somebody else holds it, a new
    one with `spare_hint_id` takes its place."""

    handle: MessageHandle | None
    content: PendingContent
    priority: Priority
    spare_hint_id: str
    visible: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TakeLease:
    """Hide the received message until takenUntil, as the one of the run after the claimed one. If another process has
    received the message since, this claim is given up, and that process claims the run."""

    handle: MessageHandle = field(compare=False)
    content: PendingContent
    visible: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class PutClaim:
    """A claim message, visible at takenUntil. `started` names the index row of its claim."""

    task_id: str
    run_id: int
    taken_until: datetime
    started: datetime
    handle: MessageHandle | None = None
    """The message to move there; a new one is put if it is lost, or there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PutDeadline:
    """A deadline message, visible at deadline + delay."""

    task_id: str
    task_group_id: str
    scheduler_id: str
    deadline: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class PutResolved:
    """A resolved message of a run."""

    task_id: str
    run_id: int
    at_deadline: bool = False
    """Whether the deadline message repeats what earlier messages of the run may have done long ago."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRow:
    """Index row of a pending or running run in its pool's partition."""

    task_queue_id: str
    state: State
    scheduled: datetime
    started: datetime | None = None
    task_id: str
    run_id: int
    priority: Priority
    deadline: datetime
    """Deadline of the task, after which a pending run does not count."""
    worker_group: str = ""
    worker_id: str = ""
    claim_id: str = ""
    """Id of one claim; if it is empty, the row matches any claim with the other properties."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddPendingRow:
    """Index a pending run in its pool."""

    row: PoolRow


@dataclass(frozen=True, kw_only=True, slots=True)
class SetRowPriority:
    """Note another band in the index row of a pending run."""

    row: PoolRow
    """The index row as it was before the change, with the old priority."""
    priority: Priority


@dataclass(frozen=True, kw_only=True, slots=True)
class AddActive:
    """Count the task as unresolved in its group, in this generation, as of the group's present number."""

    task_group_id: str
    task_id: str
    generation: int
    number: int = field(default=0, compare=False)
    """The group's number as far as it is known: the one that is written may be higher."""


Ahead = (
    PutPending
    | HoldPending
    | TakeLease
    | PutClaim
    | PutDeadline
    | PutResolved
    | AddPendingRow
    | SetRowPriority
    | AddActive
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoveMessage:
    """Remove a message. No error if it is gone, or if somebody else holds it."""

    handle: MessageHandle


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowPending:
    """Make the lease visible as the message of a run that is now pending: at once, or at `visible`. If somebody else
    holds the message, it becomes visible by itself later."""

    handle: MessageHandle
    content: PendingContent
    visible: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangePoolRows:
    """Replace index rows of a pool. A row to remove may be missing."""

    remove: tuple[PoolRow, ...] = ()
    add: tuple[PoolRow, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReturnRow:
    """Replace the index row of a failed claim by that of the pending run, if the run is pending. Both happen in one
    transaction; nothing happens if the claim has no row."""

    claimed: PoolRow
    pending: PoolRow | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteMember:
    """Change the ETag of the task's row in its group. Only by it can a listing notice that the status has changed."""

    task_group_id: str
    task_id: str
    number: int | None = None
    """If given, the number of the group as of which the commit was made: raises NumberPassed if it is higher now."""


After = RemoveMessage | ShowPending | ChangePoolRows | ReturnRow | RewriteMember


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The outcome of a transition. `task` is the state to commit; None when nothing changes (an idempotent repeat)."""

    task: Task | None
    ahead: tuple[Ahead, ...] = ()
    after: tuple[tuple[After, ...], ...] = ()
    """The steps after the commit. The effects of a step run in parallel, each step starts after the one before."""
    events: tuple[TaskEvent, ...] = field(default=())
    refusal: ApiError | None = None
    """An error that is raised after the effects were carried out. What an earlier call did may have to be announced."""


class NoDecision(ServiceError):
    """Raised by a transition that does not apply to the task's present state; nothing is changed."""


def pending_content(task: Task, run_id: int) -> PendingContent:
    """Returns the content of the task's pending message if it is for that run."""
    return PendingContent(task_queue_id=task.task_queue_id, task_id=task.task_id, run_id=run_id, hint_id=task.hint_id)


def row_of(task: Task, run_id: int) -> PoolRow:
    """Returns the index row that a run of the task has, or had last."""
    run: Run = task.runs[run_id]
    return PoolRow(
        task_queue_id=task.task_queue_id,
        state=State.PENDING if run.started is None else State.RUNNING,
        scheduled=run.scheduled,
        started=run.started,
        task_id=task.task_id,
        run_id=run_id,
        priority=task.priority,
        deadline=task.deadline,
        worker_group=run.worker_group or "",
        worker_id=run.worker_id or "",
    )
