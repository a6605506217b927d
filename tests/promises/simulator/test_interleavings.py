"""Calls and handlers that meet, in every order of their requests that makes a difference.

Each order ends in one of the legal ways, the invariants hold at once and after everything that is due was handled,
and each of the legal ways is the end of some order.
"""

from __future__ import annotations

import pytest

from shared.app.services import Services
from shared.base.errors import ApiError
from shared.base.remembered import BANDS
from shared.queue.tasks.rules import Task, Worker
from tests.parts.twin.driver import Simulation, sample
from tests.parts.twin.gate import as_process
from tests.parts.twin.reduction import explore_distinct
from tests.promises.simulator import invariants
from tests.promises.simulator.parties import WORKERS
from tests.promises.simulator.races import RACES, Race
from tests.promises.simulator.running import finish_once
from tests.promises.simulator.world import POOL, World

SEEDS, SEEDS_IN_LARGE = 2, 60
SEEDS_OF_WIDE, SEEDS_OF_WIDE_IN_LARGE = 5, 300
NARROW = [race for race in RACES if not race.is_wide]
LONG = {"a dependency's resolution, twice", "the reconciler, a claim"}
"""Races with so many orders between the calls that only `./dev test --all` takes them all."""
LONG_OF_ALL_REQUESTS = {
    *LONG,
    "a dependency's completion, followed by the same process, rerun the dependency",
    "a new dependent, its dependency's completion, followed by the same process",
    "a new dependent that knows its dependency, all that its completion leads to",
    "a new dependent that knows its dependency, its resolution",
    "a new dependent, all that its dependency's completion leads to",
    "a new dependent of another group, all that its dependency's completion leads to",
    "change the priority twice",
    "the last task of a group, another one",
    "the reconciler, a claim of what just comes back",
    "two resolutions of one dependent's dependencies",
    "a dependency's resolution, cancel the dependent",
    "a dependency's resolution, rerun the dependency",
    "a dependency's resolution, schedule the dependent",
    "a new dependent of another group, its dependency's resolution",
    "a new dependent, its dependency's resolution",
    "the last two tasks of a group",
}
"""Races with so many orders of all requests that no test takes them all; random orders are samples of them."""


@pytest.mark.parametrize(
    "race",
    [pytest.param(race, marks=[pytest.mark.large] if race.name in LONG else [], id=race.name) for race in NARROW],
)
def test_every_order_ends_legally(race: Race) -> None:
    """All orders between the calls that make a difference end legally."""
    ends: set[str] = set()
    seen: set[str] = set()
    explore_distinct(lambda simulation: ends.add(run(race, simulation, seen=seen)), in_order=True)
    assert ends == race.legal


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_random_orders_end_legally(race: Race) -> None:
    """Random orders end legally in which a call's own requests and answers overtake each other as well."""
    sample(lambda simulation: _is_legal(race, simulation), range(_seeds(race)), yield_after=True)


@pytest.mark.large
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "race", [race for race in NARROW if race.name not in LONG_OF_ALL_REQUESTS], ids=lambda race: race.name
)
def test_every_order_of_all_requests_ends_legally(race: Race) -> None:
    """All orders that make a difference end legally, also of requests that one call sends side by side."""
    ends: set[str] = set()
    explore_distinct(lambda simulation: ends.add(run(race, simulation)), limit=100_000)
    assert ends == race.legal


@pytest.mark.large
@pytest.mark.timeout(900)
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_many_random_orders_end_legally(race: Race) -> None:
    """Many random orders end legally."""
    most = SEEDS_OF_WIDE_IN_LARGE if race.is_wide else SEEDS_IN_LARGE
    sample(lambda simulation: _is_legal(race, simulation), range(_seeds(race), most), yield_after=True)


def _seeds(race: Race) -> int:
    return SEEDS_OF_WIDE if race.is_wide or race.name in LONG else SEEDS


def _is_about_groups(race: Race) -> bool:
    return "group" in race.name or "resolution" in race.name


@pytest.mark.parametrize("race", [race for race in RACES if _is_about_groups(race)], ids=lambda race: race.name)
def test_random_orders_in_one_process_end_legally(race: Race) -> None:
    """Random orders in one process end legally, in which concurrent checks of a group share what they read."""
    sample(lambda simulation: _is_legal(race, simulation, in_one=True), range(SEEDS), yield_after=True)


def _is_legal(race: Race, simulation: Simulation, *, in_one: bool = False) -> None:
    assert run(race, simulation, is_warm=False, in_one=in_one) in race.legal


async def _meet_workers(services: Services) -> None:
    for worker_id in WORKERS:
        worker = Worker(worker_group="group", worker_id=worker_id)
        assert await services.work.claim_work(POOL, worker, 1, 0.4) == []


async def _know_workers(services: Services) -> None:
    """Reads the rows that exist once all processes have noted their waits."""
    for worker_id in WORKERS:
        await services.workers.rows.read_worker(POOL, "group", worker_id)


def run(
    race: Race, simulation: Simulation, *, is_warm: bool = True, in_one: bool = False, seen: set[str] | None = None
) -> str:
    """Runs one order to its end; returns how it looked when the calls had answered. What follows is done by other
    processes than the calls': of the orders that leave the same, which `seen` notes, one is continued. Processes that
    are warm know the pool, the workers and the tasks already: fewer requests, fewer orders."""
    world = World(simulation, is_ordered=False)
    processes = [world.process()] * len(race.parties) if in_one else [world.process() for _ in race.parties]
    if is_warm:
        world.run(*(_meet_workers(services) for services in processes))
        world.run(*map(_know_workers, processes))
        world.clock.advance(BANDS.fresh.total_seconds())
    world.run(race.prepare(world))
    if is_warm:
        world.run(*(services.stores.pools.queues.bands(POOL) for services in processes))
        world.run(*map(world.remember, processes))
    definition = world.definition().body
    world.fixed = {name: definition[name] for name in ("created", "deadline", "expires")}
    world.is_ordered = True
    parties = [party(world, services) for party, services in zip(race.parties, processes, strict=True)]
    outcomes = simulation.outcomes(*(as_process(str(number), party) for number, party in enumerate(parties)))
    world.is_ordered = False
    end = f"{', '.join(map(_answer, outcomes))}: {_runs(world.tasks().get(race.task_id))}"
    invariants.check(world)
    is_acknowledged = not any(isinstance(outcome, ApiError) for outcome in outcomes)
    finish_once(world, set() if seen is None else seen, is_acknowledged=is_acknowledged)
    return end


def _answer(outcome: object) -> str:
    if isinstance(outcome, ApiError):
        return str(outcome.status)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome if isinstance(outcome, str) else "ok"


def _runs(task: Task | None) -> str:
    if task is None:
        return "none"
    runs = [f"{run.state} {run.reason_resolved}" if run.reason_resolved else str(run.state) for run in task.runs]
    return ", ".join(runs) or "unscheduled"
