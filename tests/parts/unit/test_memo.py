"""What a process remembers stays bounded, ages, and is read once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from shared.base.memo import Memo, Remembered

TWO = Remembered("two", 2)
AGES = Remembered("ages", 2, fresh=timedelta(seconds=10))


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def test_the_entry_that_was_set_least_recently_goes_first() -> None:
    memo: Memo[str, int] = Memo(TWO)
    memo["a"] = 1
    memo["b"] = 2
    memo["a"] = 3
    memo["c"] = 4
    assert (memo.get("a"), memo.get("b"), memo.get("c"), len(memo)) == (3, None, 4, 2)
    assert list(memo.items()) == [("a", 3), ("c", 4)]


def test_an_entry_is_given_while_it_is_fresh_and_shown_however_old() -> None:
    clock = Clock()
    memo: Memo[str, int] = Memo(AGES, clock)
    memo.put("a", 1, read=clock() - timedelta(seconds=4))
    clock.advance(5.9)
    assert "a" in memo
    clock.advance(0.1)
    assert "a" not in memo
    assert (memo.get("a"), memo.peek("a")) == (None, 1)
    clock.advance(-10.1)
    assert memo.get("a") is None, "an entry from the future says nothing of its age"


async def test_what_is_fresh_is_not_read_again() -> None:
    clock, reads = Clock(), []
    memo: Memo[str, int] = Memo(AGES, clock)

    async def find() -> int:
        clock.advance(3)
        reads.append(1)
        return len(reads)

    assert await asyncio.gather(*(memo.read("a", find) for _ in range(5))) == [1] * 5
    clock.advance(6.9)
    assert await memo.read("a", find) == 1
    clock.advance(0.1)
    assert await memo.read("a", find) == 2, "it is as old as the question that it answered"


async def test_who_asks_after_a_change_is_given_no_earlier_reading() -> None:
    memo: Memo[str, int] = Memo(TWO)
    goes_on = asyncio.Event()

    async def slow() -> int:
        await goes_on.wait()
        return 1

    async def quick() -> int:
        return 2

    before = asyncio.create_task(memo.read("a", slow))
    await asyncio.sleep(0)
    since = memo.changes
    memo.pop("a")
    assert await memo.read("a", quick) == 2
    goes_on.set()
    assert await before == 1
    assert memo.get("a") == 2, "what was read before the change is not kept"
    memo.put("a", 3, since=since)
    assert memo.get("a") == 2
