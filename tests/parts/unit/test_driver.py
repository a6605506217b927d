"""The driver of simulations: virtual time, orders, reproducibility, faults."""

import asyncio

import pytest

from shared.store.counting import Kind, counting
from shared.store.interface import Create, Merge, StorageUnavailable, TransactionRefused
from tests.parts.twin import Fail, Kill, MemoryStorage, Phase, Resent, Simulation, as_process, chain, explore


async def _increment(memory: MemoryStorage, safely: bool) -> None:
    """Reads a number, adds one, and writes it: the classic race."""
    tables = memory.storage.tables
    while True:
        row = await tables.get_row("Counters", "p", "k")
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


def _trace(seed: int) -> list[tuple[float, str]]:
    """Returns what happens when, in a run full of asyncio's ways to wait."""
    simulation = Simulation.seeded(seed)
    memory = MemoryStorage(simulation.clock, gate=simulation.gate)
    trace: list[tuple[float, str]] = []

    async def put(name: str) -> None:
        for number in range(3):
            await memory.storage.queues.put_message("shared", f"{name} {number}")
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


async def _three_puts(memory: MemoryStorage) -> str:
    await memory.storage.queues.put_message("abc", "1")
    await asyncio.gather(memory.storage.queues.put_message("abc", "2"), memory.storage.queues.put_message("abc", "3"))
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


@pytest.mark.parametrize(("phase", "expected"), [(Phase.BEFORE, 0), (Phase.AFTER, 1)])
async def test_a_failure_before_or_after_the_effect(twin: MemoryStorage, phase: Phase, expected: int) -> None:
    twin.gate = Fail(lambda call: call.kind is Kind.QUEUE_PUT, phase)
    with pytest.raises(StorageUnavailable):
        await twin.storage.queues.put_message("abc", "1")
    assert len(twin.queues.messages("abc")) == expected
    await twin.storage.queues.put_message("abc", "2")
    assert len(twin.queues.messages("abc")) == expected + 1


async def test_a_resent_insert_is_refused_by_its_own_effect(twin: MemoryStorage) -> None:
    twin.gate = Fail(lambda call: True, Phase.AFTER, error=Resent)
    with counting() as operations, pytest.raises(TransactionRefused):
        await twin.storage.tables.transact("Tasks", "p", [Create("k", {})])
    assert (operations.total, operations.retries) == (1, 1)
    assert [row.key for row in twin.tables.rows("Tasks")] == ["k"]
