"""The frame of queue-triggered functions: messages that cannot be handled now, or by this version of the app."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from shared.domain import announcements
from shared.domain.task import Resolved
from shared.errors import ResourceNotFound, ServiceUnavailable
from shared.events.pointers import from_json, to_json
from shared.storage.counting import Kind
from shared.storage.interface import StorageRefused, StorageUnavailable
from shared.storage.internal_messages import (
    DEADLINE_QUEUE,
    EVENTS_QUEUE,
    RESOLVED_QUEUE,
    DeadlineBody,
    EventBody,
    ResolvedBody,
    encode_body,
)
from shared.storage.messages import poison_queue
from shared.telemetry.logs import Record
from shared.usecases.timers import FIRST_PAUSE, SPREAD, Postponed
from tests.simulator.scenarios import A
from tests.simulator.world import World
from tests.twin.gate import Call, Fail, Phase

SETTINGS = {
    "TASKCLUSTER_ROOT_URL": "https://tc.example.com",
    "ROOT_ACCESS_TOKEN": "root-token-of-the-tests-only-44",
    "MESSAGE_SIGNING_KEYS": "signing-key-of-the-tests-only-44",
    "ACCESS_TOKEN_KEYS": base64.urlsafe_b64encode(bytes(range(32))).decode(),
    "STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true",
    "SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://localhost",
}


class App(NamedTuple):
    """The modules of the app, which read their settings when they are imported."""

    messages: ModuleType
    triggers: ModuleType


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    """The app with the least settings that it starts with."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        from functions import queue_messages, queue_triggers

        yield App(queue_messages, queue_triggers)


class Requests:
    """Counts requests to storage, by table or queue."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Kind, str]] = Counter()

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Count what is sent."""
        if phase is Phase.BEFORE:
            self.counts[call.kind, call.target] += 1


def a_world(*gates: Requests) -> World:
    world = World(None, *gates)
    world.is_ordered = False
    return world


class Host:
    """Runs queue-triggered functions as the Functions host does, and counts how often."""

    def __init__(self, app: App, world: World) -> None:
        self._app = app
        self._world = world
        self.handled: Counter[str] = Counter()
        self.outcomes: list[str] = []

    async def run(self, queue: str, for_seconds: float) -> None:
        """Handles what becomes visible within so many seconds."""
        body_type, work = {
            EVENTS_QUEUE: (EventBody, self._app.triggers._event),
            DEADLINE_QUEUE: (DeadlineBody, self._app.triggers._deadline),
            RESOLVED_QUEUE: (ResolvedBody, self._app.triggers._resolved),
        }[queue]
        world, queues = self._world, self._world.memory.storage.queues
        until = world.clock.now() + timedelta(seconds=for_seconds)
        while world.clock.now() < until:
            for message in await queues.get(queue, count=16, hidden_for=600):
                text = base64.b64decode(message.text).decode()
                self.handled[_name(text)] += 1
                outcome = await self._app.messages._handle(world.handlers, text, body_type, work)
                self.outcomes.append(outcome)
                await queues.delete(queue, message.receipt)
            await world.clock.sleep(1)


def _name(text: str) -> str:
    """What distinguishes messages, however often they are put again."""
    body = json.loads(text)
    body.pop("attempts", None)
    return json.dumps(body, sort_keys=True)


async def a_pointer(world: World) -> dict[str, Any]:
    """The pointer to an event of a new task."""
    task_id = await world.create()
    loaded = await world.services.stores.tasks.load(task_id)
    assert loaded is not None
    event = world.services.stores.announcer.rendered(announcements.pending(loaded.task, 0), loaded).event
    body: dict[str, Any] = json.loads(to_json(event))
    return body


async def put_pointer(world: World, body: dict[str, Any]) -> None:
    """Puts a pointer as the version of the app would that makes such a body."""
    body = {name: value for name, value in body.items() if name != "digest"}
    digest = hashlib.sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()[:16]
    text = json.dumps({**body, "digest": digest}, separators=(",", ":"))
    await world.services.stores.messages.put_pointer(text)


async def poisoned(world: World, queue: str) -> int:
    return await world.memory.storage.queues.length(poison_queue(queue))


def test_pointers_back_off_as_one_while_service_bus_is_down(app: App) -> None:
    """An hour of it: each pointer is handled seldom, and only the one that is tried costs a read."""
    requests = Requests()
    world = a_world(requests)
    host = Host(app, world)

    async def story() -> None:
        world.topics.is_down = True
        for _ in range(40):
            await world.create()
        requests.counts.clear()
        await host.run(EVENTS_QUEUE, 3600)
        handled, reads = sum(host.handled.values()), requests.counts[Kind.TABLE_READ, "Tasks"]
        assert max(host.handled.values()) <= 30
        assert requests.counts[Kind.QUEUE_PUT, EVENTS_QUEUE] == handled, "each is put again, once"
        assert handled <= 80 * 30
        assert reads <= 2 * 30, "one pointer of each of the two topics is tried in a pause"
        world.topics.is_down = False
        world.topics.messages.clear()
        await host.run(EVENTS_QUEUE, 300)
        assert {body["status"]["taskId"] for body in world.topics.of("task-pending")} == set(world.tasks())
        assert await world.memory.storage.queues.length(EVENTS_QUEUE) == 0

    world.run(story())


def test_pointers_that_are_handled_side_by_side_count_as_one_attempt(app: App) -> None:
    world = a_world()
    redelivery = world.handlers.redelivery
    attempts: list[int] = []
    publish = world.topics.publish

    async def counted(messages: Any) -> None:
        attempts.append(len(messages))
        await asyncio.sleep(0)  # lets the others come in between
        await publish(messages)

    async def together(count: int) -> list[float]:
        """The delays of those that were postponed."""
        event = from_json(json.dumps(await a_pointer(world), separators=(",", ":")))
        attempts.clear()  # of the creation of the pointer's task
        outcomes = await asyncio.gather(*(redelivery.event_due(event) for _ in range(count)), return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, Postponed) for outcome in outcomes), outcomes
        return [outcome.delay for outcome in outcomes if isinstance(outcome, Postponed)]

    async def story() -> None:
        world.topics.publish = counted  # type: ignore[method-assign]
        first, spread = FIRST_PAUSE.total_seconds(), SPREAD
        world.topics.is_down = True
        assert max(await together(20)) <= first + spread, "they failed together, so the pause is that of one failure"
        await world.clock.sleep(first)
        delays = await together(20)
        assert len(delays) == 20
        assert max(delays) <= 2 * first + spread
        assert len(attempts) == 1, "a single one is tried after a pause"
        world.topics.is_down = False
        await world.clock.sleep(2 * first)
        assert await together(20) == []
        world.topics.is_down = True
        assert max(await together(1)) <= first + spread, "the next outage begins anew"

    asyncio.run(story())


def test_an_outage_of_one_topic_does_not_hold_up_the_pointers_of_others(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world()
    host = Host(app, world)
    publish = world.topics.publish

    async def refuse_one(messages: Any) -> None:
        world.topics.is_down = any(message.topic == "task-defined" for message in messages)
        await publish(messages)

    async def story() -> None:
        world.topics.is_down = True
        await world.create()
        monkeypatch.setattr(world.topics, "publish", refuse_one)
        await host.run(EVENTS_QUEUE, 60)
        assert world.topics.of("task-pending")
        assert not world.topics.of("task-defined")

    world.run(story())


@pytest.mark.parametrize("change", [{"version": 2}, {"exchange": "task-comes-later"}])
def test_a_pointer_of_a_later_version_waits_with_back_off_before_it_is_dead_lettered(
    app: App, change: dict[str, Any]
) -> None:
    world = a_world()
    host = Host(app, world)

    async def story() -> None:
        await put_pointer(world, {**await a_pointer(world), **change})
        await host.run(EVENTS_QUEUE, 3600)
        assert set(host.outcomes) == {"again"}
        assert len(host.outcomes) < 12
        assert await poisoned(world, EVENTS_QUEUE) == 0
        await host.run(EVENTS_QUEUE, 4 * 3600)
        assert host.outcomes[-1] == "poison"
        assert await poisoned(world, EVENTS_QUEUE) == 1

    world.run(story())


def test_a_pointer_with_unknown_fields_is_left_to_the_later_version_for_some_minutes_and_then_sent(app: App) -> None:
    world = a_world()
    host = Host(app, world)

    async def story() -> None:
        await put_pointer(world, {**await a_pointer(world), "comesLater": "x"})
        world.topics.messages.clear()
        await host.run(EVENTS_QUEUE, 120)
        assert set(host.outcomes) == {"again"}
        assert not world.topics.messages
        await host.run(EVENTS_QUEUE, 480)
        assert host.outcomes[-1] == "done"
        assert len(world.topics.of("task-pending")) == 1

    world.run(story())


def test_a_damaged_pointer_is_dead_lettered_at_once(app: App) -> None:
    world = a_world()
    host = Host(app, world)

    async def story() -> None:
        text = json.dumps(await a_pointer(world), separators=(",", ":")).replace('"retriesLeft":5', '"retriesLeft":4')
        await world.services.stores.messages.put_pointer(text)
        await host.run(EVENTS_QUEUE, 5)
        assert host.outcomes == ["poison"]

    world.run(story())


@pytest.mark.parametrize("queue", [DEADLINE_QUEUE, RESOLVED_QUEUE])
def test_a_message_with_fields_of_a_later_version_is_handled_and_keeps_them_when_it_is_put_again(
    app: App, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world()
    host = Host(app, world)

    async def story() -> None:
        task_id = await world.create()
        (body, _), *_ = world.messages(DEADLINE_QUEUE)
        if queue == RESOLVED_QUEUE:
            body = {"taskId": task_id, "runId": 0, "put": body["put"]}
        await world.memory.storage.queues.put(queue, encode_body({**body, "comesLater": "x"}))
        await host.run(queue, 1)
        assert host.outcomes == ["done"]

        async def fail(*_: Any) -> None:
            raise RuntimeError

        monkeypatch.setattr(app.triggers, "_deadline", fail)
        monkeypatch.setattr(app.triggers, "_resolved", fail)
        await world.memory.storage.queues.put(queue, encode_body({**body, "comesLater": "x"}))
        await host.run(queue, 1)
        assert host.outcomes == ["done", "again"]
        kept = [each for each, _ in world.messages(queue) if "comesLater" in each]
        assert [each["attempts"] for each in kept] == [1]

    world.run(story())


@pytest.mark.parametrize("text", ["not JSON", "[]", "{}", '{"taskId": 1}', "[" * 40_000])
def test_a_message_that_cannot_be_read_is_dead_lettered_at_once(app: App, text: str) -> None:
    world = a_world()

    async def story() -> None:
        outcome = await app.messages._handle(world.handlers, text, ResolvedBody, app.triggers._resolved)
        assert outcome == "poison"
        assert await poisoned(world, RESOLVED_QUEUE) == 1

    world.run(story())


def test_lines_that_are_logged_while_a_message_is_handled_name_its_task(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world()
    named: dict[str, Any] = {}

    async def work(message: object) -> None:
        named.update(Record("taskcluster.any", logging.INFO, "", 0, "", (), None).fields)

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", work)
        await world.services.stores.messages.put_resolved(A, 3)
        await Host(app, world).run(RESOLVED_QUEUE, 2)

    world.run(story())
    assert {name: named.get(name) for name in ("taskId", "runId")} == {"taskId": A, "runId": 3}
    assert "attempts" not in named


def test_a_message_whose_handling_fails_is_tried_for_hours_before_it_is_dead_lettered(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the handler raises: a ValueError may come of one garbled answer. The back-off doubles up to an hour."""
    for error in (ValueError("garbled"), KeyError("missing")):
        world = a_world()
        host = Host(app, world)
        times: list[float] = []

        async def fail(
            message: object, world: World = world, times: list[float] = times, error: Exception = error
        ) -> None:
            times.append(world.clock.now().timestamp())
            raise error

        monkeypatch.setattr(world.handlers.resolution, "resolved_due", fail)

        async def story(world: World = world, host: Host = host, times: list[float] = times) -> None:
            await world.services.stores.messages.put_resolved(world.slugid(), 0)
            await host.run(RESOLVED_QUEUE, 5 * 3600)
            assert host.outcomes == ["again"] * 12 + ["poison"]
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            wanted = [min(5 * 2**attempt, 3600) for attempt in range(12)]
            assert all(0 <= gap - want <= 2 for gap, want in zip(gaps, wanted, strict=True))
            assert await poisoned(world, RESOLVED_QUEUE) == 1

        world.run(story())


def test_a_message_waits_as_long_as_storage_is_down(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world()
    host = Host(app, world)

    async def fail(message: object) -> None:
        raise StorageUnavailable("down")

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", fail)
        await world.services.stores.messages.put_resolved(world.slugid(), 0)
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
    world = a_world()
    attempts: list[float] = []

    async def fail(message: object) -> None:
        attempts.append(world.clock.now().timestamp())
        raise error

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", fail)
        await world.services.stores.messages.put_resolved(world.slugid(), 0)
        await Host(app, world).run(RESOLVED_QUEUE, 5 * 3600)

    world.run(story())
    wanted = [min(5 * 2**number, longest) for number in range(12)]
    found = [later - earlier for earlier, later in pairwise(attempts)][: len(wanted)]
    # The simulated host looks every second.
    assert all(delay <= waited < delay + 2 for delay, waited in zip(wanted, found, strict=True)), found


@pytest.mark.parametrize(
    ("error", "is_given_up"), [(StorageUnavailable, False), (StorageRefused, True)], ids=["unavailable", "refused"]
)
def test_message_waits_for_an_outage_and_is_given_up_when_storage_keeps_refusing_it(
    app: App, error: type[StorageUnavailable], is_given_up: bool
) -> None:
    """Half a day of either; the message comes back by itself after an outage of any length."""
    gate = Fail(lambda call: call.target == "Tasks" and call.kind is Kind.TABLE_READ, times=0, error=error)
    world = World(None, gate)
    world.is_ordered = False
    host = Host(app, world)

    async def story() -> None:
        task_id = await world.create()
        (claim,) = await world.claim()
        await world.services.lifecycle.report(task_id, claim.run_id, Resolved.COMPLETED)
        gate.times = 1_000_000
        await host.run(RESOLVED_QUEUE, 12 * 3600)
        assert (await poisoned(world, RESOLVED_QUEUE) == 1) is is_given_up
        gate.times = 0
        await host.run(RESOLVED_QUEUE, 300)
        assert ("done" in host.outcomes) is not is_given_up

    world.run(story())


@pytest.mark.parametrize(
    "error", [StorageUnavailable("down"), ServiceUnavailable("contended")], ids=["storage", "race"]
)
def test_attempts_during_an_outage_do_not_count_towards_giving_up(
    app: App, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What fails once after a long outage is tried as often as what fails without one."""
    world = a_world()
    host = Host(app, world)
    outage, failures = 3600.0, 3
    attempts: list[float] = []

    async def work(message: object) -> None:
        attempts.append(world.clock.now().timestamp())
        if attempts[-1] - attempts[0] < outage:
            raise error
        if sum(each - attempts[0] >= outage for each in attempts) <= failures:
            raise RuntimeError

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", work)
        await world.services.stores.messages.put_resolved(world.slugid(), 0)
        await host.run(RESOLVED_QUEUE, 2 * outage)
        assert await poisoned(world, RESOLVED_QUEUE) == 0
        assert host.outcomes[-failures - 1 :] == ["again"] * failures + ["done"]

    world.run(story())


def test_back_off_of_an_outage_begins_anew_after_a_failure_of_another_kind(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outage before it is over: what waits next waits for another one."""
    world = a_world()
    host = Host(app, world)
    down = StorageUnavailable("down")
    outcomes: list[Exception | None] = [*[down] * 8, RuntimeError(), down, down, None]
    attempts: list[float] = []

    async def work(message: object) -> None:
        attempts.append(world.clock.elapsed)
        if error := outcomes[len(attempts) - 1]:
            raise error

    async def story() -> None:
        monkeypatch.setattr(world.handlers.resolution, "resolved_due", work)
        await world.services.stores.messages.put_resolved(world.slugid(), 0)
        await host.run(RESOLVED_QUEUE, 1000)

    world.run(story())
    assert host.outcomes == ["again"] * 11 + ["done"]
    first, *pauses = (later - earlier for earlier, later in pairwise(attempts))
    assert max(pauses[:7]) > 10 * first
    assert max(pauses[7:9]) < 2 * first, "after the failure, and after the first attempt of the other outage"


def test_a_report_on_a_run_that_no_task_can_have_is_refused_and_leaves_no_message() -> None:
    world = a_world()

    async def story() -> None:
        task_id = await world.create()
        with pytest.raises(ResourceNotFound):
            await world.services.lifecycle.report(task_id, 123456789, Resolved.COMPLETED)
        assert world.messages(RESOLVED_QUEUE) == []

    world.run(story())
