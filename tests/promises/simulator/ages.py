"""Lists where a call or a handler behaves by the age of something: each entry says at which ages that changes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from shared.app.services import Services
from shared.auth.clients.accounts import REPEATABLE
from shared.auth.clients.ending import LATELY, NOTICE
from shared.auth.keyring import USE_NOTED_EVERY
from shared.base import remembered
from shared.base.protocol import (
    CLIENT_CLOCK_SKEW,
    EXPIRY_GRACE_PERIOD,
    HIDDEN_WHILE_CLAIMING,
    LATE_TIMERS,
    LATEST_COMMIT,
    MESSAGE_LOST_AFTER,
    ORPHAN_AFTER,
    OVERDUE,
    REPEATS_RECOGNISED,
    ROWS_COMPLETE_AFTER,
)
from shared.overview.health import JOB_LATE, WAITS
from shared.queue.artifacts.rules import AFTER_EXCEPTION
from shared.queue.expiry.job import LONGEST_HOLD
from shared.queue.groups.membership import MARGIN
from shared.queue.pools.directory import DECLARED_LIFE, REFRESHED_EVERY
from shared.queue.pools.queues import DELETED_WITHIN, WAIT_FOR_DELETION
from shared.queue.pools.states import ASKED_LATELY, GRACE
from shared.queue.pools.worker_rows import LIFE, SEEN_EVERY
from shared.queue.tasks.known import FRESH, SETTLED_BY, VOUCHED_FOR
from shared.queue.tasks.reconciler import MIN_ROW_AGE, UNUSED_FOR
from tests.promises.simulator import aged, looking, parties
from tests.promises.simulator.probing import At, of_pool
from tests.promises.simulator.situations import A, B, C
from tests.promises.simulator.world import CLAIM_TIMEOUT

Leave = Callable[[Any], Coroutine[Any, Any, None]]
Look = Callable[[Any, Services], Coroutine[Any, Any, object]]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DEADLINE = timedelta(hours=3)
"""Time from the creation of a world's task to its deadline."""
SWEPT = MARGIN + EXPIRY_GRACE_PERIOD + HOUR + ROWS_COMPLETE_AFTER
"""Time from a task's expiration to the deletion of its group, which outlives it, and goes when its hour is over."""
WAITS_FOR_IT = timedelta(seconds=WAIT_FOR_DELETION)
OF_TASKS = ("TABLE_READ Tasks", "TABLE_WRITE Tasks", "QUEUE_UPDATE", "QUEUE_DELETE")
"""The requests of a poll that are about tasks and their messages; others are about the worker and its task queue."""
OF_WORKERS = ("TABLE_WRITE Pools", "TABLE_WRITE Directory")


@dataclass(frozen=True)
class Age:
    """An entry: `look` finds what `leave` has left, and does something else from each of the ages `changes` on."""

    leave: Leave
    look: Look
    changes: tuple[timedelta, ...]
    at: At | None = None
    """The request at which the call stands still for the time, instead of being made then."""
    only: tuple[str, ...] = ()
    """Beginnings of the requests that count; without any, all count."""
    same_process: bool = False
    """Whether the process that has left something also looks at it."""
    looked_for: str = ""
    """The task without which something is an orphan, whose age counts from before the task was looked for."""

    @property
    def name(self) -> str:
        return f"{_name(self.leave)}, {_name(self.look)}"


def _name(step: Any) -> str:
    return str(getattr(step, "func", step).__qualname__).replace(".<locals>.party", "").replace("_", " ")


AGES = [
    # a call that died before its commit, which may still come
    Age(aged.dead_create, parties.claim(), (MIN_ROW_AGE, ORPHAN_AFTER), only=OF_TASKS, looked_for=A),
    Age(aged.dead_create, looking.deadline_due, (ORPHAN_AFTER,), looked_for=A),
    Age(aged.dead_create, looking.group_job_due, (ORPHAN_AFTER,), looked_for=A),
    Age(
        aged.dead_create_beside_completed, parties.handle_resolved(C), (ORPHAN_AFTER, REPEATS_RECOGNISED), looked_for=A
    ),
    Age(
        aged.dead_create_without_message,
        looking.check_pool,
        (MIN_ROW_AGE, ORPHAN_AFTER, DEADLINE + OVERDUE),
        looked_for=A,
    ),
    Age(aged.dates, looking.create_again, (LATEST_COMMIT,), at=of_pool),
    Age(aged.dates, looking.create_again, (CLIENT_CLOCK_SKEW,)),
    Age(aged.dead_dependent, parties.handle_resolved(A), (ORPHAN_AFTER, REPEATS_RECOGNISED), looked_for=B),
    Age(aged.dead_dependent_elsewhere, parties.handle_resolved(A), (ORPHAN_AFTER, REPEATS_RECOGNISED), looked_for=B),
    Age(aged.dead_dependent_seen, looking.resolved_due, (ORPHAN_AFTER,), looked_for=B),
    Age(aged.dead_dependent_elsewhere_seen, looking.resolved_due, (ORPHAN_AFTER,), looked_for=B),
    Age(aged.dead_report, looking.resolved_due, (ORPHAN_AFTER,), looked_for=A),
    Age(aged.dead_rerun, parties.handle_resolved(C), (ORPHAN_AFTER, REPEATS_RECOGNISED), looked_for=A),
    Age(aged.dead_claim, looking.claim_due, (LATEST_COMMIT, ORPHAN_AFTER)),
    Age(
        partial(aged.dead_claim, at=of_pool),
        parties.claim("other"),
        (HIDDEN_WHILE_CLAIMING, CLAIM_TIMEOUT, DEADLINE, DEADLINE + OVERDUE),
        only=OF_TASKS,
    ),
    Age(
        aged.dead_create_in_a_due_group,
        looking.expire,
        (ROWS_COMPLETE_AFTER,),
        only=("TABLE_WRITE Groups",),
        looked_for=A,
    ),
    Age(
        aged.dead_dependent_of_nothing,
        looking.expire,
        (ROWS_COMPLETE_AFTER,),
        only=("TABLE_WRITE Tasks",),
        looked_for=A,
    ),
    Age(aged.expired_with_a_new_edge, looking.expire, (ROWS_COMPLETE_AFTER,), only=("TABLE_WRITE Groups",)),
    Age(
        aged.expired_with_a_new_member_row,
        looking.expire,
        (ROWS_COMPLETE_AFTER,),
        only=("TABLE_WRITE Groups",),
        looked_for=A,
    ),
    # claims
    Age(aged.running, looking.claim_due, (CLAIM_TIMEOUT, REPEATS_RECOGNISED, DEADLINE)),
    Age(aged.running, parties.claim("other"), (CLAIM_TIMEOUT, REPEATS_RECOGNISED, DEADLINE), only=OF_TASKS),
    Age(aged.running, parties.reclaim(A), (REFRESHED_EVERY, SEEN_EVERY, DEADLINE)),
    Age(aged.running, looking.load, (CLAIM_TIMEOUT,)),
    # timers and messages that are lost
    Age(aged.pending, looking.list_pending, (DEADLINE,)),
    Age(aged.checked_in_company, parties.handle_resolved(C), (ORPHAN_AFTER, DEADLINE + OVERDUE), same_process=True),
    Age(aged.completed_in_company, parties.handle_resolved(C), (REPEATS_RECOGNISED, DEADLINE + OVERDUE)),
    Age(aged.completed_and_forgotten, parties.handle_resolved(C), (ORPHAN_AFTER, REPEATS_RECOGNISED)),
    Age(aged.lost_message, looking.check_pool, (MIN_ROW_AGE, DEADLINE + OVERDUE)),
    Age(aged.lost_message, looking.vain_wait, (MIN_ROW_AGE, DEADLINE + OVERDUE)),
    Age(aged.lost_message, looking.check_pool_with_a_later_message, (MESSAGE_LOST_AFTER,), only=("QUEUE_PUT pending",)),
    Age(aged.lost_deadline, looking.check_pool, (MIN_ROW_AGE, DEADLINE + OVERDUE)),
    Age(aged.lost_timers, looking.check_pool, (DEADLINE + OVERDUE, UNUSED_FOR)),
    # events that are sent again
    Age(aged.completed, looking.resolved_due, (REPEATS_RECOGNISED,)),
    Age(aged.raised_and_cancelled, looking.resolved_due, (REPEATS_RECOGNISED,)),
    Age(aged.running_again, parties.rerun(A), (REPEATS_RECOGNISED, DEADLINE)),
    Age(aged.raised, parties.change_priority(A, "high"), (REPEATS_RECOGNISED, DEADLINE)),
    # task queues and workers
    Age(aged.waits_for_a_silent_worker, looking.load, (GRACE, DEADLINE)),
    Age(aged.waits_for_a_worker, looking.load, (ASKED_LATELY,)),
    Age(aged.asked_for_work, looking.get_worker, (LIFE,)),
    Age(aged.asked_for_work, parties.claim(), (REFRESHED_EVERY, SEEN_EVERY), only=OF_WORKERS, same_process=True),
    Age(aged.unused_pool, looking.check_pool, (UNUSED_FOR,)),
    Age(aged.deleted_queues, looking.create_in_the_pool, (DELETED_WITHIN - WAITS_FOR_IT,), only=("QUEUE_PUT pending",)),
    Age(aged.declared_worker, looking.get_worker, (DAY,)),
    Age(aged.quarantined_worker, looking.get_worker, (LIFE,)),
    Age(aged.declared_task_queue, looking.list_task_queues, (DECLARED_LIFE,)),
    # artifacts
    Age(aged.excepted, looking.create_artifact, (AFTER_EXCEPTION,)),
    # what is remembered
    Age(aged.listed_group, looking.list_group, (FRESH, VOUCHED_FOR), same_process=True),
    Age(aged.known_to_be_completed, looking.create_dependent, (SETTLED_BY,), same_process=True),
    # health
    Age(aged.message_at_the_front, looking.findings, (remembered.FINDINGS.fresh, WAITS), same_process=True),
    Age(aged.finished_job, looking.findings, (HOUR + JOB_LATE,)),
    Age(aged.client, looking.findings, (730 * DAY - NOTICE,)),
    Age(aged.refused_client, looking.findings, (LATELY,)),
    # expiry
    Age(aged.expired, looking.expire, (SWEPT,), only=("TABLE_WRITE Tasks",)),
    Age(aged.expired_in_another_group, looking.expire, (SWEPT,), only=("TABLE_WRITE Tasks",)),
    Age(
        aged.expired_unresolved,
        looking.expire,
        (EXPIRY_GRACE_PERIOD, SWEPT, EXPIRY_GRACE_PERIOD + LATE_TIMERS),
        only=("TABLE_WRITE Tasks", "QUEUE_PUT"),
    ),
    Age(aged.expired_with_an_unsent_event, looking.expire, (LONGEST_HOLD,), only=("TABLE_WRITE Tasks",)),
    Age(
        aged.expired_with_a_due_group,
        looking.expire,
        (EXPIRY_GRACE_PERIOD, SWEPT - MARGIN, EXPIRY_GRACE_PERIOD + LATE_TIMERS),
        only=("TABLE_WRITE Groups",),
    ),
    Age(
        aged.expired_unresolved_and_deadly,
        looking.expire,
        (SWEPT, EXPIRY_GRACE_PERIOD + LATE_TIMERS),
        only=("TABLE_WRITE Expiry",),
    ),
    # clients
    Age(aged.client, looking.create_client_again, (REPEATABLE,)),
    Age(aged.client, looking.use_client, (USE_NOTED_EVERY,)),
]
