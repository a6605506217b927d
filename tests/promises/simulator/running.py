"""Runs scenarios with something in their way, and checks what comes of it (design 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shared.base.errors import ApiError
from shared.store.counting import Kind
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Call, Gate, Kill, Killed, Phase, process_name
from tests.promises.simulator import invariants
from tests.promises.simulator.daily import some
from tests.promises.simulator.scenarios import Scenario
from tests.promises.simulator.world import World

T = TypeVar("T")

SETTLING = 3600.0
"""Seconds in which orphans grow old enough to be recognised."""
TO_THE_END = 6 * 3600.0
"""Seconds until every deadline has passed."""
OpenWorld = Callable[..., World]
"""Function that makes an empty world, whose requests pass the gates that it is given."""
READS = {Kind.TABLE_READ, Kind.QUEUE_PEEK, Kind.QUEUE_LENGTH, Kind.BLOB_READ}
"""Requests that leave everything as it is."""
VICTIM = "victim"
"""The process whose requests are harmed."""
Left = tuple[str, bool, int]
"""See `Attempt.left`."""


@dataclass
class Attempt:
    """A scenario whose call has been made once."""

    scenario: Scenario
    world: World
    outcome: BaseException | None
    """The error of the call; None when it was acknowledged."""
    is_acknowledged: bool
    """Whether the answer speaks for all that the call has done: claimWork's only does for the claims that it names."""

    @property
    def left(self) -> Left:
        """Returns all that the continuation depends on: what others can see, and what the client knows."""
        return state(self.world), self.outcome is None, len(self.world.claims)

    def repeat(self) -> None:
        """Sends the call again, to another process: it succeeds where repeats are promised to."""
        self.world.services = self.world.process()
        self.outcome = self.world.simulation.outcomes(self.scenario.act(self.world))[0]
        if self.scenario.is_idempotent:
            assert self.outcome is None, repr(self.outcome)
            assert self.scenario.effect is None or self.scenario.effect(self.world)
            self.is_acknowledged = True
        else:
            assert self.outcome is None or isinstance(self.outcome, ApiError), repr(self.outcome)
        invariants.check(self.world)

    def finish(self) -> None:
        """Handles everything that is due."""
        finish(self.world, is_acknowledged=self.is_acknowledged)


def done(world: World, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of the work, alone in the world."""
    (result,) = world.run(work)
    return result


def finish(world: World, *, is_acknowledged: bool, settles: bool = True, announces: bool = True) -> None:
    """Handles everything that is due, up to the last deadline, with checks on the way. `settles` says that the
    reconciler has nothing to do: one failure is made good by the handlers alone; the index row of a call that was
    refused, and failed to remove it, goes when its band shows nothing older. `announces` says that each resolution has
    its event soon: one that nobody acknowledged, and that takes effect after more than three minutes, may have none
    (design 5)."""
    world.run(world.drain(60))
    invariants.check(world)
    invariants.check_claims_announced(world)
    if announces:
        invariants.check_resolutions_announced(world)
    if is_acknowledged:
        invariants.check_announced(world)
    world.run(world.drain(SETTLING))
    if settles:
        invariants.check_settled(world)
    else:
        invariants.check_handled(world)
    world.run(world.drain(TO_THE_END))
    world.run(world.clean_up())
    invariants.check_finished(world)


def finish_once(world: World, seen: set[str], *, is_acknowledged: bool) -> None:
    """Calls `finish`, unless it was called for a world in the same state, as `seen` notes."""
    left = f"{is_acknowledged} {state(world)} {world.claims} {world.history.states} {world.history.crossings}"
    if left not in seen:
        seen.add(left)
        finish(world, is_acknowledged=is_acknowledged)


def in_memory(*gates: Gate) -> World:
    """Returns a world in which every call's requests are made one after the other."""
    return World(Simulation.scripted([]), *gates)


def attempt(scenario: Scenario, *gates: Gate, bus_is_down: bool = False, open_world: OpenWorld = in_memory) -> Attempt:
    """Prepares the scenario and makes its call once, as the victim."""
    world = open_world(*gates)
    world.run(scenario.prepare(world))
    definition = world.definition().body
    world.fixed = {name: definition[name] for name in ("created", "deadline", "expires")}
    world.topics.is_down = bus_is_down
    outcome = world.simulation.outcomes(world.victim(scenario.act(world)))[0]
    invariants.check(world)
    return Attempt(scenario, world, outcome, is_acknowledged=outcome is None and scenario.is_idempotent)


@dataclass
class Death:
    """A death of the victim at its request of that number (from 1), before it is sent or before its answer is read."""

    number: int
    phase: Phase
    at: Call

    def of(self, scenario: Scenario) -> Attempt:
        """Makes the call, which dies so; what it has left may be an answer."""
        killed = attempt(scenario, Kill(number=self.number, phase=self.phase, process=VICTIM))
        assert killed.outcome is None or isinstance(killed.outcome, Killed), repr(killed.outcome)
        return killed

    @contextmanager
    def named(self) -> Iterator[None]:
        """Adds to a failure inside the context a note that says where the process died."""
        try:
            yield
        except BaseException as failure:
            failure.add_note(f"killed {self.phase.value} request {self.number}: {self.at}")
            raise


@dataclass
class Harmed:
    """A scenario whose call is harmed in one way after the other. If several ways leave the same, only one is
    continued."""

    scenario: Scenario
    finish: Callable[[Attempt], None]
    """Function that handles what is due."""
    one_in: int = 1
    """One in so many ways is tried without `--all`."""
    calls: list[Call] = field(init=False)
    """The requests of the call when nothing is in its way."""
    seen: set[Left] = field(default_factory=set)
    """Outcomes that were continued, after a repeat by the client if the call was not answered."""
    _deaths: list[Death] = field(init=False)
    _dead: dict[Left, Death] = field(default_factory=dict)
    """Outcomes that were continued without a repeat."""

    def __post_init__(self) -> None:
        deaths = Deaths()
        attempt(self.scenario, deaths, open_world=deaths.open_world)
        assert deaths.calls, "the scenario makes requests"
        self.calls, self._deaths = deaths.calls, deaths.found

    def die(self) -> None:
        """Lets the victim die before each of its requests, and before it reads the answer to it; nobody repeats the
        call."""
        for death in some(self._deaths, self.one_in, f"deaths of {self.scenario.name}"):
            with death.named():
                killed = death.of(self.scenario)
                left = killed.left
                if left in self.seen or left in self._dead:
                    continue
                if killed.outcome is None:
                    self.seen.add(left)
                else:
                    self._dead[left] = death
                self.finish(killed)

    def repeat(self) -> None:
        """Repeats each call that has died, unless one that left the same was repeated."""
        for left, death in self._dead.items():
            if left in self.seen:
                continue
            self.seen.add(left)
            with death.named():
                killed = death.of(self.scenario)
                killed.repeat()
                self.finish(killed)


class Deaths:
    """A gate that notes the victim's requests, and the deaths at them which may leave different things. A dead process
    is what it has left, and what was under way: requests that were sent, and what does not wait for the part that has
    died. A death before the first request is none, and one after a read is one before it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.found: list[Death] = []
        self._sent: dict[int, Call] = {}
        """By number: the requests without an answer yet."""
        self._seen: set[object] = set()
        self._world: World | None = None

    def open_world(self, *gates: Gate) -> World:
        """Returns the world that is watched."""
        self._world = world = in_memory(*gates)
        return world

    def __call__(self, call: Call, phase: Phase) -> None:
        if process_name() != VICTIM:
            return
        if phase is Phase.BEFORE:
            number = len(self.calls) + 1
            if number > 1:
                self._note(number, phase, call)
            self.calls.append(call)
            self._sent[number] = call
        else:
            number = next(number for number, each in self._sent.items() if each is call)
            del self._sent[number]
            if call.kind not in READS:
                self._note(number, phase, call)

    def _note(self, number: int, phase: Phase, call: Call) -> None:
        assert self._world is not None
        left = state(self._world), tuple(self._sent), asyncio.current_task()
        if left not in self._seen:
            self._seen.add(left)
            self.found.append(Death(number, phase, call))


def state(world: World) -> str:
    """Returns what others can see of a world: storage, what was published, and the time."""
    return f"{world.memory.state()} {world.topics.messages} {world.clock.elapsed}"


def requests(scenario: Scenario, open_world: OpenWorld = in_memory) -> list[Call]:
    """Returns the requests of the scenario's call when nothing is in its way."""
    unharmed = Kill(process=VICTIM)
    attempt(scenario, unharmed, open_world=open_world)
    assert unharmed.calls, "the scenario makes requests"
    return unharmed.calls
