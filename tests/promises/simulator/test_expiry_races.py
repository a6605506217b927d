"""The expiry job against every call that writes the same rows: what should be gone is gone, and nothing else. Each runs
as a whole before each request of the other, and between each request's effect and its answer, which is lost, so that
the request is sent again. Then both mix at random."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from shared.base.errors import ApiError, ServiceUnavailable
from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Phase, Resent, as_process, process_name
from tests.promises.simulator import invariants
from tests.promises.simulator.daily import todays_chance
from tests.promises.simulator.deletions import (
    MEETINGS,
    NEW,
    Meeting,
    an_artifact,
    content_paths,
    create_artifact,
    members,
)
from tests.promises.simulator.expiring import DAY, HOUR, JOB, left, scheduled
from tests.promises.simulator.situations import A, B, C
from tests.promises.simulator.world import World, unordered

CALLER = "caller"


class Pause:
    """A gate that lets something else happen at one request of a process, and loses its answer if it was sent."""

    def __init__(self, process: str, number: int = 0, phase: Phase = Phase.BEFORE) -> None:
        """Takes the process, and the number of a request; without a number it only counts."""
        self.process = process
        self.number = number
        self.phase = phase
        self.calls: list[Call] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.hit: Call | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        if self.hit is not None or process_name() != self.process:
            return
        if phase is Phase.BEFORE:
            self.calls.append(call)
        if phase is self.phase and 0 < self.number <= len(self.calls) and self.calls[self.number - 1] is call:
            self.hit = call
            assert self.meanwhile is not None
            await self.meanwhile()
            if phase is Phase.AFTER:
                raise Resent


class Encounter:
    """A meeting of the job and a call, and its outcome."""

    def __init__(self, meeting: Meeting, world: World) -> None:
        self.meeting = meeting
        self.world = world
        self.services = world.process()
        self.outcome = ""
        world.run(world.handlers.expiration.run(300))
        world.run(meeting.prepare(world))
        self.kept = content_paths(world) if meeting.prepare is not an_artifact else set()

    async def call(self) -> None:
        """Makes the call, and notes its answer as a word."""
        try:
            await as_process(CALLER, self.meeting.party(self.world, self.services))
        except (ServiceUnavailable, StorageUnavailable):
            self.outcome = "again"
        except ApiError as error:
            self.outcome = type(error).__name__
        else:
            self.outcome = "ok"

    async def job(self) -> None:
        """Runs the job once."""
        await as_process(JOB, self.world.handlers.expiration.run(300))

    def finish(self) -> None:
        """Repeats the call if it was to be repeated, and lets everything come to its end, with checks."""
        world = self.world
        for _ in range(5):
            if self.outcome != "again":
                break
            world.run(world.clock.sleep(5))
            self.services = world.process()
            world.run(self.call())
            world.run(self.job())
        assert self.outcome in self.meeting.legal
        assert C in world.tasks(), "a bystander is gone"
        self._check_new_tasks()
        world.run(world.drain(60))
        invariants.check(world)
        world.run(world.drain(6 * HOUR))
        world.run(world.clean_up())
        for days in (6, 0.2, 0.2):
            world.run(world.clock.sleep(days * DAY))
            world.run(self.job())
        assert left(world) == set()
        assert scheduled(world) == set()
        assert world.rows(keys.GROUPS) == []

    def _check_new_tasks(self) -> None:
        """Checks that what was acknowledged exists with all that it needs, in every process."""
        world, tasks = self.world, self.world.tasks()
        for task_id in {A, B} & set(tasks):
            if tasks[task_id].expires < world.clock.now():
                continue
            assert task_id in members(world, tasks[task_id].task_group_id)
            groups = {row.key for row in world.rows(keys.GROUPS, tasks[task_id].task_group_id)}
            assert keys.GROUP in groups
            for services in (world.services, world.handlers, world.process()):
                (loaded,) = world.run(services.stores.tasks.load(task_id))
                assert loaded is not None
                if self.meeting.party is not create_artifact and self.meeting.prepare is not an_artifact:
                    assert loaded.definition.body["payload"] == NEW
        if self.outcome == "ok" and self.meeting.party is create_artifact:
            assert content_paths(world) >= self.kept and content_paths(world), "what was acknowledged is gone"


Act = Callable[[Encounter], Coroutine[Any, Any, None]]
EVERY = pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.large)])
"""Parameters: each request is examined in the large suite, every 25th otherwise."""


def numbers(every: int, name: str, last: int) -> range:
    """Returns numbers of requests, from 1."""
    return range(1 + todays_chance(name).randrange(every), last + 1, every)


def everybody_knows_a(encounter: Encounter) -> None:
    """Lets every process read A, so that it keeps A's definition."""
    world = encounter.world
    for services in (world.services, world.handlers, encounter.services):
        world.run(services.stores.tasks.load(A))


@pytest.mark.parametrize("meeting", MEETINGS, ids=lambda meeting: meeting.name)
def test_without_a_race(meeting: Meeting) -> None:
    """Without a race, the job runs alone, and then the call."""
    encounter = Encounter(meeting, unordered())
    encounter.world.run(encounter.job())
    encounter.world.run(encounter.call())
    encounter.finish()


@EVERY
@pytest.mark.parametrize("meeting", MEETINGS, ids=lambda meeting: meeting.name)
def test_call_at_requests_of_the_job(meeting: Meeting, every: int) -> None:
    last = _requests(meeting, JOB, Encounter.job)
    for phase in Phase:
        for number in numbers(every, f"{meeting.name} {phase.value}", last):
            _meet(meeting, Pause(JOB, number, phase), Encounter.job, Encounter.call)


@EVERY
@pytest.mark.parametrize("meeting", MEETINGS, ids=lambda meeting: meeting.name)
def test_job_at_requests_of_the_call(meeting: Meeting, every: int) -> None:
    last = _requests(meeting, CALLER, Encounter.call)
    for phase in Phase:
        for number in numbers(every, f"{meeting.name}, {phase.value} requests of the call", last):
            _meet(meeting, Pause(CALLER, number, phase), Encounter.call, Encounter.job)


def _requests(meeting: Meeting, process: str, act: Act) -> int:
    """Returns how many requests the job or the call makes when nothing is in its way."""
    gate = Pause(process)
    encounter = Encounter(meeting, unordered(gate))
    everybody_knows_a(encounter)
    encounter.world.run(act(encounter))
    return len(gate.calls)


def _meet(meeting: Meeting, gate: Pause, act: Act, other: Act) -> None:
    """Lets one act meet the other at one of its requests."""
    encounter = Encounter(meeting, unordered(gate))
    everybody_knows_a(encounter)
    gate.meanwhile = partial(other, encounter)
    try:
        encounter.world.run(act(encounter))
        assert gate.hit, "the same requests each time"
        encounter.finish()
    except BaseException as error:
        error.add_note(f"{gate.phase.value} request {gate.number} of the {gate.process}, {gate.hit}")
        raise
