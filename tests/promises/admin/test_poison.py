"""Poison queues, on Azurite and in the simulator: listed, sent once more, dropped."""

from __future__ import annotations

import base64

from shared.overview import operations as poison
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES, RESOLVED_QUEUE, decode_body, encode_body
from shared.store.interface import Storage

POISON = f"{RESOLVED_QUEUE}-poison"
GARBAGE = base64.b64encode(b"\xffgarbage").decode()


def _body(number: int) -> dict[str, object]:
    return {"taskId": f"task-{number}", "runId": 0, "put": "2026-01-01T00:00:00.000Z", "attempts": 12}


async def _fill(storage: Storage, *texts: str) -> None:
    for text in texts:
        await storage.queues.put_message(POISON, text)


async def test_what_is_there_is_shown_and_stays(azure_storage: Storage) -> None:
    await _fill(azure_storage, encode_body(_body(1)), GARBAGE)
    for _ in range(2):
        listed = await poison.given_up_messages(azure_storage.queues, RESOLVED_QUEUE)
        assert [entry["body"] for entry in listed] == [_body(1), GARBAGE]
    depths = {
        entry["queue"]: (entry["messages"], entry["poison"])
        for entry in await poison.queue_depths(azure_storage.queues)
    }
    assert depths == {queue: (0, 2 if queue == RESOLVED_QUEUE else 0) for queue in INTERNAL_QUEUES}


async def test_everything_readable_is_sent_once_more_with_all_its_attempts(azure_storage: Storage) -> None:
    await _fill(azure_storage, GARBAGE, *(encode_body(_body(number)) for number in range(40)))
    said: list[str] = []
    moved = await poison.move_poison(azure_storage.queues, RESOLVED_QUEUE, "redrive", report=said.append)
    assert moved == poison.Moved(done=40, left=1)
    assert said == ["32 of 41 messages done", "41 of 41 messages done"]
    assert await azure_storage.queues.length(POISON) == 1
    assert await azure_storage.queues.length(RESOLVED_QUEUE) == 40
    sent = await azure_storage.queues.get_messages(RESOLVED_QUEUE, count=32, hidden_for=30)
    bodies = [decode_body(message.text) for message in sent]
    assert all(
        body in [_body(number) for number in range(40)] for body in ({**body, "attempts": 12} for body in bodies)
    )
    assert all("attempts" not in body for body in bodies)


async def test_redrive_and_drop_of_one_message(azure_storage: Storage) -> None:
    await _fill(azure_storage, *(encode_body(_body(number)) for number in range(3)))
    chosen = (await poison.given_up_messages(azure_storage.queues, RESOLVED_QUEUE))[1]
    assert await poison.move_poison(azure_storage.queues, RESOLVED_QUEUE, "redrive", chosen["id"]) == poison.Moved(1, 0)
    (sent,) = await azure_storage.queues.get_messages(RESOLVED_QUEUE, hidden_for=30)
    assert decode_body(sent.text)["taskId"] == chosen["body"]["taskId"]
    left = await poison.given_up_messages(azure_storage.queues, RESOLVED_QUEUE)
    assert sorted(entry["body"]["taskId"] for entry in left) == ["task-0", "task-2"], "the others are visible again"
    assert await poison.move_poison(azure_storage.queues, RESOLVED_QUEUE, "delete", left[0]["id"]) == poison.Moved(1, 0)
    assert await poison.given_up_messages(azure_storage.queues, RESOLVED_QUEUE) == left[1:]


async def test_dropping_all(azure_storage: Storage) -> None:
    await _fill(azure_storage, GARBAGE, encode_body(_body(1)))
    assert await poison.move_poison(azure_storage.queues, RESOLVED_QUEUE, "delete") == poison.Moved(2, 0)
    assert await azure_storage.queues.length(POISON) == 0
    assert await azure_storage.queues.length(RESOLVED_QUEUE) == 0
