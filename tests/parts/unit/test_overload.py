"""What a process takes on at a time, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.overload import Bodies, Load
from shared.base.bounds import CALLS_WAITING_FOR_EACH, SMALL_BODY
from shared.base.errors import ApiError, InsufficientScopes, ServiceUnavailable
from shared.base.memory import Memory
from shared.base.shares import NAMELESS, Share, share_of

MEGABYTE = 1024 * 1024


@dataclass
class Arriving:
    """A call of a client that arrives."""

    client: str | None = "somebody"
    size: int = 0
    refused: ApiError | None = None
    checks: asyncio.Event | None = None
    """Event that is set once the checks may end."""

    async def check(self) -> Share:
        if self.checks is not None:
            await self.checks.wait()
        if self.refused is not None:
            raise self.refused
        return NAMELESS if self.client is None else share_of(self.client)


@dataclass
class Door:
    """Lets calls arrive at a `Load`, and notes which it admits: each is under way until it is told to end."""

    load: Load
    admitted: list[str | None] = field(default_factory=list)
    """Clients whose calls had their turn, in this order."""
    refused: list[str | None] = field(default_factory=list)
    """Clients whose calls got no turn."""
    ended_polls: int = 0
    under_way: list[asyncio.Event] = field(default_factory=list)
    """Events that end the calls under way, in the order of their turns."""

    async def call(self, *arrivals: Arriving) -> list[asyncio.Task[None]]:
        """Lets calls arrive in this order, each as far as it gets now."""
        begun = [asyncio.create_task(self._handled(arrival)) for arrival in arrivals]
        await settled()
        return begun

    async def end(self, count: int) -> None:
        """Ends `count` of the calls under way, one after the other."""
        for _ in range(count):
            self.under_way.pop(0).set()
            await settled()

    async def _handled(self, arrival: Arriving) -> None:
        try:
            async with self.load.call(arrival.check, arrival.size, self._end_polls):
                self.admitted.append(arrival.client)
                over = asyncio.Event()
                self.under_way.append(over)
                await over.wait()
        except ServiceUnavailable:
            self.refused.append(arrival.client)

    def _end_polls(self) -> None:
        self.ended_polls += 1


async def settled() -> None:
    """Returns when everything that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_call_beyond_the_limit_waits_for_its_turn() -> None:
    door = Door(Load(4, 10))
    await door.call(*[Arriving("first")] * 4, *[Arriving("later")] * 3)
    assert (door.load.calls, door.load.waiting, len(door.admitted)) == (4, 3, 4)
    await door.end(2)
    assert (door.load.calls, door.load.waiting, len(door.admitted)) == (4, 1, 6)
    await door.end(5)
    assert (door.load.calls, door.load.waiting, len(door.admitted)) == (0, 0, 7)


async def test_clients_take_turns_however_many_calls_one_of_them_sends() -> None:
    door = Door(Load(4, 10))
    await door.call(*[Arriving("a")] * 40, *[Arriving("b")] * 2, Arriving("c"), *[Arriving(None)] * 5)
    await door.end(12)
    assert door.admitted[4:12] == ["a", "b", "c", None, "a", "b", None, "a"]


async def test_a_call_whose_turn_does_not_come_in_time_is_refused() -> None:
    door = Door(Load(4, 10, longest_wait=0.01))
    await door.call(*[Arriving()] * 4)
    (late,) = await door.call(Arriving("late"))
    await late
    assert door.refused == ["late"]
    assert (door.load.calls, door.load.waiting) == (4, 0)


async def test_a_call_that_is_still_being_checked_keeps_nobody_from_a_place() -> None:
    """A call whose name is still looked up in storage, which may take long, keeps nobody from a place."""
    door, checked = Door(Load(4, 10)), asyncio.Event()
    await door.call(*[Arriving("a")] * 4)
    slow = await door.call(Arriving("slow", checks=checked), Arriving("b"))
    await door.end(2)
    assert door.admitted[4:] == ["b"]
    assert (door.load.calls, door.load.waiting) == (3, 1)
    checked.set()
    await settled()
    assert door.admitted[4:] == ["b", "slow"]
    assert not slow[0].done()


@pytest.mark.parametrize("ends", ["waiting", "checked", "under way"])
async def test_a_call_that_is_cancelled_gives_back_what_it_had(ends: str) -> None:
    door = Door(Load(4, 10))
    under_way = await door.call(*[Arriving()] * 4)
    arrival = Arriving(checks=asyncio.Event() if ends == "checked" else None)
    (waiting,) = await door.call(arrival)
    cancelled = under_way[0] if ends == "under way" else waiting
    cancelled.cancel()
    await settled()
    assert cancelled.cancelled()
    assert (door.load.calls, door.load.waiting) == (4, 0)


async def test_the_share_that_fills_the_room_pays_for_it() -> None:
    door = Door(Load(4, 10))
    await door.call(*[Arriving("a")] * 4, Arriving("b"))
    await door.call(*[Arriving("a")] * (4 * CALLS_WAITING_FOR_EACH))
    assert (door.load.waiting, door.refused) == (4 * CALLS_WAITING_FOR_EACH, ["a"])
    await door.call(Arriving("c"))
    assert (door.load.waiting, door.refused) == (4 * CALLS_WAITING_FOR_EACH, ["a", "a"])
    await door.end(3)
    assert sorted(map(str, door.admitted[4:7])) == ["a", "b", "c"]


async def test_a_flood_of_unknown_names_does_not_push_out_a_client_that_is_known() -> None:
    """Calls with unknown names, which storage is asked for, do not push out a client that is known."""
    door = Door(Load(4, 10))
    await door.call(*[Arriving("a")] * 4)
    await door.call(*(Arriving(None, checks=asyncio.Event()) for _ in range(8 * CALLS_WAITING_FOR_EACH)))
    assert door.load.waiting == 4 * CALLS_WAITING_FOR_EACH
    await door.call(Arriving("b"))
    await door.end(1)
    assert door.admitted[4:] == ["b"]
    assert set(door.refused) == {None}


async def test_the_bodies_that_wait_are_bounded_and_the_share_with_the_most_bytes_pays() -> None:
    door = Door(Load(4, 10, most_bytes=100))
    await door.call(*[Arriving("a")] * 4)
    (large,) = await door.call(Arriving("a", size=70))
    await door.call(Arriving("a", size=1), *[Arriving("b", size=20)] * 2)
    assert large.done()
    assert (door.load.waiting, door.refused) == (3, ["a"])


async def test_call_that_fails_gives_its_place_back() -> None:
    load = Load(4, 10)
    for _ in range(10):
        with pytest.raises(KeyError):
            async with load.call(Arriving().check, 0, lambda: None):
                raise KeyError
        with pytest.raises(KeyError):
            async with load.poll(Arriving().check):
                raise KeyError
        with pytest.raises(InsufficientScopes):
            async with load.call(Arriving(refused=InsufficientScopes("no")).check, 0, lambda: None):
                pass
    assert (load.calls, load.polls) == (0, 0)


async def test_long_polls_are_ended_before_calls_wait_and_new_ones_do_not_wait_for_work() -> None:
    door = Door(Load(8, 10, poll_pause=0.01))
    async with door.load.poll(Arriving().check):
        assert await door.load.falls()
        await door.call(*[Arriving()] * 5)
        assert door.ended_polls == 0
        await door.call(Arriving())
        assert door.ended_polls == 1
        assert not await door.load.falls()
    await door.end(1)
    assert await door.load.falls()


async def test_long_polls_beyond_their_limit_are_refused_and_take_no_place_of_calls() -> None:
    door = Door(Load(4, 3))
    async with AsyncExitStack() as held:
        for _ in range(3):
            await held.enter_async_context(door.load.poll(Arriving().check))
        with pytest.raises(ServiceUnavailable):
            await held.enter_async_context(door.load.poll(Arriving().check))
        await door.call(*[Arriving()] * 4)
        assert door.load.calls == 4


def body_of(size: int) -> bytes:
    return json.dumps({"text": "x" * size}).encode()


def room(size: int = 100 * MEGABYTE) -> Memory:
    return Memory(size, lambda: False)


async def read(bodies: Bodies, body: bytes, memory: Memory | None = None) -> Any:
    async with bodies.parsed(body, memory or room()) as payload:
        return payload


@pytest.mark.parametrize("size", [10, SMALL_BODY, 5 * MEGABYTE])
async def test_body_is_read(size: int) -> None:
    assert await read(Bodies(), body_of(size)) == {"text": "x" * size}


async def test_large_bodies_beside_one_another_fill_the_room_and_the_next_waits() -> None:
    bodies, memory = Bodies(most_waiting=100 * MEGABYTE), room(3 * MEGABYTE)
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(bodies.parsed(body_of(MEGABYTE), memory))
        waiting = [asyncio.create_task(read(bodies, body_of(MEGABYTE), memory)) for _ in range(10)]
        done, _ = await asyncio.wait(waiting, timeout=0.2)
        assert not done
    assert len(await asyncio.gather(*waiting)) == 10
