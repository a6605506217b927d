"""Of all orders of requests, the reduced exploration leaves out none that makes a difference."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.store.counting import Kind
from shared.store.interface import Create, Delete, Merge, ReceiptLost, TransactionRefused, Upsert
from tests.selection import examples
from tests.twin import Call, MemoryStorage, Simulation, explore
from tests.twin.driver import TooManyOrders
from tests.twin.gate import as_process
from tests.twin.reduction import ReducedSimulation, are_independent, explore_distinct

STEPS = ["read a", "read b", "write a", "write b", "create a", "delete b", "range", "put", "take", "move", "look"]
Program = list[str]
Explorer = Callable[[Callable[[Simulation], None]], int]
EXPLORERS: list[Explorer] = [explore_distinct, partial(explore_distinct, in_order=True)]


async def _step(memory: MemoryStorage, step: str, name: str, held: list[Any]) -> object:
    """One request and what its caller learns by it."""
    storage = memory.storage
    word, _, key = step.partition(" ")
    match word:
        case "read":
            row = await storage.tables.get("Table", "p", key)
            return None if row is None else dict(row.values)
        case "range":
            page = await storage.tables.query("Table", "p", start="a", end="z")
            return [(row.key, dict(row.values)) for row in page.rows]
        case "write":
            await storage.tables.transact("Table", "p", [Upsert(key, {"by": name})])
        case "create":
            await storage.tables.transact("Table", "p", [Create(key, {"by": name})])
        case "delete":
            await storage.tables.transact("Table", "p", [Delete(key)])
        case "put":
            held.append(await storage.queues.put("pending-q", name))
        case "take":
            taken = await storage.queues.get("pending-q", hidden_for=60)
            held.extend(message.receipt for message in taken)
            return [message.text for message in taken]
        case "look":
            return [message.text for message in await storage.queues.peek("pending-q", count=32)]
        case "move" if held:
            held.append(await storage.queues.update("pending-q", held.pop(), visible_in=0, text=f"moved by {name}"))
    return None


def _ends(explorer: Explorer, programs: list[Program]) -> tuple[set[str], int]:
    """What the callers may learn, and what may be left, in all orders."""
    ends: set[str] = set()

    def scenario(simulation: Simulation) -> None:
        memory = MemoryStorage(simulation.clock)
        simulation.run(memory.storage.tables.transact("Table", "p", [Create("b", {"by": "nobody"})]))
        simulation.run(memory.storage.queues.put("pending-q", "first"))
        memory.gate = simulation.gate
        learned: dict[str, list[object]] = {str(number): [] for number in range(len(programs))}

        async def run(name: str, program: Program) -> None:
            held: list[Any] = []
            for step in program:
                try:
                    learned[name].append(await _step(memory, step, name, held))
                except (TransactionRefused, ReceiptLost) as refused:
                    learned[name].append(str(refused))

        simulation.run(*(as_process(name, run(name, program)) for name, program in zip(learned, programs, strict=True)))
        rows = [(row.key, dict(row.values)) for row in memory.tables.rows("Table")]
        messages = sorted((message.text, message.visible) for message in memory.queues.messages("pending-q"))
        ends.add(repr((learned, rows, messages)))

    return ends, explorer(scenario)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), min_size=2, max_size=2))
def test_reduced_orders_reach_every_outcome(programs: list[Program]) -> None:
    """Exactly the same ends, with no more runs."""
    all_ends, all_runs = _ends(explore, programs)
    for explorer in EXPLORERS:
        ends, runs = _ends(explorer, programs)
        assert ends == all_ends
        assert runs <= all_runs


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2), min_size=3, max_size=3))
def test_every_end_of_three_is_reached(programs: list[Program]) -> None:
    """The same with a third caller."""
    all_ends, _ = _ends(explore, programs)
    assert [_ends(explorer, programs)[0] == all_ends for explorer in EXPLORERS] == [True, True]


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_what_touches_nothing_in_common_is_run_in_one_order(explorer: Explorer) -> None:
    ends, runs = _ends(explorer, [["write a", "read a", "write a"], ["read b", "write b", "read b"]])
    assert (len(ends), runs) == (1, 1)


def test_no_order_between_processes_is_begun_in_vain() -> None:
    programs = [["read b", "take", "write a"], ["read a", "write b", "take"], ["write b", "create a", "put"]]
    begun = list[Simulation]()

    def explorer(scenario: Callable[[Simulation], None]) -> int:
        def noted(simulation: Simulation) -> None:
            begun.append(simulation)
            scenario(simulation)

        return explore_distinct(noted, in_order=True)

    assert _ends(explorer, programs)[1] == len(begun) > 10


@pytest.mark.parametrize("in_order", [False, True])
def test_a_failure_says_how_to_repeat_it(in_order: bool) -> None:
    def lost_update(simulation: Simulation) -> None:
        memory = MemoryStorage(simulation.clock)
        simulation.run(memory.storage.tables.transact("Table", "p", [Create("n", {"n": 0})]))
        memory.gate = simulation.gate

        async def increment() -> None:
            row = await memory.storage.tables.get("Table", "p", "n")
            assert row is not None
            await memory.storage.tables.transact("Table", "p", [Merge("n", {"n": int(row.values["n"]) + 1})])

        simulation.run(*(as_process(name, increment()) for name in "ab"))
        assert memory.tables.rows("Table")[0].values["n"] == 2

    with pytest.raises(AssertionError) as caught:
        explore_distinct(lost_update, in_order=in_order)
    script = [int(word) for word in re.findall(r"\d+", caught.value.__notes__[0].partition("[")[2].partition("]")[0])]
    with pytest.raises(AssertionError):
        lost_update(ReducedSimulation(script, in_order=in_order))


def test_the_limit_holds() -> None:
    with pytest.raises(TooManyOrders):
        _ends(lambda scenario: explore_distinct(scenario, limit=2), [["write a"] * 3, ["write a"] * 3])


def test_independence_is_mutual() -> None:
    calls = [
        Call(kind, target, subject, names)
        for kind, target, subject, names in itertools.product(
            (Kind.TABLE_READ, Kind.TABLE_WRITE, Kind.QUEUE_PUT, Kind.QUEUE_GET, Kind.QUEUE_DELETE, Kind.QUEUE_PEEK),
            ("Table", "pending-q"),
            ("", "p"),
            ((), ("a",), ("a", "b")),
        )
    ]
    for one, other in itertools.product(calls, calls):
        assert are_independent(one, other) == are_independent(other, one)
