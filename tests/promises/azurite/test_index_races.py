"""Races of the index on Azurite: who wins a path does not depend on who comes first."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from shared.base.concurrency import together
from shared.base.ids import new_slugid
from shared.index.rules import IndexEntry
from shared.runtime import utc_now
from shared.store.interface import Storage
from tests.promises.azurite.budgets import Bench

PATH = "race.v2.latest"
NOW = utc_now()


def entry(rank: int, seconds: float = 0, path: str = PATH) -> IndexEntry:
    expires = NOW + timedelta(days=1)
    return IndexEntry(
        path=path, task_id=new_slugid(), rank=rank, data={}, expires=expires, at=NOW + timedelta(seconds=seconds)
    )


@pytest.fixture
def bench(azure_storage: Storage) -> Bench:
    return Bench(azure_storage)


@pytest.mark.parametrize("is_new", [True, False], ids=["new path", "known path"])
async def test_the_highest_rank_wins_in_any_order_of_arrival(bench: Bench, is_new: bool) -> None:
    for turn in range(5):
        path = f"{PATH}{turn}"
        if not is_new:
            await bench.calls.index.insert(entry(-9, path=path))
        processes = itertools.cycle((bench.calls, bench.handlers))
        entries = [entry(rank, path=path) for rank in (3, 1, 4, 2)]
        await together(*(services.index.insert(one) for services, one in zip(processes, entries, strict=False)))
        assert (await bench.calls.index.find(path)).task_id == entries[2].task_id


async def test_of_equal_ranks_the_later_wins_in_any_order_of_arrival(bench: Bench) -> None:
    for turn in range(5):
        path = f"{PATH}{turn}"
        entries = [entry(0, seconds, path) for seconds in (2, 0, 3, 1)]
        processes = itertools.cycle((bench.calls, bench.handlers))
        await together(*(services.index.insert(one) for services, one in zip(processes, entries, strict=False)))
        assert (await bench.handlers.index.find(path)).task_id == entries[2].task_id


async def test_a_deletion_beside_an_insertion_leaves_one_of_both(bench: Bench) -> None:
    await bench.calls.index.insert(entry(0))
    new = entry(1)
    await asyncio.gather(bench.calls.index.insert(new), bench.handlers.index.remove(PATH))
    page, _ = await bench.calls.index.entries("race.v2", "", 10)
    assert [one.task_id for one in page] in ([], [new.task_id])
