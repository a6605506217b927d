"""A task and what happens to it, by the product's own transitions, for tests of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.base.priority import Priority
from shared.queue.claims import rules as claims
from shared.queue.events import rules as announcements
from shared.queue.events.rendering import EventMessage, render
from shared.queue.events.rules import ArtifactEvent, Exchange, GroupEvent, TaskEvent
from shared.queue.tasks import transitions
from shared.queue.tasks.definition import Definition, initial_task
from shared.queue.tasks.effects import Decision
from shared.queue.tasks.rules import MessageHandle, PriorityChange, Resolved, Task, Worker

TASK_ID = "AAAAAAAAQACAAAAAAAAAAA"
GROUP_ID = "BBBBBBBBRBCBBBBBBBBBBQ"
CREATED = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
HANDLE = MessageHandle(queue="q", message_id="m", pop_receipt="r")
WORKER = Worker(worker_group="group-1", worker_id="worker-1")


def definition(task_id: str = TASK_ID, **changes: Any) -> Definition:
    """Returns a definition with every field filled in, secrets and all."""
    body = {
        "provisionerId": "prov",
        "workerType": "pool",
        "taskQueueId": "prov/pool",
        "schedulerId": "sched",
        "projectId": "proj",
        "taskGroupId": GROUP_ID,
        "dependencies": [],
        "requires": "all-completed",
        "routes": ["index.project.main.latest", "notify.by-email"],
        "priority": "low",
        "retries": 2,
        "created": "2026-01-01T12:00:00.000Z",
        "deadline": "2026-01-02T12:00:00.000Z",
        "expires": "2027-01-02T12:00:00.000Z",
        "scopes": ["secret-scope"],
        "payload": {"command": "secret-payload"},
        "metadata": {"name": "n", "description": "d", "owner": "o", "source": "https://example.com"},
        "tags": {"kind": "build"},
        "extra": {"token": "secret-extra"},
    }
    return Definition(task_id, {**body, **changes})


@dataclass
class Life:
    """A task that lives through transitions and collects the messages that announce them."""

    definition: Definition
    task: Task
    now: datetime = CREATED

    @classmethod
    def begin(cls, **changes: Any) -> Life:
        wanted = definition(**changes)
        return cls(wanted, initial_task(wanted))

    def tick(self, seconds: float = 60) -> None:
        self.now += timedelta(seconds=seconds)

    def messages(self, events: Sequence[TaskEvent]) -> list[EventMessage]:
        return [render(event, self.definition, self.task) for event in events]

    def apply(self, decision: Decision) -> list[EventMessage]:
        self.task = decision.task or self.task
        self.tick()
        return self.messages(decision.events)

    def defined(self) -> list[EventMessage]:
        return self.messages([announcements.defined(self.task)])

    def schedule(self) -> list[EventMessage]:
        return self.apply(transitions.schedule(self.task, self.now, "hint"))

    def claim(self, worker: Worker = WORKER) -> list[EventMessage]:
        taken_until = self.now + timedelta(minutes=20)
        return self.apply(claims.claim(self.task, worker, HANDLE, taken_until, self.now))

    def reclaim(self) -> list[EventMessage]:
        taken_until = self.now + timedelta(minutes=20)
        return self.apply(claims.reclaim(self.task, self.task.last_run_id, taken_until, self.now, "spare"))

    def report(self, resolution: Resolved) -> list[EventMessage]:
        return self.apply(transitions.report(self.task, self.task.last_run_id, resolution, self.now))

    def report_exception(self, reason: Resolved) -> list[EventMessage]:
        run_id = self.task.last_run_id
        return self.apply(transitions.report_exception(self.task, run_id, reason, self.now, "spare"))

    def cancel(self) -> list[EventMessage]:
        return self.apply(transitions.cancel(self.task, self.now))

    def pass_deadline(self) -> list[EventMessage]:
        self.now = self.task.deadline + timedelta(minutes=1)
        return self.apply(transitions.end(self.task, Resolved.DEADLINE_EXCEEDED, self.now))

    def rerun(self) -> list[EventMessage]:
        return self.apply(transitions.rerun(self.task, self.now, "hint"))

    def create_artifact(self, name: str = "public/build.log", storage_type: str = "reference") -> list[EventMessage]:
        artifact = ArtifactEvent(
            storage_type=storage_type, name=name, expires=self.task.expires, content_type="text/plain"
        )
        event = TaskEvent(
            exchange=Exchange.ARTIFACT_CREATED,
            task_id=self.task.task_id,
            run_id=self.task.last_run_id,
            retries_left=self.task.retries_left,
            artifact=artifact,
        )
        return self.messages([event])

    def change_priority(self, priority: Priority) -> list[EventMessage]:
        old = self.task.priority
        self.task = replace(self.task, priority=priority, sequence=self.task.sequence + 1)
        change = PriorityChange(old=old, at=self.task.deadline, sequence=self.task.sequence)
        return self.messages([announcements.priority_changed(self.task, change)])


def group_event(exchange: Exchange, **changes: Any) -> GroupEvent:
    """Returns an event of the group."""
    return GroupEvent(
        **{
            "exchange": exchange,
            "task_group_id": GROUP_ID,
            "scheduler_id": "sched",
            "occasion": f"{TASK_ID}/0",
            "expires": datetime(2027, 1, 2, 13, tzinfo=UTC),
            **changes,
        }
    )
