"""Everything that is measured: the one list behind /metrics, the exporters and docs/observability.md.

Names that Taskcluster's own Queue has are kept, with their labels, so that existing dashboards keep working.
"""

from __future__ import annotations

from typing import Literal

from shared.base.frozen import dataclass

SCOPE = "taskcluster-queue"
"""The name of the scope under which OpenTelemetry gets all measurements and spans."""
_POOL = ("provisionerId", "workerType")
_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
_REQUESTS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50, 100)


@dataclass(frozen=True)
class Instrument:
    """The meaning of one number. `buckets` are the upper bounds of a histogram's."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    """Unit in UCUM notation: `s`, or the counted thing in braces."""
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of_process: bool = False
    """Whether each process reports its own value of a gauge and these are to be summed. Counters and histograms are
    always summed."""


PENDING = Instrument("queue_pending_tasks", "gauge", "{task}", "Pending tasks of a task queue.", _POOL)
CLAIMED = Instrument("queue_claimed_tasks", "gauge", "{task}", "Running tasks of a task queue.", _POOL)
OLDEST_PENDING = Instrument(
    "queue_oldest_pending_task_age_seconds",
    "gauge",
    "s",
    "How long the task that has waited longest in a task queue has been pending; 0 when none is.",
    _POOL,
)
DESIRED_WORKERS = Instrument(
    "queue_desired_workers",
    "gauge",
    "{worker}",
    "Workers that a task queue would have without a limit, if each ran one task at a time: its pending and "
    "running tasks together. A scaler starts this less the workers that have not ended.",
    _POOL,
)
STALLED = Instrument(
    "queue_stalled_tasks",
    "gauge",
    "{task}",
    "Pending tasks of a task queue that nothing takes: for minutes none has run, and no worker outside of "
    "quarantine has asked for work or renewed a claim; 0 otherwise.",
    _POOL,
)
WAITING_WORKERS = Instrument(
    "queue_waiting_workers",
    "gauge",
    "{worker}",
    "Workers that wait for tasks of a task queue: in `claimWork`, or with URLs of `pollTaskUrls` that have "
    "not expired. The latter counts sets of URLs, so also those of workers that have ended or run a task since.",
    (*_POOL, "way"),
    of_process=True,
)
TOLD = Instrument(
    "queue_told_workers",
    "counter",
    "{worker}",
    "Waits in `claimWork` that ended because there was work: answered 503 `CallAgain`, after which the "
    "worker's client repeats the call (`repeat`), or with an empty list (`empty`). No failures.",
    (*_POOL, "way"),
)
COMPLETED = Instrument("queue_completed_tasks", "counter", "{run}", "Runs that were resolved as completed.", _POOL)
FAILED = Instrument(
    "queue_failed_tasks", "counter", "{run}", "Runs that were resolved as failed.", (*_POOL, "reasonResolved")
)
EXCEPTION = Instrument(
    "queue_exception_tasks",
    "counter",
    "{run}",
    "Runs that were resolved as exception, by reason.",
    (*_POOL, "reasonResolved"),
)
WAITING = Instrument(
    "queue_waiting_seconds",
    "histogram",
    "s",
    "How long a run was pending before a worker claimed it.",
    _POOL,
    buckets=_SECONDS,
)
FAILED_CLAIMS = Instrument(
    "queue_failed_claims",
    "counter",
    "{claim}",
    "Claims that failed because of a defect: the log has the error, the message is visible again.",
    _POOL,
)
TIMER_LATENESS = Instrument(
    "queue_timer_lateness_seconds",
    "histogram",
    "s",
    "How long after takenUntil (`claim`) or the deadline (`deadline`, which is delayed on purpose by "
    "DEADLINE_DELAY_SECONDS) a run was resolved for it.",
    ("timer",),
    buckets=_SECONDS,
)
FAN_OUT_LAG = Instrument(
    "queue_fan_out_lag_seconds",
    "histogram",
    "s",
    "From a task's resolution until a page of its dependents, or the last step of all, was done.",
    buckets=_SECONDS,
)
EVENT_BACKLOG = Instrument(
    "queue_event_backlog", "gauge", "{event}", "Events that Service Bus has not accepted yet and that are retried."
)
EVENTS_DEFERRED = Instrument(
    "queue_deferred_events",
    "counter",
    "{event}",
    "Events that could not be sent when they happened and went to the backlog.",
)
EVENTS_LOST = Instrument(
    "queue_lost_events", "counter", "{event}", "Events that could not be sent before their task was deleted."
)
UNANNOUNCED_EXPIRATIONS = Instrument(
    "queue_unannounced_expirations",
    "counter",
    "{task}",
    "Expired tasks that were deleted, after they were kept for a week, while there were unsent events, "
    "which may be theirs.",
)
POISON_DEPTH = Instrument(
    "queue_poison_messages",
    "gauge",
    "{message}",
    "Internal messages that were dead-lettered, by queue; an operator should look at each.",
    ("queue",),
)
POISONED = Instrument("queue_poisoned_messages", "counter", "{message}", "Internal messages dead-lettered.", ("queue",))
EXPIRATIONS_FAILED = Instrument(
    "queue_failed_expirations",
    "counter",
    "{deletion}",
    "Expired items that the expiry job could not delete and will retry after a back-off, by kind; "
    "`stuck` says whether it was at least the fifth time in a row.",
    ("kind", "stuck"),
)
ENDING_CREDENTIALS = Instrument(
    "queue_ending_credentials",
    "gauge",
    "{client}",
    "Clients that end within 30 days (`ending`) or have ended (`ended`), and that nobody has disabled; "
    "those that are refused again and again (`refused`).",
    ("state",),
)
STORAGE_OPERATIONS = Instrument(
    "queue_storage_operations",
    "histogram",
    "{request}",
    "Storage requests that one call or one internal message cost.",
    ("call",),
    buckets=_REQUESTS,
)
DURATION = Instrument(
    "queue_call_duration_seconds",
    "histogram",
    "s",
    "How long a call, the handling of an internal message or a run of a timer took, by outcome: an HTTP "
    "status, or `done`, `again` and `poison` for messages. claimWork waits on purpose.",
    ("call", "outcome"),
    buckets=_SECONDS,
)

INSTRUMENTS: tuple[Instrument, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Instrument))
