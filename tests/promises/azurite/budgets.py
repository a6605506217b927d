"""Counts the storage requests of a call, by two processes on one account, and tasks in every state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.dates import format_date
from shared.base.ids import new_slugid
from shared.queue.claims.work import Claim
from shared.queue.events.rendering import EventMessage
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.internal_messages import GROUP_QUEUE, ResolvedBody
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved
from shared.runtime import Runtime, utc_now
from shared.store.counting import Operations, counting
from shared.store.interface import Storage
from tests.parts.unit.tasks import a_definition
from tests.promises.simulator.world import POOL, WORKER, settings

PASSED = "… after a call on its group of which the process does not know"


@dataclass
class Topics:
    """A publisher that takes every event; sends are no storage requests, and not counted (design 6)."""

    messages: list[EventMessage] = field(default_factory=list)

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Accepts all messages."""
        self.messages.extend(messages)


class Bench:
    """An account with a process of API calls and one of handlers. Call `warm` before anything is counted."""

    def __init__(self, storage: Storage, now: Callable[[], datetime] = utc_now) -> None:
        """Takes the storage, and the clock of the tested deployment."""
        self.storage = storage
        self.topics = Topics()
        self._now = now
        self.ahead = timedelta(0)
        """How far the handlers' and the calls' clock is ahead of the world's."""
        self.calls, self.handlers = self.process(), self.process()
        self.group = new_slugid()
        """A task group that is known, and lasts."""

    def process(self, **changes: Any) -> Services:
        """Returns the use cases of another process."""
        runtime = Runtime(now=lambda: self._now() + self.ahead)
        usual = {"deadline_delay_seconds": 0, "artifact_upload_mode": "direct"}
        return assemble(settings(**usual | changes), runtime, self.storage, self.topics)

    async def warm(self) -> None:
        """Makes queues, the band, and the rows of directory and worker, and lets both processes know of them."""
        for services in (self.handlers, self.calls):
            for claim_task in (True, False):
                definition = self.definition()
                await services.create_task(definition)
                if claim_task:
                    found = await services.work.found_for_claim(definition.task_id)
                    claim = await services.work.claim_task(found, 0, WORKER)
                    await self._remove_superseded_message()
                else:
                    (claim,) = await self.claims(1, services)
                await self.finish(claim)
        await self.storage.queues.create_queue(GROUP_QUEUE)
        assert await self.calls.work.claim_work(POOL, WORKER, 1, 0.01) == []

    async def _remove_superseded_message(self) -> None:
        """Removes the first message of a run that claimTask has left. Polls put it back for a second or more until it
        is an orphan; it would come up again in the middle of what is measured."""
        queue = pending_queue(POOL, "lowest")
        (message,) = await self.storage.queues.get_messages(queue, count=32, hidden_for=60)
        await self.storage.queues.delete_message(queue, message.receipt)

    async def measure(self, call: Awaitable[Any]) -> Operations:
        """Returns the requests of a call."""
        with counting() as operations:
            await call
        return operations

    def definition(
        self, task_id: str | None = None, *, expires: timedelta = timedelta(days=2), **changes: Any
    ) -> Definition:
        """Returns the definition of a task of the known group."""
        now = self._now()
        times = {"created": now, "deadline": now + timedelta(hours=3), "expires": now + expires}
        dates = {name: format_date(time) for name, time in times.items()}
        known = {"taskGroupId": self.group, "priority": "lowest", "payload": {"command": ["true"]}}
        return a_definition(task_id or new_slugid(), **{**known, **dates, **changes})

    async def create(self, **changes: Any) -> str:
        """Creates a task and returns its id."""
        definition = self.definition(**changes)
        await self.calls.create_task(definition)
        return definition.task_id

    async def claims(self, count: int, services: Services | None = None) -> list[Claim]:
        """Claims `count` tasks, by default by the process of calls."""
        found: list[Claim] = []
        while len(found) < count:
            found += await (services or self.calls).work.claim_work(POOL, WORKER, count - len(found), 5)
        return found

    async def running(self, **changes: Any) -> str:
        """Creates and claims a task and returns its id."""
        task_id = await self.create(**changes)
        (claim,) = await self.claims(1)
        assert claim.task.task_id == task_id
        return task_id

    async def claim_due(self, task_id: str) -> Awaitable[None]:
        """Returns the handler of the claim message of a task's first run, as if it was put now."""
        task = await self.calls.stores.tasks.status(task_id)
        assert task is not None and task.last_run.started is not None, "the run is claimed"
        return self.handlers.due.claim_due(task_id, 0, utc_now(), task.last_run.started)

    async def finish(self, claim: Claim) -> None:
        """Completes a claim, and handles everything that follows from it."""
        await self.complete(claim)
        await self.resolved_due(claim.task.task_id)

    async def finish_indexed(self, routes: Sequence[str]) -> None:
        """Completes a task that is put in the index, so that the namespaces of its routes are known."""
        await self.resolved_due(await self.completed(routes=list(routes)))

    async def complete(self, claim: Claim) -> None:
        """Calls reportCompleted."""
        await self.calls.lifecycle.report(claim.task.task_id, claim.run_id, Resolved.COMPLETED)

    async def completed(self, **changes: Any) -> str:
        """Creates and completes a task and returns its id; its resolved message has not been handled."""
        task_id = await self.running(**changes)
        await self.calls.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        return task_id

    async def unscheduled(self, **changes: Any) -> str:
        """Creates a task that waits for itself, and returns its id."""
        task_id = new_slugid()
        return await self.create(task_id=task_id, dependencies=[task_id], **changes)

    async def count_call(self, group: str) -> None:
        """Calls another process for all tasks of the group, which raises the group's number."""
        await self.process().group_jobs._counted(GroupJob(task_group_id=group, kind="cancel"))

    async def resolved_due(self, task_id: str, run_id: int = 0, services: Services | None = None) -> None:
        """Handles a resolved message, by default in the process of handlers."""
        await (services or self.handlers).resolution.resolved_due(
            ResolvedBody(task_id=task_id, run_id=run_id, put=utc_now())
        )


Scenario = Callable[[Bench], Awaitable[Operations]]


@dataclass(frozen=True)
class Budget:
    """A call that is measured, and the rows of the table in docs/design.md that say what it may cost."""

    name: str
    rows: tuple[str, ...]
    n: int
    """The value of n in those rows."""
    scenario: Scenario


BUDGETS: list[Budget] = []


def budget(name: str, *rows: str, n: int = 0) -> Callable[[Scenario], Scenario]:
    """Registers a scenario: it prepares, then measures one call that costs what the first row says, and what the others
    add."""

    def register(scenario: Scenario) -> Scenario:
        BUDGETS.append(Budget(name, rows, n, scenario))
        return scenario

    return register


def poll_answer(text: str, message_id: str, pop_receipt: str) -> str:
    """Returns the XML that a worker gets when it polls a queue by itself."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    return (
        f'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList><QueueMessage><MessageId>{message_id}</MessageId>'
        f"<InsertionTime>{now}</InsertionTime><ExpirationTime>{now}</ExpirationTime><PopReceipt>{pop_receipt}"
        f"</PopReceipt><TimeNextVisible>{now}</TimeNextVisible><DequeueCount>1</DequeueCount>"
        f"<MessageText>{text}</MessageText></QueueMessage></QueueMessagesList>"
    )
