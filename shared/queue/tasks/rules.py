"""A task's state: the one truth that its status row holds (contract 4.1, design 3)."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.base.dates import format_date
from shared.base.frozen import dataclass, replace
from shared.base.priority import Priority

MAX_RUNS = 50
"""A rerun beyond this many runs is refused (contract 4.2)."""
MAX_OPERATIONS_KEPT = 8
"""Number of latest commits whose ids a status row keeps."""


class State(StrEnum):
    """The state of a run; of a task it is the last run's, `unscheduled` without runs."""

    UNSCHEDULED = "unscheduled"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    EXCEPTION = "exception"

    @property
    def is_resolved(self) -> bool:
        return self in {State.COMPLETED, State.FAILED, State.EXCEPTION}


class Created(StrEnum):
    """Why a run was created (reasonCreated)."""

    SCHEDULED = "scheduled"
    RETRY = "retry"
    TASK_RETRY = "task-retry"
    RERUN = "rerun"
    EXCEPTION = "exception"


class Resolved(StrEnum):
    """Why a run was resolved (reasonResolved)."""

    COMPLETED = "completed"
    FAILED = "failed"
    DEADLINE_EXCEEDED = "deadline-exceeded"
    CANCELED = "canceled"
    CLAIM_EXPIRED = "claim-expired"
    WORKER_SHUTDOWN = "worker-shutdown"
    MALFORMED_PAYLOAD = "malformed-payload"
    RESOURCE_UNAVAILABLE = "resource-unavailable"
    INTERNAL_ERROR = "internal-error"
    INTERMITTENT_TASK = "intermittent-task"

    @property
    def state(self) -> State:
        return _STATE_OF.get(self, State.EXCEPTION)


_STATE_OF = {Resolved.COMPLETED: State.COMPLETED, Resolved.FAILED: State.FAILED}
REPORTED: tuple[Resolved, ...] = (
    Resolved.WORKER_SHUTDOWN,
    Resolved.MALFORMED_PAYLOAD,
    Resolved.RESOURCE_UNAVAILABLE,
    Resolved.INTERNAL_ERROR,
    Resolved.INTERMITTENT_TASK,
)
"""The reasons that a worker may give with reportException (contract 4.3)."""
RETRY_OF: dict[Resolved, Created] = {
    Resolved.CLAIM_EXPIRED: Created.RETRY,
    Resolved.WORKER_SHUTDOWN: Created.RETRY,
    Resolved.INTERMITTENT_TASK: Created.TASK_RETRY,
}
"""The resolutions after which a run is retried while retries are left, and why the new run is created (4.3)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One attempt at a task. `generation`, `by_claim_task` and `unfinished` are ours and never leave the service."""

    state: State
    reason_created: Created
    scheduled: datetime
    generation: int
    worker_group: str | None = None
    worker_id: str | None = None
    taken_until: datetime | None = None
    started: datetime | None = None
    reason_resolved: Resolved | None = None
    resolved: datetime | None = None
    by_claim_task: bool = False
    """Whether the run was claimed by claimTask: only such a claim may be repeated by its worker (contract 2.4)."""
    unfinished: tuple[str, ...] = ()
    """Digests of the names of `blob` artifacts whose upload has begun and not been completed (contract 7.2)."""

    def is_held_by(self, worker_group: str, worker_id: str) -> bool:
        return self.state is State.RUNNING and (self.worker_group, self.worker_id) == (worker_group, worker_id)

    def as_json(self, run_id: int) -> dict[str, Any]:
        """Returns the run as the contract shows it: absent values are omitted."""
        shown: dict[str, Any] = {
            "runId": run_id,
            "state": self.state.value,
            "reasonCreated": self.reason_created.value,
            "scheduled": format_date(self.scheduled),
        }
        if self.reason_resolved is not None:
            shown["reasonResolved"] = self.reason_resolved.value
        if self.worker_group is not None:
            shown["workerGroup"] = self.worker_group
        if self.worker_id is not None:
            shown["workerId"] = self.worker_id
        for name, moment in (("takenUntil", self.taken_until), ("started", self.started), ("resolved", self.resolved)):
            if moment is not None:
                shown[name] = format_date(moment)
        return shown


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageHandle:
    """A message that the service can move or remove: its queue, id and latest pop receipt."""

    queue: str
    message_id: str
    pop_receipt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageHandles:
    """The messages that belong to a task's present state; None when there is none or its receipt is not known."""

    pending: MessageHandle | None = None
    claim: MessageHandle | None = None
    deadline: MessageHandle | None = None


def ids_of(task_queue_id: str) -> dict[str, str]:
    """Returns a task queue's id, and the two parts that it consists of, by the names of their properties."""
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    return {"provisionerId": provisioner_id, "workerType": worker_type, "taskQueueId": task_queue_id}


_LIFE = 8
"""Characters of a definition's fingerprint: few tasks ever have the same id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorityChange:
    """The latest change of a task's priority, to be announced again where the call may have died before it did."""

    old: Priority
    at: datetime
    sequence: int
    """The task's sequence number right before the change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Everything that can change about a task, and what listings need of the rest."""

    task_id: str
    task_queue_id: str
    scheduler_id: str
    project_id: str
    task_group_id: str
    priority: Priority
    retries: int
    retries_left: int
    deadline: datetime
    expires: datetime
    dependencies: int
    """How many tasks this one waits for."""
    runs: tuple[Run, ...] = ()
    generation: int = 0
    """How often a resolved task was opened again by a rerun."""
    sequence: int = 0
    """Number of commits since the one that created the task."""
    satisfied: int = 0
    """The dependencies that are satisfied, as a bitmap over the definition's list."""
    opened_as_of: int = 0
    """The number of its group when the task was created or last opened again: cancellations of the group up to this
    number are not about it (design 5)."""
    prioritised_as_of: int = 0
    """The number of its group as of which the task has its priority: changes of the group's priority up to this number
    are not about it any more."""
    priority_change: PriorityChange | None = None
    """The latest change of the priority; None if there was none."""
    hint_id: str = ""
    """Id of the only pending message that counts; "" before there has been one."""
    handles: MessageHandles = field(default_factory=MessageHandles)
    fingerprint: str = ""
    """A hash of the task's definition, which is stored beside it."""
    operations: tuple[str, ...] = ()
    """Ids of the latest commits, the last one being the commit that made this state."""

    @property
    def state(self) -> State:
        return self.runs[-1].state if self.runs else State.UNSCHEDULED

    @property
    def is_resolved(self) -> bool:
        return self.state.is_resolved

    @property
    def last_run_id(self) -> int:
        """The number of the last run; -1 without runs."""
        return len(self.runs) - 1

    @property
    def last_run(self) -> Run:
        return self.runs[-1]

    @property
    def is_free(self) -> bool:
        """Whether every dependency of the task is satisfied."""
        return self.satisfied == (1 << self.dependencies) - 1

    @property
    def life(self) -> str:
        """Distinguishes the task from an earlier one of the same id, which has expired."""
        return self.fingerprint[:_LIFE]

    def after_commit(self, before: Task | None, operation: str) -> Task:
        """Returns this state as the commit of that id writes it, following `before` (None: the task is created)."""
        if before is None:
            return replace(self, sequence=0, operations=(operation,))
        operations = (*before.operations, operation)[-MAX_OPERATIONS_KEPT:]
        return replace(self, sequence=before.sequence + 1, operations=operations)

    def includes(self, attempt: Task) -> bool | None:
        """Returns whether the commit that was to write `attempt` (made by `after_commit`) is part of this state's
        history. None: unknown, since too many commits have followed. Another definition proves that another call
        created the task."""
        if attempt.sequence == 0 and self.fingerprint != attempt.fingerprint:
            return False
        since = self.sequence - attempt.sequence
        if since == -1:
            return False  # this is the state that the attempt was to follow
        if not 0 <= since < len(self.operations):
            return None
        return self.operations[-1 - since] == attempt.operations[-1]

    def with_run(self, run_id: int, run: Run) -> Task:
        """Returns the same task with one run replaced, or appended when it is the next one."""
        return replace(self, runs=(*self.runs[:run_id], run, *self.runs[run_id + 1 :]))

    def as_json(self) -> dict[str, Any]:
        """Returns the task status structure (contract 4.1)."""
        return {
            "taskId": self.task_id,
            **ids_of(self.task_queue_id),
            "schedulerId": self.scheduler_id,
            "projectId": self.project_id,
            "taskGroupId": self.task_group_id,
            "priority": self.priority,
            "deadline": format_date(self.deadline),
            "expires": format_date(self.expires),
            "retriesLeft": self.retries_left,
            "state": self.state.value,
            "runs": [run.as_json(run_id) for run_id, run in enumerate(self.runs)],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """The worker that claims a run."""

    worker_group: str
    worker_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UndeliveredClaim:
    """A claim that no worker has received, and how to recognise it in the status row."""

    task_id: str
    run_id: int
    worker: Worker
    taken_until: datetime
    sequence: int
    """The sequence number of its commit, which may not have happened, or may still come."""
    started: datetime
    """Start of the claim, which is part of its index row's key."""

    @classmethod
    def of(cls, claimed: Task) -> UndeliveredClaim:
        """Describes the claim of the last run of `task`, the state that the claim's commit was to make."""
        run = claimed.last_run
        assert run.taken_until is not None and run.started is not None, "a claimed run has its times"
        return cls(
            task_id=claimed.task_id,
            run_id=claimed.last_run_id,
            worker=Worker(worker_group=run.worker_group or "", worker_id=run.worker_id or ""),
            taken_until=run.taken_until,
            sequence=claimed.sequence,
            started=run.started,
        )
