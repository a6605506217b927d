"""Of all orders of requests, the reduced exploration leaves out none that makes a difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.store.interface import Create, Delete, ReceiptLost, TransactionRefused, Upsert
from tests.parts.twin import MemoryStorage, Simulation, explore
from tests.parts.twin.gate import as_process
from tests.parts.twin.reduction import explore_distinct
from tests.selection import examples

STEPS = ["read a", "read b", "write a", "write b", "create a", "delete b", "range", "put", "take", "move", "look"]
Program = list[str]
Explorer = Callable[[Callable[[Simulation], None]], int]
EXPLORERS: list[Explorer] = [explore_distinct, partial(explore_distinct, in_order=True)]


async def _step(memory: MemoryStorage, step: str, name: str, held: list[Any]) -> object:
    """Makes one request, and returns what its caller learns by it."""
    storage = memory.storage
    word, _, key = step.partition(" ")
    match word:
        case "read":
            row = await storage.tables.get_row("Table", "p", key)
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
            held.append(await storage.queues.put_message("pending-q", name))
        case "take":
            taken = await storage.queues.get_messages("pending-q", hidden_for=60)
            held.extend(message.receipt for message in taken)
            return [message.text for message in taken]
        case "look":
            return [message.text for message in await storage.queues.peek("pending-q", count=32)]
        case "move" if held:
            held.append(await storage.queues.update("pending-q", held.pop(), visible_in=0, text=f"moved by {name}"))
    return None


def _ends(explorer: Explorer, programs: list[Program]) -> tuple[set[str], int]:
    """Returns what the callers may learn and what may be left, in all orders, and the number of runs."""
    ends: set[str] = set()

    def scenario(simulation: Simulation) -> None:
        memory = MemoryStorage(simulation.clock)
        simulation.run(memory.storage.tables.transact("Table", "p", [Create("b", {"by": "nobody"})]))
        simulation.run(memory.storage.queues.put_message("pending-q", "first"))
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
    """The reduced exploration reaches exactly the same ends as the full one, with no more runs."""
    all_ends, all_runs = _ends(explore, programs)
    for explorer in EXPLORERS:
        ends, runs = _ends(explorer, programs)
        assert ends == all_ends
        assert runs <= all_runs


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_what_touches_nothing_in_common_is_run_in_one_order(explorer: Explorer) -> None:
    ends, runs = _ends(explorer, [["write a", "read a", "write a"], ["read b", "write b", "read b"]])
    assert (len(ends), runs) == (1, 1)
