"""Runs scenarios with something in their way, and checks what comes of it (design 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.base.errors import ApiError
from shared.store.counting import Kind
from tests.simulator import invariants
from tests.simulator.scenarios import Scenario
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Gate, Kill, Killed, Phase

SETTLING = 3600.0
"""Seconds in which orphans grow old enough to be recognised."""
TO_THE_END = 6 * 3600.0
"""Seconds until every deadline has passed."""
OpenWorld = Callable[..., World]
"""Makes an empty world; every request passes the gates that it is given."""
READS = {Kind.TABLE_READ, Kind.QUEUE_PEEK, Kind.QUEUE_LENGTH, Kind.BLOB_READ}
"""Requests that leave everything as it is."""
VICTIM = "victim"
"""The process whose requests are harmed."""


@dataclass
class Attempt:
    """A scenario whose call has been made once."""

    scenario: Scenario
    world: World
    outcome: BaseException | None
    """None when the call was acknowledged."""
    is_acknowledged: bool
    """The answer speaks for all that the call has done: claimWork's speaks for the claims that it names alone."""

    @property
    def state(self) -> str:
        """What others can see of it: storage, what was published, and the time."""
        return f"{self.world.memory.state()} {self.world.topics.messages} {self.world.clock.elapsed}"

    def repeat(self) -> None:
        """The client sends the call again, to another process: it succeeds where repeats are promised to."""
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
        """Everything that is due is handled."""
        finish(self.world, is_acknowledged=self.is_acknowledged)


def finish(world: World, *, is_acknowledged: bool, settles: bool = True) -> None:
    """Everything that is due is handled, up to the last deadline, and checked on the way.

    `settles` says that the reconciler has nothing to do: one failure is made good by the handlers alone; the index
    row of a call that was refused, and failed to remove it, goes when its band shows nothing older.
    """
    world.run(world.drain(60))
    invariants.check(world)
    invariants.check_claims_announced(world)
    invariants.check_resolutions_announced(world)
    if is_acknowledged:
        invariants.check_announced(world)
    world.run(world.drain(SETTLING))
    invariants.check_handled(world)
    if settles:
        invariants.check_settled(world)
    world.run(world.drain(TO_THE_END))
    world.run(world.clean_up())
    invariants.check_finished(world)


def in_memory(*gates: Gate) -> World:
    """A world in which every call's requests are made one after the other."""
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


def killed_at_every_request(scenario: Scenario, finish: Callable[[Attempt], None]) -> None:
    """The victim dies before each of its requests, and before it reads the answer to it; then `finish` handles what is
    due, once with a repeat of the call before it and once without.

    A dead process is what it has left. So of the kill points that leave the same one is gone on from; a death before
    the first request is none, and one after a read is one before it.
    """
    seen = set[str]()
    for number, at in enumerate(requests(scenario), 1):
        for phase in Phase:
            if number == 1 if phase is Phase.BEFORE else at.kind in READS:
                continue
            try:
                killed = _killed(scenario, number, phase)
                if killed.state in seen:
                    continue
                seen.add(killed.state)
                finish(killed)
                repeated = _killed(scenario, number, phase)
                if repeated.outcome is not None:
                    repeated.repeat()
                finish(repeated)
            except BaseException as failure:
                failure.add_note(f"killed {phase.value} request {number}: {at}")
                raise


def _killed(scenario: Scenario, number: int, phase: Phase) -> Attempt:
    killed = attempt(scenario, Kill(number=number, phase=phase, process=VICTIM))
    assert killed.outcome is None or isinstance(killed.outcome, Killed), repr(killed.outcome)
    return killed


def requests(scenario: Scenario, open_world: OpenWorld = in_memory) -> list[Call]:
    """What the scenario's call asks for when nothing is in its way."""
    unharmed = Kill(process=VICTIM)
    attempt(scenario, unharmed, open_world=open_world)
    assert unharmed.calls, "the scenario makes requests"
    return unharmed.calls
