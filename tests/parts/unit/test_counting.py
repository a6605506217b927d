"""Counting requests and their depth."""

import asyncio

from shared.store.counting import Kind, counting, recorded


async def _request(seconds: float = 0, kind: Kind = Kind.TABLE_READ) -> None:
    with recorded(kind, "Tasks"):
        await asyncio.sleep(seconds)


async def test_sequence_and_parallel() -> None:
    with counting() as operations:
        await _request(kind=Kind.TABLE_WRITE)
        await asyncio.gather(_request(), _request(0.001), _request(0.002))
        await _request(kind=Kind.TABLE_WRITE)
    assert operations.total == 5
    assert operations.depth == 3
    assert operations.counts == {Kind.TABLE_WRITE: 2, Kind.TABLE_READ: 3}
    assert [request.level for request in operations.requests] == [1, 2, 2, 2, 3]


async def test_tasks_that_the_call_starts_are_counted() -> None:
    async def call() -> None:
        background = asyncio.create_task(_request(0.001))
        async with asyncio.TaskGroup() as group:
            group.create_task(_request())
            group.create_task(_request())
        await background

    with counting() as operations:
        await call()
    assert (operations.total, operations.depth) == (3, 1)


async def test_what_a_call_leaves_running_is_not_counted_once_it_is_answered() -> None:
    """Requests that a call leaves running are not counted once it is answered. A poll that others wait for as well goes
    on for hours, in the context of the call that began it."""
    answered = asyncio.Event()

    async def goes_on() -> None:
        await _request(kind=Kind.QUEUE_PEEK)
        await answered.wait()
        await _request(kind=Kind.QUEUE_PEEK)

    with counting() as operations:
        running = asyncio.create_task(goes_on())
        await asyncio.sleep(0)
    answered.set()
    await running
    assert operations.total == 1
