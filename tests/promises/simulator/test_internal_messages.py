"""Queue-triggered functions with messages that cannot be handled now, or by this version of the app."""

from __future__ import annotations

import itertools
from datetime import timedelta
from itertools import pairwise
from typing import Any
from unittest.mock import AsyncMock

import pytest

from shared.queue.tasks.effects import PutResolved
from shared.queue.tasks.internal_messages import (
    BODIES,
    DEADLINE_QUEUE,
    RESOLVED_QUEUE,
    Body,
    ClaimBody,
    DeadlineBody,
    GroupJobBody,
    ResolvedBody,
    encode_body,
)
from shared.queue.tasks.rules import UndeliveredClaim
from shared.store.interface import StorageUnavailable
from tests.promises.simulator.queue_host import App, Host, poisoned
from tests.promises.simulator.situations import GROUP, A
from tests.promises.simulator.world import WORKER, World, unordered


@pytest.mark.parametrize("queue", [DEADLINE_QUEUE, RESOLVED_QUEUE])
def test_a_message_with_fields_of_a_later_version_is_handled_and_keeps_them_when_it_is_put_again(
    app: App, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = unordered()
    host = Host(app, world)

    async def story() -> None:
        task_id = await world.create()
        (body, _), *_ = world.messages(DEADLINE_QUEUE)
        if queue == RESOLVED_QUEUE:
            body = {"taskId": task_id, "runId": 0, "put": body["put"]}
        await world.memory.storage.queues.put_message(queue, encode_body({**body, "comesLater": "x"}))
        await host.run(queue, 1)
        assert host.outcomes == ["done"]

        async def fail(*_: Any) -> None:
            raise RuntimeError

        monkeypatch.setitem(app.triggers.FUNCTIONS, BODIES[queue], ("fails", fail))
        await world.memory.storage.queues.put_message(queue, encode_body({**body, "comesLater": "x"}))
        await host.run(queue, 1)
        assert host.outcomes == ["done", "again"]
        kept = [each for each, _ in world.messages(queue) if "comesLater" in each]
        assert [each["attempts"] for each in kept] == [1]

    world.run(story())


def test_all_that_a_message_says_reaches_its_use_case(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    world = unordered()
    services = world.handlers
    put, started = world.clock.now(), world.clock.now() - timedelta(minutes=20)
    lost = UndeliveredClaim(task_id=A, run_id=2, worker=WORKER, taken_until=put, sequence=5, started=started)
    job = GroupJobBody(task_group_id=GROUP, kind="priority", new_priority="high", number=3, listed="here")
    resolved = ResolvedBody(task_id=A, run_id=3, put=put)
    claim = ClaimBody(task_id=A, run_id=2, put=put, started=started)
    returning = ClaimBody(task_id=A, run_id=2, put=put, started=started, undelivered=lost)
    deadline = DeadlineBody(task_id=A, task_group_id=GROUP, scheduler_id="me", put=put)
    cases: list[tuple[str, Any, Body, tuple[Any, ...]]] = [
        ("claim_due", services.due, claim, (A, 2, put, started)),
        ("take_back", services.giving_back, returning, (lost,)),
        ("deadline_due", services.due, deadline, (A, GROUP, "me", put)),
        ("resolved_due", services.resolution, resolved, (resolved,)),
        ("job_due", services.group_jobs, job, (job,)),
    ]
    for name, use_case, body, said in cases:
        told = AsyncMock()
        monkeypatch.setattr(use_case, name, told)
        world.run(app.triggers.FUNCTIONS[type(body)][1](services, body))
        told.assert_awaited_once_with(*said)


@pytest.mark.parametrize("text", ["not JSON", "[]", "{}", '{"taskId": 1}', "[" * 40_000])
def test_a_message_that_cannot_be_read_is_dead_lettered_at_once(app: App, text: str) -> None:
    world = unordered()

    async def story() -> None:
        outcome = await app.messages._handle(world.handlers, text, ResolvedBody, AsyncMock(), 1)
        assert outcome == "poison"
        assert await poisoned(world, RESOLVED_QUEUE) == 1

    world.run(story())


def test_a_message_whose_handling_fails_is_tried_for_hours_before_it_is_dead_lettered(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message whose handling fails is tried for hours before it is dead-lettered, whatever the handler raises: a
    ValueError may come of one garbled answer. The back-off doubles up to an hour."""
    for error in (ValueError("garbled"), KeyError("missing")):
        world = unordered()
        host = Host(app, world)
        times: list[float] = []

        async def fail(
            message: object, world: World = world, times: list[float] = times, error: Exception = error
        ) -> None:
            times.append(world.clock.now().timestamp())
            raise error

        monkeypatch.setattr(world.handlers.resolution, "resolved_due", fail)

        async def story(world: World = world, host: Host = host, times: list[float] = times) -> None:
            await world.services.stores.messages.put_resolved(PutResolved(task_id=world.slugid(), run_id=0))
            await host.run(RESOLVED_QUEUE, 5 * 3600)
            assert host.outcomes == ["again"] * 12 + ["poison"]
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            wanted = [min(5 * 2**attempt, 3600) for attempt in range(12)]
            assert all(0 <= gap - want <= 2 for gap, want in zip(gaps, wanted, strict=True))
            assert await poisoned(world, RESOLVED_QUEUE) == 1

        world.run(story())


def test_a_message_waits_as_long_as_storage_is_down(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    world = unordered()
    host = Host(app, world)

    async def fail(message: object) -> None:
        raise StorageUnavailable("down")

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", fail)
        await world.services.stores.messages.put_resolved(PutResolved(task_id=world.slugid(), run_id=0))
        await host.run(RESOLVED_QUEUE, 6 * 3600)
        assert set(host.outcomes) == {"again"}
        assert 6 * 50 <= len(host.outcomes) <= 6 * 65
        assert await poisoned(world, RESOLVED_QUEUE) == 0

    world.run(story())


@pytest.mark.parametrize(
    ("error", "longest"), [(StorageUnavailable("down"), 60), (RuntimeError("defect"), 3600)], ids=["outage", "defect"]
)
def test_delays_double_up_to_a_minute_in_an_outage_and_up_to_an_hour_after_other_failures(
    app: App, monkeypatch: pytest.MonkeyPatch, error: Exception, longest: int
) -> None:
    world = unordered()
    attempts: list[float] = []

    async def fail(message: object) -> None:
        attempts.append(world.clock.now().timestamp())
        raise error

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", fail)
        await world.services.stores.messages.put_resolved(PutResolved(task_id=world.slugid(), run_id=0))
        await Host(app, world).run(RESOLVED_QUEUE, 5 * 3600)

    world.run(story())
    wanted = [min(5 * 2**number, longest) for number in range(12)]
    found = [later - earlier for earlier, later in pairwise(attempts)][: len(wanted)]
    # The simulated host looks every second.
    assert all(delay <= waited < delay + 2 for delay, waited in zip(wanted, found, strict=True)), found
