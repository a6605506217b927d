"""Poison queues on Azurite: listed, sent once more, dropped."""

from __future__ import annotations

import base64

import pytest

from admin import poison
from shared.storage.interface import Storage
from shared.storage.messages import INTERNAL_QUEUES, RESOLVED_QUEUE, decode_body, encode_body

POISON = f"{RESOLVED_QUEUE}-poison"
GARBAGE = base64.b64encode(b"\xffgarbage").decode()


def _body(number: int) -> dict[str, object]:
    return {"taskId": f"task-{number}", "runId": 0, "put": "2026-01-01T00:00:00.000Z", "attempts": 12}


async def _fill(storage: Storage, *texts: str) -> None:
    for text in texts:
        await storage.queues.put(POISON, text)


async def test_what_is_there_is_shown_and_stays(azure_storage: Storage) -> None:
    await _fill(azure_storage, encode_body(_body(1)), GARBAGE)
    for _ in range(2):
        listed = await poison.listed(azure_storage.queues, RESOLVED_QUEUE)
        assert [entry["body"] for entry in listed] == [_body(1), GARBAGE]
    depths = {
        entry["queue"]: (entry["messages"], entry["poison"]) for entry in await poison.depths(azure_storage.queues)
    }
    assert depths == {queue: (0, 2 if queue == RESOLVED_QUEUE else 0) for queue in INTERNAL_QUEUES}


async def test_everything_readable_is_sent_once_more_with_all_its_attempts(azure_storage: Storage) -> None:
    await _fill(azure_storage, GARBAGE, *(encode_body(_body(number)) for number in range(40)))
    assert await poison.redrive(azure_storage.queues, RESOLVED_QUEUE) == poison.Moved(done=40, left=1)
    assert await azure_storage.queues.length(POISON) == 1
    assert await azure_storage.queues.length(RESOLVED_QUEUE) == 40
    (message,) = await azure_storage.queues.get(RESOLVED_QUEUE, hidden_for=30)
    expected = _body(0)
    del expected["attempts"]
    assert decode_body(message.text) == expected


async def test_one_alone(azure_storage: Storage) -> None:
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


def test_queues_of_pools_have_no_poison_queue() -> None:
    with pytest.raises(ValueError, match="the queues are claim, deadline"):
        poison.poison_queue("pending-x-1")
