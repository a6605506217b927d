"""What a process takes on at a time, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

from functions.load import READ_AT_ONCE, Bodies, Contents, Load
from shared.errors import InputError, MalformedPayload, ServiceUnavailable

MEGABYTE = 1024 * 1024


class Polls:
    """Counts how often long polls were asked to end."""

    ended = 0

    def end(self) -> None:
        self.ended += 1


def test_call_beyond_the_limit_is_refused_at_once() -> None:
    load, polls = Load(4, 10), Polls()
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(load.call(polls.end))
        with pytest.raises(ServiceUnavailable), load.call(polls.end):
            pass
        assert load.calls == 4
    assert load.calls == 0
    with load.call(polls.end):
        pass


def test_call_that_fails_gives_its_place_back() -> None:
    load = Load(4, 10)
    for _ in range(10):
        with pytest.raises(KeyError), load.call(lambda: None):
            raise KeyError
        with pytest.raises(KeyError), load.poll():
            raise KeyError
    assert (load.calls, load.polls) == (0, 0)


def test_uploads_beyond_the_memory_for_them_are_refused_and_give_their_room_back() -> None:
    contents = Contents(10)
    for _ in range(3):
        with ExitStack() as held:
            held.enter_context(contents.content(6))
            held.enter_context(contents.content(4))
            held.enter_context(contents.content(0))
            with pytest.raises(ServiceUnavailable), contents.content(1):
                pass
        with pytest.raises(KeyError), contents.content(10):
            raise KeyError


def test_an_upload_larger_than_the_memory_for_all_is_taken_alone() -> None:
    contents = Contents(10)
    with contents.content(11), pytest.raises(ServiceUnavailable), contents.content(1):
        pass
    with contents.content(1), pytest.raises(ServiceUnavailable), contents.content(11):
        pass


def test_long_polls_are_given_up_before_calls_are_refused() -> None:
    load, polls = Load(8, 10), Polls()
    with ExitStack() as held:
        held.enter_context(load.poll())
        for _ in range(5):
            held.enter_context(load.call(polls.end))
        assert polls.ended == 0
        held.enter_context(load.call(polls.end))
        assert polls.ended == 1
        with pytest.raises(ServiceUnavailable), load.poll():
            pass
        held.enter_context(load.call(polls.end))
        assert load.calls == 7
    with load.poll():
        pass


def test_long_polls_beyond_their_limit_are_refused_and_take_no_place_of_calls() -> None:
    load = Load(4, 3)
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(load.poll())
        with pytest.raises(ServiceUnavailable), load.poll():
            pass
        for _ in range(4):
            held.enter_context(load.call(lambda: None))


def body_of(size: int) -> bytes:
    return json.dumps({"text": "x" * size}).encode()


async def read(bodies: Bodies, body: bytes) -> Any:
    async with bodies.parsed(body) as payload:
        return payload


@pytest.mark.parametrize("size", [10, READ_AT_ONCE, 5 * MEGABYTE])
async def test_body_is_read(size: int) -> None:
    assert await read(Bodies(), body_of(size)) == {"text": "x" * size}


@pytest.mark.parametrize("size", [10, READ_AT_ONCE * 2])
async def test_bad_bodies_leave_the_room_as_it_was(size: int) -> None:
    bodies = Bodies(most_held=2 * size, most_waiting=size + 100)
    for _ in range(10):
        with pytest.raises(MalformedPayload):
            await read(bodies, body_of(size)[:-1])
        with pytest.raises(InputError):
            await read(bodies, b"[" * (size + 200))
    assert await read(bodies, body_of(size)) == {"text": "x" * size}


async def test_large_bodies_beside_one_another_fill_the_room_and_the_next_waits() -> None:
    bodies = Bodies(most_held=3 * MEGABYTE, most_waiting=100 * MEGABYTE)
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(bodies.parsed(body_of(MEGABYTE)))
        waiting = [asyncio.create_task(read(bodies, body_of(MEGABYTE))) for _ in range(10)]
        done, _ = await asyncio.wait(waiting, timeout=0.2)
        assert not done
    assert len(await asyncio.gather(*waiting)) == 10


async def test_body_larger_than_all_the_room_has_it_to_itself() -> None:
    bodies = Bodies(most_held=MEGABYTE, most_waiting=100 * MEGABYTE)
    async with AsyncExitStack() as held:
        await held.enter_async_context(bodies.parsed(body_of(2 * MEGABYTE)))
        waiting = asyncio.create_task(read(bodies, body_of(MEGABYTE)))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
    await waiting


async def test_large_body_is_refused_when_too_much_waits_and_small_ones_go_on() -> None:
    bodies = Bodies(most_held=MEGABYTE, most_waiting=3 * MEGABYTE)
    async with AsyncExitStack() as held:
        await held.enter_async_context(bodies.parsed(body_of(2 * MEGABYTE)))
        waiting = [asyncio.create_task(read(bodies, body_of(MEGABYTE))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ServiceUnavailable):
            await read(bodies, body_of(MEGABYTE))
        assert await read(bodies, b'{"a": 1}') == {"a": 1}
    assert len(await asyncio.gather(*waiting)) == 2


async def test_call_that_is_cancelled_while_it_waits_takes_no_room() -> None:
    bodies = Bodies(most_held=MEGABYTE, most_waiting=2 * MEGABYTE)
    async with AsyncExitStack() as held:
        await held.enter_async_context(bodies.parsed(body_of(2 * MEGABYTE)))
        for _ in range(4):
            waiting = asyncio.create_task(read(bodies, body_of(MEGABYTE)))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
    assert await read(bodies, body_of(MEGABYTE))
