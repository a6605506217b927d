"""Each write of every call and handler takes effect late: with nothing beside it, beside other calls, after the end.

The client of such a request has given up, or sent it or its call again; the service's own timers have gone on, too.
What comes late must be refused, or harmless: the invariants hold in the end, and every group is announced (design 7).
The same holds for a process that freezes before a write, and goes on or dies when everybody else has finished.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import product
from typing import cast

import pytest

from shared.base.errors import ApiError
from shared.base.protocol import ORPHAN_AFTER
from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import as_process
from tests.promises.simulator import invariants
from tests.promises.simulator.company import COMPANY, interfere
from tests.promises.simulator.daily import todays_chance
from tests.promises.simulator.late import (
    TOOK_EFFECT,
    End,
    Frozen,
    How,
    LateRequest,
    Waking,
    everything_else_ends,
    refusable,
    the_last_task_ends,
)
from tests.promises.simulator.running import TO_THE_END, VICTIM, finish
from tests.promises.simulator.scenarios import REFUSED, SCENARIOS, Scenario
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import World

SAMPLE = 20
"""Number of cases of each kind in the default run."""
MOST = 200
"""The most cases of each kind and scenario in a run of all tests."""
HOWS: tuple[How, ...] = ("lost", "doubled")
WAKINGS: tuple[Waking, ...] = ("goes on", "dies", "dies alone")
ENDS: tuple[End, ...] = ("report", "cancel")
LATE = (0.0, 10.0, 60.0, 130.0, 400.0)
"""Seconds until a late request takes effect: at once, within a call's time, and beyond all limits of protocol.py."""
LATE_AFTER_THE_END = (0.0, 100.0)
ALONE = ""
KNOWS_IT = "createTask of a dependent that knows it"
"""Name of a party of the company, which is left out if its task does not exist."""
FREEZE = timedelta(minutes=5)
"""Time by which a message that a frozen process puts may be visible later than usual."""


def _world(scenario: Scenario, gate: LateRequest | Frozen) -> World:
    world = World(Simulation.scripted([]), gate)
    if isinstance(gate, LateRequest):
        gate.world = world
    else:
        world.is_ordered = False
    world.run(scenario.prepare(world))
    definition = world.definition().body
    world.fixed = {name: definition[name] for name in ("created", "deadline", "expires")}
    return world


def _writes(scenario: Scenario) -> int:
    """Returns how many writes the scenario's call makes when nothing is in its way."""
    gate = LateRequest(0)
    world = _world(scenario, gate)
    assert world.simulation.outcomes(world.victim(scenario.act(world))) == [None]
    assert gate.calls, "the scenario writes"
    return len(gate.calls)


def _once_more(scenario: Scenario, world: World) -> BaseException | None:
    world.services = world.process()
    (outcome,) = world.simulation.outcomes(scenario.act(world))
    assert outcome is None or isinstance(outcome, BaseException)
    return outcome


def late(scenario: Scenario, number: int, how: How, after: float, repeat: bool, company: str) -> None:
    """Lets the request take effect `after` seconds after the call, the company's calls and the repeat."""
    gate = LateRequest(number, how)
    world = _world(scenario, gate)
    outcome = world.simulation.outcomes(world.victim(scenario.act(world)))[0]
    assert outcome is None or isinstance(outcome, (ApiError, StorageUnavailable)), repr(outcome)
    is_applicable = company != KNOWS_IT or A in world.tasks()
    if company and is_applicable:
        world.run(interfere(COMPANY[company], world))
    if repeat:
        repeated = _once_more(scenario, world)
        outcome = None if outcome is None else repeated
    world.run(world.drain(after))
    is_birth = gate.hit is not None and keys.TASK_DEFINITION in gate.hit.keys
    gate.land()
    if is_birth and after > ORPHAN_AFTER.total_seconds() and gate.outcome == TOOK_EFFECT:
        world.run(world.drain(TO_THE_END))  # its rows may have gone as orphans: it ends at its deadline
        assert all(task.is_resolved for task in world.tasks().values())
        return
    invariants.check(world)
    is_acknowledged = outcome is None and scenario.is_idempotent
    finish(world, is_acknowledged=is_acknowledged, settles=False, announces=after <= 180)


def late_after_the_end(scenario: Scenario, number: int, how: How, after: float, repeat: bool, end: End) -> None:
    """Lets the request take effect when all tasks but one more of the group have ended; then that one ends, too."""
    gate = LateRequest(number, how)
    world = _world(scenario, gate)
    world.simulation.outcomes(world.victim(scenario.act(world)))
    if repeat:
        _once_more(scenario, world)
    world.run(everything_else_ends(world, end, after))
    gate.land()
    world.run(the_last_task_ends(world))
    finish(world, is_acknowledged=False, settles=False)


def frozen(scenario: Scenario, number: int, waking: Waking, after: float, end: End) -> None:
    """Lets the client repeat the call elsewhere and all end, before the frozen process wakes up."""
    gate = Frozen(number, waking)
    world = _world(scenario, gate)

    async def story() -> None:
        asleep, elsewhere = world.services, world.process()

        async def act() -> None:
            world.services = asleep
            await scenario.act(world)

        victim = asyncio.ensure_future(as_process(VICTIM, act()))
        reached = asyncio.ensure_future(gate.reached.wait())
        await asyncio.wait([victim, reached], return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        world.services = elsewhere
        await refusable(scenario.act(world))
        await everything_else_ends(world, end, after)
        gate.released.set()
        await asyncio.wait([victim])
        victim.exception()
        await the_last_task_ends(world)

    world.slack = FREEZE
    world.run(story())
    finish(world, is_acknowledged=False, settles=False)


EITHER = (False, True)
KINDS: Mapping[str, tuple[Callable[..., None], Sequence[Sequence[object]]]] = {
    "alone": (late, (HOWS, LATE, EITHER, (ALONE,))),
    "in company": (late, (HOWS, LATE, EITHER, tuple(name for name in COMPANY if "rtifact" not in name))),
    "after the end": (late_after_the_end, (HOWS, LATE_AFTER_THE_END, EITHER, ENDS)),
    "frozen": (frozen, (WAKINGS, LATE_AFTER_THE_END, ENDS)),
}
"""By kind, the function that runs a case of a scenario's write, and all values of its further arguments."""


def _run(kind: str, scenario: Scenario, number: int, arguments: Sequence[object]) -> None:
    try:
        KINDS[kind][0](scenario, number, *arguments)
    except BaseException as failure:
        failure.add_note(f"{scenario.name}, write {number} {kind}: {arguments}")
        raise


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_late_is_harmless_by_chance(kind: str) -> None:
    """A sample of cases of late requests, the same one each time, is harmless."""
    chance = random.Random(f"late requests, {kind}")
    for _ in range(SAMPLE):
        scenario = chance.choice(SCENARIOS)
        _run(kind, scenario, chance.randint(1, _writes(scenario)), [chance.choice(each) for each in KINDS[kind][1]])


@pytest.mark.parametrize("scenario", REFUSED, ids=lambda scenario: scenario.name)
def test_what_comes_after_it_was_rolled_back_is_harmless(scenario: Scenario) -> None:
    """Every write of a call that is refused is harmless if it takes effect as late as it may."""
    for number, how, repeat in product(range(1, _writes(scenario) + 1), HOWS, EITHER):
        _run("alone", scenario, number, (how, LATE[-1], repeat, ALONE))


@pytest.mark.parametrize(
    ("scenario", "kind", "number", "arguments"),
    [
        # The deadline message, left by a resolved message that has scheduled the dependent, announces no run again.
        ("create_waiting_for_a_rerun", "after the end", 4, ("lost", 0.0, False, "report")),
        # A call that has taken longer than it waits, for a message that led to no claim, ends.
        ("exhaust_by_claim", "alone", 7, ("doubled", 400.0, False, ALONE)),
    ],
)
def test_what_was_harmful_once(scenario: str, kind: str, number: int, arguments: Sequence[object]) -> None:
    _run(kind, next(each for each in SCENARIOS if each.name == scenario), number, arguments)


@pytest.mark.large
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", [*SCENARIOS, *REFUSED], ids=lambda scenario: scenario.name)
def test_what_comes_late_is_harmless(scenario: Scenario, kind: str) -> None:
    """All cases of late requests are harmless; of the company's, which are many, a part that changes every day."""
    cases = list(product(range(1, _writes(scenario) + 1), *KINDS[kind][1]))
    if len(cases) > MOST:
        cases = todays_chance(f"late requests, {scenario.name}").sample(cases, MOST)
    for number, *arguments in cases:
        _run(kind, scenario, cast("int", number), arguments)
