"""Shares in what a process has too little of: they take turns, and the largest gives way."""

from __future__ import annotations

import asyncio
from functools import partial

from shared.base.errors import ServiceUnavailable
from shared.base.memory import Memory
from shared.base.shares import CHECKING, Place, Room, Scarce

FLOOD, VICTIM = "flood", "victim"
refusal = partial(ServiceUnavailable, "too many")


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def scarce(most: int, waiting: int, reserve: int = 0) -> Scarce:
    return Scarce(most, Room(waiting), refusal, reserve=reserve)


def begin(scarce: Scarce, share: str, units: int = 1) -> tuple[Place, asyncio.Task[None]]:
    place = Place(units=units, share=share)
    task = asyncio.create_task(scarce.take(place))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return place, task


async def test_a_reserve_is_left_to_who_holds_nothing() -> None:
    lists = scarce(8, 4, reserve=2)
    flood = [begin(lists, FLOOD) for _ in range(12)]
    await settled()
    assert sum(place.is_held for place, _ in flood) == 6
    victim, _ = begin(lists, VICTIM)
    await settled()
    assert victim.is_held
    again, _ = begin(lists, VICTIM)
    lists.leave(flood[0][0])
    await settled()
    assert not again.is_held, "a place of the reserve is for those who have none"
    lists.leave(victim)
    await settled()
    assert again.is_held


async def test_a_full_room_drops_from_the_largest_share_and_else_the_newest() -> None:
    lists = scarce(1, 4)
    (first, _), *flood = [begin(lists, FLOOD) for _ in range(5)]
    victim, wait = begin(lists, VICTIM)
    await settled()
    assert [task.done() for _, task in flood] == [False, False, False, True], "the newest of the largest"
    assert isinstance(flood[-1][1].exception(), ServiceUnavailable)
    (_, own), (_, other) = begin(lists, FLOOD), begin(lists, "third")
    await settled()
    assert isinstance(own.exception(), ServiceUnavailable)
    assert not wait.done()
    assert not other.done()
    lists.leave(first)
    await settled()
    assert flood[0][0].is_held
    lists.leave(flood[0][0])
    await settled()
    assert victim.is_held


async def test_names_that_are_being_checked_push_nobody_out_who_has_one() -> None:
    room = Room(3)
    known = [Place(share=share) for share in "abc"]
    assert [room.enter(place) for place in known] == [[], [], []]
    unknown = [Place(share=CHECKING) for _ in range(4)]
    assert [room.enter(place) for place in unknown] == [[], [], [], [unknown[0]]]
    assert room.move(unknown[3], "d") == [unknown[3]], "all have one, and it is the newest"
    assert room.move(unknown[2], "a") == [unknown[2]]
    assert [place.share for place in room.firsts()] == ["a", "b", "c"]


async def test_memory_has_shares() -> None:
    memory = Memory(100, lambda: False, reserve=12)
    flood = [begin(memory, FLOOD, 30) for _ in range(5)]
    await settled()
    assert (memory.used, memory.waiting) == (60, 3)
    (victim, _), (large, _) = begin(memory, VICTIM, 10), begin(memory, "large", 90)
    await settled()
    assert victim.is_held
    memory.leave(victim)
    memory.leave(flood[0][0])
    await settled()
    assert memory.used == 60, "the flood's next one, as its turn came before that of the large one"
    for place, _ in flood[1:3]:
        memory.leave(place)
        await settled()
    assert (large.is_held, memory.used) == (True, 90)
