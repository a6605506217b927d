"""Random commands against the pure transitions, beside a model that is written down from contract 4.2 to 4.4 alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shared.base.errors import ApiError
from shared.base.priority import PRIORITIES, Priority
from shared.queue.claims import ends as claim_ends
from shared.queue.claims import rules as claims
from shared.queue.claims.ends import NotExpired
from shared.queue.claims.rules import NotClaimed
from shared.queue.events import rules as announcements
from shared.queue.tasks import transitions
from shared.queue.tasks.definition import initial_task
from shared.queue.tasks.effects import Decision, HoldPending, PutClaim, PutPending, PutResolved, ShowPending, TakeLease
from shared.queue.tasks.rules import Resolved, State, Task, Worker
from tests.parts.unit.tasks import CLAIM_TIMEOUT, NOW, a_definition, handle
from tests.selection import examples

REPORTED = ["worker-shutdown", "malformed-payload", "resource-unavailable", "internal-error", "intermittent-task"]
RETRIED = {"worker-shutdown": "retry", "intermittent-task": "task-retry", "claim-expired": "retry"}
RUN_IDS = st.integers(0, 3)
"""Numbers of runs counted from the end: 0 is the run after the last, 1 the last, and so on."""


class Conflict(Exception):
    """The model refuses the command with 409."""


class Unknown(Exception):
    """The model refuses the command with 404."""


@dataclass
class ModelRun:
    created: str
    state: str = "pending"
    reason: str | None = None
    taken_until: datetime | None = None


@dataclass
class Model:
    """A model of a task by the contract."""

    retries: int
    left: int
    deadline: datetime
    priority: str
    open_dependencies: set[int]
    runs: list[ModelRun] = field(default_factory=list)
    was_resolved: bool = False

    @property
    def state(self) -> str:
        return self.runs[-1].state if self.runs else "unscheduled"

    @property
    def is_resolved(self) -> bool:
        return self.state in {"completed", "failed", "exception"}

    def before_deadline(self, now: datetime) -> None:
        if now >= self.deadline:
            raise Conflict

    def end(self, state: str, reason: str) -> None:
        self.runs[-1].state, self.runs[-1].reason = state, reason
        self.was_resolved = True

    def retry_or_end(self, reason: str) -> None:
        if reason in RETRIED and self.left > 0:
            self.runs[-1].state, self.runs[-1].reason = "exception", reason
            self.runs.append(ModelRun(RETRIED[reason]))
            self.left -= 1
        else:
            self.end("exception", reason)

    def schedule(self, now: datetime) -> None:
        self.before_deadline(now)
        if not self.runs:
            self.runs.append(ModelRun("scheduled"))

    def satisfy(self, index: int, now: datetime) -> None:
        if self.runs or now >= self.deadline:
            return
        self.open_dependencies.discard(index)
        if not self.open_dependencies:
            self.runs.append(ModelRun("scheduled"))

    def stop(self, reason: str) -> None:
        if not self.runs:
            self.runs.append(ModelRun("exception"))
        if not self.is_resolved:
            self.end("exception", reason)

    def rerun(self, now: datetime) -> None:
        self.before_deadline(now)
        if self.state in {"pending", "running"}:
            return
        if len(self.runs) >= 50:
            raise Conflict
        self.runs.append(ModelRun("rerun"))
        self.left = min(self.retries, 50 - len(self.runs))

    def change_priority(self, priority: str, now: datetime) -> None:
        self.before_deadline(now)
        if self.was_resolved or priority == self.priority:
            raise Conflict
        self.priority = priority

    def known(self, run_id: int) -> ModelRun:
        if run_id >= len(self.runs):
            raise Unknown
        return self.runs[run_id]

    def report(self, run_id: int, state: str) -> None:
        run = self.known(run_id)
        if run is not self.runs[-1] or run.state not in {"running", state}:
            raise Conflict
        if run.state == "running":
            self.end(state, state)

    def report_exception(self, run_id: int, reason: str) -> None:
        run = self.known(run_id)
        newer = len(self.runs) - 1 - run_id
        if run.reason == reason and newer < 2:
            return
        if newer or run.state != "running":
            raise Conflict
        self.retry_or_end(reason)

    def claim(self, until: datetime) -> None:
        self.runs[-1].state, self.runs[-1].taken_until = "running", until

    def reclaim(self, run_id: int, until: datetime, now: datetime) -> None:
        run = self.known(run_id)
        self.before_deadline(now)
        if run is not self.runs[-1] or run.state != "running" or run.taken_until is None:
            raise Conflict
        run.taken_until = max(run.taken_until, until)

    def has_expired(self, now: datetime) -> bool:
        until = self.runs[-1].taken_until if self.runs else None
        return self.state == "running" and until is not None and until <= now < self.deadline


class StateMachine(RuleBasedStateMachine):
    """Every command is given to both; they must agree on what becomes of the task, and whether it is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.names = 0

    @initialize(
        retries=st.sampled_from([5, 1, 2, 49, 0]),
        dependencies=st.integers(0, 3),
        runs=st.sampled_from([0, 0, 0, 0, 0, 0, 1, 1, 1, 47]),
        hours=st.sampled_from([120, 120, 120, 1]),
    )
    def create(self, retries: int, dependencies: int, runs: int, hours: int) -> None:
        listed = [f"{index:08d}QACAAAAAAAAAAA" for index in range(dependencies)]
        task = initial_task(a_definition(retries=retries, dependencies=listed))
        self.task: Task = replace(task, deadline=NOW + timedelta(hours=hours))
        self.model = Model(retries, retries, self.task.deadline, self.task.priority, set(range(dependencies)))
        for _ in range(runs):
            self.rerun()
            self.cancel()

    def name(self) -> str:
        self.names += 1
        return f"hint-{self.names}"

    def both(self, decide: Callable[[], Decision], model: Callable[[], None]) -> None:
        """Gives one command to both, and compares the outcomes."""
        expected: int | None = None
        try:
            model()
        except (Conflict, Unknown) as refused:
            expected = 409 if isinstance(refused, Conflict) else 404
        try:
            decision = decide()
        except ApiError as refusal:
            assert refusal.status == expected
            return
        refused_with = None if decision.refusal is None else decision.refusal.status
        assert refused_with == expected
        self.commit(decision)

    def commit(self, decision: Decision) -> None:
        """Does what the executor does to the status row; the decision must bring what the new state needs."""
        before, after = self.task, decision.task
        if after is None:
            return
        kinds = [type(effect) for effect in (*decision.ahead, *(each for step in decision.after for each in step))]
        topics = [(event.exchange.value, event.run_id) for event in decision.events]
        last = after.last_run_id
        if after.is_resolved and not before.is_resolved:
            assert PutResolved in kinds, "a resolution is carried on"
            assert [topic for topic, run_id in topics if run_id == last]
        else:
            assert PutResolved not in kinds, "only a task that is resolved frees others (trap 46)"
        if after.state is State.PENDING and before.last_run_id != last:
            assert kinds.count(PutPending) + kinds.count(HoldPending) + kinds.count(ShowPending) == 1
            assert ("task-pending", last) in topics
        if after.state is State.RUNNING and (before.state is not State.RUNNING or before.last_run_id != last):
            assert PutClaim in kinds
            assert TakeLease in kinds or PutPending in kinds
            assert ("task-running", last) in topics
        self.task = replace(after, sequence=before.sequence + 1)

    def run_id(self, from_end: int) -> int:
        return max(len(self.task.runs) - from_end, 0)

    # Commands

    @rule(minutes=st.sampled_from([20, 1, 19, 21]))
    def advance(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def schedule(self) -> None:
        self.both(lambda: transitions.schedule(self.task, self.now, self.name()), lambda: self.model.schedule(self.now))

    @rule(index=st.integers(0, 2))
    def satisfy(self, index: int) -> None:
        if index < self.task.dependencies:
            self.both(
                lambda: transitions.satisfy(self.task, self.now, self.name(), 1 << index, self.now),
                lambda: self.model.satisfy(index, self.now),
            )

    @rule()
    def cancel(self) -> None:
        def model() -> None:
            self.model.before_deadline(self.now)
            self.model.stop("canceled")

        self.both(lambda: transitions.cancel(self.task, self.now), model)

    @rule()
    def rerun(self) -> None:
        self.both(lambda: transitions.rerun(self.task, self.now, self.name()), lambda: self.model.rerun(self.now))

    @rule(priority=st.sampled_from(PRIORITIES))
    def change_priority(self, priority: Priority) -> None:
        self.both(
            lambda: transitions.change_priority(self.task, priority, self.now, self.name(), 0),
            lambda: self.model.change_priority(priority, self.now),
        )

    @rule(from_end=RUN_IDS, resolution=st.sampled_from([Resolved.COMPLETED, Resolved.FAILED]))
    def report(self, from_end: int, resolution: Resolved) -> None:
        run_id = self.run_id(from_end)
        self.both(
            lambda: transitions.report(self.task, run_id, resolution, self.now),
            lambda: self.model.report(run_id, resolution.value),
        )

    @rule(from_end=RUN_IDS, reason=st.sampled_from(REPORTED))
    def report_exception(self, from_end: int, reason: str) -> None:
        run_id = self.run_id(from_end)
        self.both(
            lambda: transitions.report_exception(self.task, run_id, Resolved(reason), self.now, self.name()),
            lambda: self.model.report_exception(run_id, reason),
        )

    @rule(worker=st.sampled_from("ab"))
    def poll(self, worker: str) -> None:
        """Claims by the message that counts, as a poller that finds it does."""
        until = self.now + CLAIM_TIMEOUT
        who = Worker(worker_group="g", worker_id=worker)

        def model() -> None:
            if self.model.state == "pending":
                self.model.claim(until)
            elif self.model.has_expired(self.now):
                runs = len(self.model.runs)
                self.model.retry_or_end("claim-expired")
                if len(self.model.runs) > runs:
                    self.model.claim(until)

        try:
            decision = claims.decide(self.task, self.task.hint_id, 0, who, handle("hand"), until, self.now)
        except NotClaimed:
            assert self.now >= self.model.deadline or not (
                self.model.state == "pending" or self.model.has_expired(self.now)
            )
            return
        self.both(lambda: decision, model)

    @rule(outcome=st.sampled_from([*REPORTED, "completed", "failed", "nothing"]), minutes=st.integers(0, 25))
    def work(self, outcome: str, minutes: int) -> None:
        """Does what happens most: a run is claimed, worked on, and reported, perhaps too late."""
        self.schedule()
        self.poll("a")
        self.advance(minutes)
        if outcome in REPORTED:
            self.report_exception(1, outcome)
        elif outcome != "nothing":
            self.report(1, Resolved(outcome))

    @rule(from_end=RUN_IDS, timeout=st.sampled_from([CLAIM_TIMEOUT, CLAIM_TIMEOUT / 2]))
    def reclaim(self, from_end: int, timeout: timedelta) -> None:
        """Renews a claim, as processes whose settings or clocks differ do."""
        run_id, until = self.run_id(from_end), self.now + timeout
        self.both(
            lambda: claims.reclaim(self.task, run_id, until, self.now, self.name()),
            lambda: self.model.reclaim(run_id, until, self.now),
        )

    @rule(from_end=RUN_IDS)
    def claim_due(self, from_end: int) -> None:
        """Handles a claim message, perhaps of an older run, perhaps too early."""
        run_id = self.run_id(from_end)
        is_last = run_id == len(self.model.runs) - 1
        try:
            run = self.task.runs[run_id] if 0 <= run_id <= self.task.last_run_id else None
            put = self.now - CLAIM_TIMEOUT
            started = (run and run.started) or put
            decision = claim_ends.expire(self.task, run_id, put, self.now, self.name(), started)
        except NotExpired:
            assert not (is_last and self.model.has_expired(self.now))
            return
        if decision.task is not None:
            assert is_last
            assert self.model.has_expired(self.now)
            self.model.retry_or_end("claim-expired")
            self.commit(decision)

    @rule()
    def deadline_due(self) -> None:
        if self.now >= self.task.deadline and not self.task.is_resolved:
            self.both(
                lambda: transitions.end(self.task, Resolved.DEADLINE_EXCEEDED, self.now),
                lambda: self.model.stop("deadline-exceeded"),
            )

    # What always holds

    @invariant()
    def agrees_with_the_contract(self) -> None:
        shown = self.task.as_json()
        assert (shown["state"], shown["retriesLeft"], shown["priority"]) == (
            self.model.state,
            self.model.left,
            self.model.priority,
        )
        assert [(run["reasonCreated"], run["state"], run.get("reasonResolved")) for run in shown["runs"]] == [
            (run.created, run.state, run.reason) for run in self.model.runs
        ]
        assert [run.taken_until for run in self.task.runs] == [run.taken_until for run in self.model.runs]

    @invariant()
    def runs_are_in_order(self) -> None:
        runs = self.task.runs
        assert len(runs) <= 50
        assert [run["runId"] for run in self.task.as_json()["runs"]] == list(range(len(runs)))
        assert all(run.state.is_resolved for run in runs[:-1])
        assert 0 <= self.task.retries_left <= self.task.retries
        if runs:
            event = announcements.running(self.task, self.task.last_run_id)
            assert event.retries_left == self.task.retries_left, "what is announced follows from the runs alone"
        assert self.task.retries_left + len(runs) <= max(50, self.task.retries + 1)
        for run in runs:
            moments = [moment for moment in (run.scheduled, run.started, run.resolved) if moment]
            assert moments == sorted(moments)
            assert (run.resolved is not None) == run.state.is_resolved == (run.reason_resolved is not None)
            assert (run.taken_until is not None) == (run.started is not None) == (run.worker_id is not None)

    @invariant()
    def generations_count_the_times_that_it_was_opened_again(self) -> None:
        reopened = sum(run.reason_created.value == "rerun" for run in self.task.runs[1:])
        assert self.task.generation == reopened
        assert [run.generation for run in self.task.runs] == sorted(run.generation for run in self.task.runs)


TestStateMachine = StateMachine.TestCase
TestStateMachine.settings = settings(max_examples=examples(300), stateful_step_count=50, deadline=None)
