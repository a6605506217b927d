"""Poison queues, on Azurite and in the simulator: listed, sent once more, dropped."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from shared.overview import operations as poison
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES, RESOLVED_QUEUE, decode_body, encode_body
from shared.store.interface import Queues, Storage
from tests.twin import Call, MemoryStorage, Phase
from tests.twin.driver import Simulation
from tests.twin.queues import StoredMessage

POISON = f"{RESOLVED_QUEUE}-poison"
Command = Callable[[Queues, str], Awaitable[poison.Moved]]
GARBAGE = base64.b64encode(b"\xffgarbage").decode()


def _body(number: int) -> dict[str, object]:
    return {"taskId": f"task-{number}", "runId": 0, "put": "2026-01-01T00:00:00.000Z", "attempts": 12}


def _visible(twin: MemoryStorage) -> list[StoredMessage]:
    return [message for message in twin.queues.messages(POISON) if message.visible <= twin.clock.exact()]


async def _fill(storage: Storage, *texts: str) -> None:
    for text in texts:
        await storage.queues.put(POISON, text)


async def test_what_is_there_is_shown_and_stays(azure_storage: Storage) -> None:
    await _fill(azure_storage, encode_body(_body(1)), GARBAGE)
    for _ in range(2):
        listed = await poison.listed(azure_storage.queues, RESOLVED_QUEUE)
        assert [entry["body"] for entry in listed] == [_body(1), GARBAGE]
    depths = {
        entry["queue"]: (entry["messages"], entry["poison"])
        for entry in await poison.queue_depths(azure_storage.queues)
    }
    assert depths == {queue: (0, 2 if queue == RESOLVED_QUEUE else 0) for queue in INTERNAL_QUEUES}


async def test_everything_readable_is_sent_once_more_with_all_its_attempts(azure_storage: Storage) -> None:
    await _fill(azure_storage, GARBAGE, *(encode_body(_body(number)) for number in range(40)))
    said: list[str] = []
    moved = await poison.redrive(azure_storage.queues, RESOLVED_QUEUE, report=said.append)
    assert moved == poison.Moved(done=40, left=1)
    assert said == ["32 of 41 messages done", "41 of 41 messages done"]
    assert await azure_storage.queues.length(POISON) == 1
    assert await azure_storage.queues.length(RESOLVED_QUEUE) == 40
    sent = await azure_storage.queues.get(RESOLVED_QUEUE, count=32, hidden_for=30)
    bodies = [decode_body(message.text) for message in sent]
    assert all(
        body in [_body(number) for number in range(40)] for body in ({**body, "attempts": 12} for body in bodies)
    )
    assert all("attempts" not in body for body in bodies)


async def test_redrive_and_drop_of_one_message(azure_storage: Storage) -> None:
    await _fill(azure_storage, *(encode_body(_body(number)) for number in range(3)))
    chosen = (await poison.listed(azure_storage.queues, RESOLVED_QUEUE))[1]
    assert await poison.redrive(azure_storage.queues, RESOLVED_QUEUE, chosen["id"]) == poison.Moved(1, 0)
    (sent,) = await azure_storage.queues.get(RESOLVED_QUEUE, hidden_for=30)
    assert decode_body(sent.text)["taskId"] == chosen["body"]["taskId"]
    left = await poison.listed(azure_storage.queues, RESOLVED_QUEUE)
    assert sorted(entry["body"]["taskId"] for entry in left) == ["task-0", "task-2"], "the others are visible again"
    assert await poison.drop(azure_storage.queues, RESOLVED_QUEUE, left[0]["id"]) == poison.Moved(1, 0)
    assert [entry["id"] for entry in await poison.listed(azure_storage.queues, RESOLVED_QUEUE)] == [left[1]["id"]]


async def test_dropping_all(azure_storage: Storage) -> None:
    await _fill(azure_storage, GARBAGE, encode_body(_body(1)))
    assert await poison.drop(azure_storage.queues, RESOLVED_QUEUE) == poison.Moved(2, 0)
    assert await azure_storage.queues.length(POISON) == 0
    assert await azure_storage.queues.length(RESOLVED_QUEUE) == 0


@pytest.mark.parametrize(("seconds", "hidden"), [(0, 0), (5, 0), (60, 60)])
def test_a_redrive_ends_though_its_messages_come_back(seconds: float, hidden: int) -> None:
    """While it runs, the handlers dead-letter the redriven messages again, at once or some seconds later.

    Somebody else holds some of the messages, which count as there and cannot be taken.
    """
    simulation = Simulation.rounds()
    twin = MemoryStorage(simulation.clock)
    queues = twin.storage.queues
    handled: Counter[str] = Counter()

    async def handlers() -> None:
        while sum(handled.values()) < 1000:
            for message in await queues.get(RESOLVED_QUEUE, count=16, hidden_for=600):
                handled[message.text] += 1
                await queues.put(POISON, message.text)
                await queues.delete(RESOLVED_QUEUE, message.receipt)
            await asyncio.sleep(0.01)

    async def slow(call: Call, phase: Phase) -> None:
        await asyncio.sleep(seconds / 100)

    async def redrive() -> poison.Moved:
        for number in range(100):
            await queues.put(POISON, encode_body(_body(number)))
        for _ in range(hidden // 30):
            await queues.get(POISON, count=30, hidden_for=3600)
        twin.gate = slow
        beside = asyncio.ensure_future(handlers())
        moved = await poison.redrive(queues, RESOLVED_QUEUE)
        while await queues.length(RESOLVED_QUEUE):  # noqa: ASYNC110 - no event
            await asyncio.sleep(1)
        beside.cancel()
        return moved

    (moved,) = simulation.run(redrive())
    assert moved.done == 100 - hidden
    assert len(handled) == 100 - hidden
    assert set(handled.values()) == {1}, "one command sends each message once"
