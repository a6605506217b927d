"""Everything that is measured: the one list behind /metrics, the exporters and docs/observability.md.

Names that Taskcluster's own Queue has are kept, with their labels, so that existing dashboards keep working.
"""

from __future__ import annotations

from typing import Literal

from shared.base.frozen import dataclass

SCOPE = "taskcluster-queue"
"""The name under which OpenTelemetry gets all of it."""
_POOL = ("provisionerId", "workerType")
_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
_REQUESTS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50, 100)


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """What one number means. `buckets` are the upper bounds of a histogram's."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    """Unit in UCUM notation: `s`, or the counted thing in braces."""
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of_process: bool = False
    """For gauges: whether each process reports its own value and these are to be summed. Counters and histograms are
    always summed.
    """


PENDING = Instrument(
    name="queue_pending_tasks",
    kind="gauge",
    unit="{task}",
    description="Pending tasks of a task queue.",
    labels=_POOL,
)
CLAIMED = Instrument(
    name="queue_claimed_tasks",
    kind="gauge",
    unit="{task}",
    description="Running tasks of a task queue.",
    labels=_POOL,
)
OLDEST_PENDING = Instrument(
    name="queue_oldest_pending_task_age_seconds",
    kind="gauge",
    unit="s",
    description="How long the task that has waited longest in a task queue has been pending; 0 when none is.",
    labels=_POOL,
)
DESIRED_WORKERS = Instrument(
    name="queue_desired_workers",
    kind="gauge",
    unit="{worker}",
    description="Workers that a task queue would have without a limit, if each ran one task at a time: its pending and "
    "running tasks together. A scaler starts this less the workers that have not ended.",
    labels=_POOL,
)
STALLED = Instrument(
    name="queue_stalled_tasks",
    kind="gauge",
    unit="{task}",
    description="Pending tasks of a task queue that nothing takes: for minutes none has run, and no worker outside of "
    "quarantine has asked for work or renewed a claim; 0 otherwise.",
    labels=_POOL,
)
WAITING_WORKERS = Instrument(
    name="queue_waiting_workers",
    kind="gauge",
    unit="{worker}",
    description="Workers that wait for tasks of a task queue: in `claimWork`, or with URLs of `pollTaskUrls` that have "
    "not expired. The latter counts sets of URLs, so also those of workers that have ended or run a task since.",
    labels=(*_POOL, "way"),
    of_process=True,
)
TOLD = Instrument(
    name="queue_told_workers",
    kind="counter",
    unit="{worker}",
    description="Waits in `claimWork` that ended because there was work: answered 503 `CallAgain`, after which the "
    "worker's client repeats the call (`repeat`), or with an empty list (`empty`). No failures.",
    labels=(*_POOL, "way"),
)
COMPLETED = Instrument(
    name="queue_completed_tasks",
    kind="counter",
    unit="{run}",
    description="Runs that were resolved as completed.",
    labels=_POOL,
)
FAILED = Instrument(
    name="queue_failed_tasks",
    kind="counter",
    unit="{run}",
    description="Runs that were resolved as failed.",
    labels=(*_POOL, "reasonResolved"),
)
EXCEPTION = Instrument(
    name="queue_exception_tasks",
    kind="counter",
    unit="{run}",
    description="Runs that were resolved as exception, by reason.",
    labels=(*_POOL, "reasonResolved"),
)
WAITING = Instrument(
    name="queue_waiting_seconds",
    kind="histogram",
    unit="s",
    description="How long a run was pending before a worker claimed it.",
    labels=_POOL,
    buckets=_SECONDS,
)
FAILED_CLAIMS = Instrument(
    name="queue_failed_claims",
    kind="counter",
    unit="{claim}",
    description="Claims that failed because of a defect: the log has the error, the message is visible again.",
    labels=_POOL,
)
TIMER_LATENESS = Instrument(
    name="queue_timer_lateness_seconds",
    kind="histogram",
    unit="s",
    description="How long after takenUntil (`claim`) or the deadline (`deadline`, which is delayed on purpose by "
    "DEADLINE_DELAY_SECONDS) a run was resolved for it.",
    labels=("timer",),
    buckets=_SECONDS,
)
FAN_OUT_LAG = Instrument(
    name="queue_fan_out_lag_seconds",
    kind="histogram",
    unit="s",
    description="From a task's resolution until a page of its dependents, or the last step of all, was done.",
    buckets=_SECONDS,
)
EVENT_BACKLOG = Instrument(
    name="queue_event_backlog",
    kind="gauge",
    unit="{event}",
    description="Events that Service Bus has not accepted yet and that are retried.",
)
EVENTS_DEFERRED = Instrument(
    name="queue_deferred_events",
    kind="counter",
    unit="{event}",
    description="Events that could not be sent when they happened and went to the backlog.",
)
EVENTS_LOST = Instrument(
    name="queue_lost_events",
    kind="counter",
    unit="{event}",
    description="Events that could not be sent before their task was deleted.",
)
UNANNOUNCED_EXPIRATIONS = Instrument(
    name="queue_unannounced_expirations",
    kind="counter",
    unit="{task}",
    description="Expired tasks that were deleted, after they were kept for a week, while there were unsent events, "
    "which may be theirs.",
)
POISON_DEPTH = Instrument(
    name="queue_poison_messages",
    kind="gauge",
    unit="{message}",
    description="Internal messages that were dead-lettered, by queue; an operator should look at each.",
    labels=("queue",),
)
POISONED = Instrument(
    name="queue_poisoned_messages",
    kind="counter",
    unit="{message}",
    description="Internal messages dead-lettered.",
    labels=("queue",),
)
EXPIRATIONS_FAILED = Instrument(
    name="queue_failed_expirations",
    kind="counter",
    unit="{deletion}",
    description="Expired items that the expiry job could not delete and will retry after a back-off, by kind; "
    "`stuck` says whether it was at least the fifth time in a row.",
    labels=("kind", "stuck"),
)
ENDING_CREDENTIALS = Instrument(
    name="queue_ending_credentials",
    kind="gauge",
    unit="{client}",
    description="Clients that end within 30 days (`ending`) or have ended (`ended`), and that nobody has disabled; "
    "those that are refused again and again (`refused`).",
    labels=("state",),
)
STORAGE_OPERATIONS = Instrument(
    name="queue_storage_operations",
    kind="histogram",
    unit="{request}",
    description="Storage requests that one call or one internal message cost.",
    labels=("call",),
    buckets=_REQUESTS,
)
DURATION = Instrument(
    name="queue_call_duration_seconds",
    kind="histogram",
    unit="s",
    description="How long a call, the handling of an internal message or a run of a timer took, by outcome: an HTTP "
    "status, or `done`, `again` and `poison` for messages. claimWork waits on purpose.",
    labels=("call", "outcome"),
    buckets=_SECONDS,
)

INSTRUMENTS: tuple[Instrument, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Instrument))
