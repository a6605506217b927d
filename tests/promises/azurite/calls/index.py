"""Scenarios that measure calls on the index (design 9)."""

from __future__ import annotations

from datetime import timedelta

from shared.base.ids import new_slugid
from shared.index.rules import IndexEntry
from shared.runtime import utc_now
from shared.store.counting import Operations
from tests.promises.azurite.budget_table import ONE_READ
from tests.promises.azurite.budgets import Bench, budget


def entry(path: str, rank: int = 0) -> IndexEntry:
    now = utc_now()
    return IndexEntry(path=path, task_id=new_slugid(), rank=rank, data={}, expires=now + timedelta(hours=1), at=now)


@budget("insertTask, namespaces known", "insertTask, its namespaces known")
async def insert(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    return await bench.measure(bench.calls.index.insert(entry("bench.v2.b")))


@budget("insertTask, a lower rank", "insertTask … a lower rank")
async def insert_lower(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a", rank=2))
    return await bench.measure(bench.calls.index.insert(entry("bench.v2.a", rank=1)))


@budget(
    "insertTask, 2 new namespaces", "insertTask, its namespaces known", "insertTask … n new namespaces, besides", n=2
)
async def insert_first(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("other.v2.a"))  # the table is there
    return await bench.measure(bench.calls.index.insert(entry("bench.v2.a")))


@budget("findTask", ONE_READ)
async def find_indexed(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    return await bench.measure(bench.calls.index.find("bench.v2.a"))


@budget("findTasksAtIndex, 20 paths", "findTasksAtIndex", n=20)
async def find_many(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    paths = ["bench.v2.a", *(f"bench.v2.absent{number}" for number in range(19))]
    return await bench.measure(bench.calls.index.find_all(paths, 0, 1000))


@budget("listTasks", "listTasks")
async def list_entries(bench: Bench) -> Operations:
    await bench.calls.index.insert(entry("bench.v2.a"))
    return await bench.measure(bench.calls.index.entries("bench.v2", "", 1000))
