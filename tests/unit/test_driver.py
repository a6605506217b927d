"""The driver of simulations: virtual time, orders, reproducibility, faults."""

import ast
import asyncio
import random

import pytest

from shared.store.counting import Kind, counting
from shared.store.interface import Create, Merge, StorageUnavailable, TransactionRefused, Upsert
from tests.twin import (
    Call,
    Deadlock,
    Fail,
    Kill,
    Killed,
    MemoryStorage,
    Phase,
    RandomFaults,
    Resent,
    Simulation,
    VirtualClock,
    as_process,
    chain,
    explore,
    sample,
)
from tests.twin.driver import TooManyOrders


async def _increment(memory: MemoryStorage, safely: bool) -> None:
    """The classic race: read, add one, write."""
    tables = memory.storage.tables
    while True:
        row = await tables.get("Counters", "p", "k")
        assert row is not None
        value = row.values["n"]
        assert isinstance(value, int)
        try:
            await tables.transact("Counters", "p", [Merge("k", {"n": value + 1}, etag=row.etag if safely else None)])
            return
        except TransactionRefused:
            continue


def _race(simulation: Simulation, safely: bool) -> int:
    memory = MemoryStorage(simulation.clock)
    simulation.run(memory.tables.transact("Counters", "p", [Create("k", {"n": 0})]))
    memory.gate = simulation.gate
    simulation.run(_increment(memory, safely), _increment(memory, safely))
    (row,) = memory.tables.rows("Counters")
    value = row.values["n"]
    assert isinstance(value, int)
    return value


def test_explore_finds_the_lost_update() -> None:
    results = []
    orders = explore(lambda simulation: results.append(_race(simulation, safely=False)))
    assert orders == 6  # two coroutines of two requests each: 4 over 2
    assert sorted(results) == [1, 1, 1, 1, 2, 2]


def test_explore_proves_the_safe_way() -> None:
    results = []
    orders = explore(lambda simulation: results.append(_race(simulation, safely=True)))
    assert orders == 6  # the loser tries again alone
    assert set(results) == {2}


def test_explore_says_how_to_repeat_a_failure() -> None:
    def scenario(simulation: Simulation) -> None:
        assert _race(simulation, safely=False) == 2

    with pytest.raises(AssertionError) as caught:
        explore(scenario)
    (note,) = caught.value.__notes__
    script = ast.literal_eval(note.removeprefix("order: Simulation.scripted(").removesuffix(")"))
    assert _race(Simulation.scripted(script), safely=False) == 1


def test_explore_stops_at_its_limit() -> None:
    results = []
    with pytest.raises(TooManyOrders):
        explore(lambda simulation: results.append(_race(simulation, safely=True)), limit=3)
    assert len(results) == 3


def test_sample_names_the_seed() -> None:
    def scenario(simulation: Simulation) -> None:
        assert _race(simulation, safely=False) == 2

    with pytest.raises(AssertionError) as caught:
        sample(scenario, range(50))
    (note,) = caught.value.__notes__
    seed = int(note.removeprefix("order: Simulation.seeded(").removesuffix(")"))
    assert _race(Simulation.seeded(seed), safely=False) == 1


def _trace(seed: int) -> list[tuple[float, str]]:
    """What happens when, in a run full of asyncio's ways to wait."""
    simulation = Simulation.seeded(seed)
    memory = MemoryStorage(simulation.clock, gate=simulation.gate)
    trace: list[tuple[float, str]] = []

    async def put(name: str) -> None:
        for number in range(3):
            await memory.storage.queues.put("shared", f"{name} {number}")
            trace.append((simulation.clock.elapsed, f"{name} {number}"))

    async def family() -> None:
        await asyncio.gather(*(put(f"child {number}") for number in range(3)))
        async with asyncio.TaskGroup() as group:
            group.create_task(put("grandchild"))
            group.create_task(simulation.clock.sleep(7))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 3)
        trace.append((simulation.clock.elapsed, "family done"))

    simulation.run(family(), put("loner"))
    return trace


def test_the_same_seed_gives_the_same_run() -> None:
    assert _trace(1) == _trace(1)
    assert len({tuple(_trace(seed)) for seed in range(10)}) > 1


def test_time_goes_on_only_when_all_wait() -> None:
    trace = _trace(2)
    assert trace[-1] == (10.0, "family done")
    assert all(moment == 0.0 for moment, _ in trace[:-1])


def test_long_sleeps_take_no_time_and_end_exactly() -> None:
    simulation = Simulation.seeded(0)
    start = simulation.clock.now()

    async def sleeper(seconds: float) -> float:
        await simulation.clock.sleep(seconds)
        return (simulation.clock.now() - start).total_seconds()

    delays = [0.1, 0.3, 1.7, 20.0, 7 * 24 * 3600.0]
    assert simulation.run(*map(sleeper, delays)) == delays


def test_a_deadlock_is_reported() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        Simulation.seeded(0).run(stuck())


def test_an_error_of_a_simulated_call_is_raised() -> None:
    async def broken() -> None:
        raise KeyError("x")

    async def fine() -> int:
        return 5

    with pytest.raises(KeyError):
        Simulation.seeded(0).run(fine(), broken())
    answer, error = Simulation.seeded(0).outcomes(fine(), broken())
    assert answer == 5
    assert isinstance(error, KeyError)


def test_the_error_of_a_forgotten_task_comes_out() -> None:
    async def broken() -> None:
        raise KeyError("forgotten")

    async def careless() -> None:
        task = asyncio.create_task(broken())
        await asyncio.sleep(1)
        del task

    with pytest.raises(KeyError):
        Simulation.seeded(0).run(careless())


def test_answers_can_be_points_of_choice_too() -> None:
    def scenario(simulation: Simulation) -> None:
        memory = MemoryStorage(simulation.clock, gate=simulation.gate)
        simulation.run(memory.queues.put("abc", "a"), memory.queues.put("abc", "b"))

    assert explore(scenario) == 2
    assert explore(scenario, yield_after=True) == 6


def test_rounds_tell_the_exact_depth() -> None:
    simulation = Simulation.rounds()
    memory = MemoryStorage(simulation.clock, gate=simulation.gate)

    async def put(times: int, late: int) -> None:
        for _ in range(late):
            await asyncio.sleep(0)
        for _ in range(times):
            await memory.storage.queues.put("abc", "x")

    async def call() -> tuple[int, int]:
        with counting() as operations:
            await asyncio.gather(put(3, late=0), put(1, late=20), asyncio.gather(put(2, late=3), put(2, late=0)))
            await put(1, late=0)
        return operations.total, operations.depth

    assert simulation.run(call()) == [(9, 4)]


async def _three_puts(memory: MemoryStorage) -> str:
    await memory.storage.queues.put("abc", "1")
    await asyncio.gather(memory.storage.queues.put("abc", "2"), memory.storage.queues.put("abc", "3"))
    return "done"


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_kill_takes_the_whole_process(number: int, phase: Phase) -> None:
    simulation = Simulation.seeded(number)
    kill = Kill(number, phase, process="victim")
    memory = MemoryStorage(simulation.clock, gate=chain(simulation.gate, kill))
    victim, other = simulation.run(as_process("victim", _three_puts(memory)), _three_puts(memory))
    assert victim is None
    assert other == "done"
    puts = len(memory.queues.messages("abc")) - 3
    if phase is Phase.BEFORE:
        assert puts <= number - 1
    else:
        assert puts >= (1 if number == 1 else 2)


def test_a_kill_without_a_number_only_counts() -> None:
    simulation = Simulation.seeded(0)
    kill = Kill()
    memory = MemoryStorage(simulation.clock, gate=kill)
    assert simulation.run(_three_puts(memory)) == ["done"]
    assert kill.calls == [Call(Kind.QUEUE_PUT, "abc")] * 3


async def test_killed_is_no_exception(twin: MemoryStorage) -> None:
    twin.gate = Kill(1, Phase.AFTER)
    with pytest.raises(Killed):
        try:
            await twin.storage.queues.put("abc", "1")
        except Exception:
            pytest.fail("the dead do not clean up")
    assert len(twin.queues.messages("abc")) == 1


@pytest.mark.parametrize(("phase", "expected"), [(Phase.BEFORE, 0), (Phase.AFTER, 1)])
async def test_a_failure_before_or_after_the_effect(twin: MemoryStorage, phase: Phase, expected: int) -> None:
    twin.gate = Fail(lambda call: call.kind is Kind.QUEUE_PUT, phase)
    with pytest.raises(StorageUnavailable):
        await twin.storage.queues.put("abc", "1")
    assert len(twin.queues.messages("abc")) == expected
    await twin.storage.queues.put("abc", "2")
    assert len(twin.queues.messages("abc")) == expected + 1


async def test_a_resent_insert_is_refused_by_its_own_effect(twin: MemoryStorage) -> None:
    twin.gate = Fail(lambda call: True, Phase.AFTER, error=Resent)
    with counting() as operations, pytest.raises(TransactionRefused):
        await twin.storage.tables.transact("Tasks", "p", [Create("k", {})])
    assert (operations.total, operations.retries) == (1, 1)
    assert [row.key for row in twin.tables.rows("Tasks")] == ["k"]


def test_random_faults_do_all_they_can() -> None:
    simulation = Simulation.seeded(3)
    faults = RandomFaults(
        random.Random(3), refused=0.2, lost=0.2, resent=0.2, delayed=0.5, delay=2.0, sleep=simulation.clock.sleep
    )
    memory = MemoryStorage(simulation.clock, gate=faults)

    async def work() -> tuple[int, int]:
        failed = 0
        with counting() as operations:
            for number in range(100):
                try:
                    await memory.storage.tables.transact("Tasks", "p", [Upsert(str(number), {})])
                except StorageUnavailable:
                    failed += 1
        return failed, operations.retries

    ((failed, resent),) = simulation.run(work())
    assert 20 <= failed <= 60
    assert resent > 5
    assert len(memory.tables.rows("Tasks")) > 100 - failed  # some failed after the effect
    assert simulation.clock.elapsed > 50


async def test_a_clock_outside_a_simulation_jumps() -> None:
    clock = VirtualClock()
    before = clock.now()
    await clock.sleep(3600)
    assert (clock.now() - before).total_seconds() == 3600
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)
