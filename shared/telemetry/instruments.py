"""Everything that is measured: the one list behind /metrics, the exporters and docs/observability.md. Names that
Taskcluster's own Queue has are kept, with their labels, so that existing dashboards keep working."""

from __future__ import annotations

from functools import partial
from typing import Literal

from shared.base.frozen import dataclass

SCOPE = "taskcluster-queue"
"""The name of the scope under which OpenTelemetry gets all measurements and spans."""
_POOL = ("provisionerId", "workerType")
_DURATIONS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
_REQUESTS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50, 100)


@dataclass(frozen=True)
class Instrument:
    """The meaning of one number. `buckets` are the upper bounds of a histogram's."""

    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    """Unit in UCUM notation: `s`, or the counted thing in braces."""
    name: str
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of_process: bool = False
    """Whether each process reports its own value of a gauge and these are to be summed. Counters and histograms are
    always summed."""


_gauge, _counter = partial(Instrument, "gauge"), partial(Instrument, "counter")
_seconds = partial(Instrument, "histogram", "s", buckets=_DURATIONS)

PENDING = _gauge("{task}", "queue_pending_tasks", "Pending tasks of a task queue.", _POOL)
CLAIMED = _gauge("{task}", "queue_claimed_tasks", "Running tasks of a task queue.", _POOL)
OLDEST_PENDING = _gauge(
    "s",
    "queue_oldest_pending_task_age_seconds",
    "How long the task that has waited longest in a task queue has been pending; 0 when none is.",
    _POOL,
)
DESIRED_WORKERS = _gauge(
    "{worker}",
    "queue_desired_workers",
    "Workers that a task queue would have without a limit, if each ran one task at a time: its pending and running "
    "tasks together. A scaler starts this less the workers that have not ended.",
    _POOL,
)
STALLED = _gauge(
    "{task}",
    "queue_stalled_tasks",
    "Pending tasks of a task queue that nothing takes: for minutes none has run, and no worker outside of quarantine "
    "has asked for work or renewed a claim; 0 otherwise.",
    _POOL,
)
WAITING_WORKERS = _gauge(
    "{worker}",
    "queue_waiting_workers",
    "Workers that wait for tasks of a task queue: in `claimWork`, or with URLs of `pollTaskUrls` that have not "
    "expired. The latter counts sets of URLs, so also those of workers that have ended or run a task since.",
    (*_POOL, "way"),
    of_process=True,
)
TOLD = _counter(
    "{worker}",
    "queue_told_workers",
    "Waits in `claimWork` that ended because there was work: answered 503 `CallAgain`, after which the worker's "
    "client repeats the call (`repeat`), or with an empty list (`empty`). No failures.",
    (*_POOL, "way"),
)
COMPLETED = _counter("{run}", "queue_completed_tasks", "Runs that were resolved as completed.", _POOL)
FAILED = _counter("{run}", "queue_failed_tasks", "Runs that were resolved as failed.", (*_POOL, "reasonResolved"))
EXCEPTION = _counter(
    "{run}", "queue_exception_tasks", "Runs that were resolved as exception, by reason.", (*_POOL, "reasonResolved")
)
WAITING = _seconds("queue_waiting_seconds", "How long a run was pending before a worker claimed it.", _POOL)
FAILED_CLAIMS = _counter(
    "{claim}",
    "queue_failed_claims",
    "Claims that failed because of a defect: the log has the error, the message is visible again.",
    _POOL,
)
TIMER_LATENESS = _seconds(
    "queue_timer_lateness_seconds",
    "How long after takenUntil (`claim`) or the deadline (`deadline`, which is delayed on purpose by "
    "DEADLINE_DELAY_SECONDS) a run was resolved for it.",
    ("timer",),
)
FAN_OUT_LAG = _seconds(
    "queue_fan_out_lag_seconds",
    "From a task's resolution until a page of its dependents, or the last step of all, was done.",
)
EVENT_BACKLOG = _gauge(
    "{event}", "queue_event_backlog", "Events that Service Bus has not accepted yet and that are retried."
)
EVENTS_DEFERRED = _counter(
    "{event}", "queue_deferred_events", "Events that could not be sent when they happened and went to the backlog."
)
EVENTS_LOST = _counter("{event}", "queue_lost_events", "Events that could not be sent before their task was deleted.")
UNANNOUNCED_EXPIRATIONS = _counter(
    "{task}",
    "queue_unannounced_expirations",
    "Expired tasks that were deleted, after they were kept for a week, while there were unsent events, which may be "
    "theirs.",
)
POISON_DEPTH = _gauge(
    "{message}",
    "queue_poison_messages",
    "Internal messages that were dead-lettered, by queue; an operator should look at each.",
    ("queue",),
)
POISONED = _counter("{message}", "queue_poisoned_messages", "Internal messages dead-lettered.", ("queue",))
EXPIRATIONS_FAILED = _counter(
    "{deletion}",
    "queue_failed_expirations",
    "Expired items that the expiry job could not delete and will retry after a back-off, by kind; `stuck` says "
    "whether it was at least the fifth time in a row.",
    ("kind", "stuck"),
)
ENDING_CREDENTIALS = _gauge(
    "{client}",
    "queue_ending_credentials",
    "Clients that end within 30 days (`ending`) or have ended (`ended`), and that nobody has disabled; those that are "
    "refused again and again (`refused`).",
    ("state",),
)
STORAGE_OPERATIONS = Instrument(
    "histogram",
    "{request}",
    "queue_storage_operations",
    "Storage requests that one call or one internal message cost.",
    ("call",),
    buckets=_REQUESTS,
)
DURATION = _seconds(
    "queue_call_duration_seconds",
    "How long a call, the handling of an internal message or a run of a timer took, by outcome: an HTTP status, or "
    "`done`, `again` and `poison` for messages. claimWork waits on purpose.",
    ("call", "outcome"),
)
INSTRUMENTS: tuple[Instrument, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Instrument))
