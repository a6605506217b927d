"""Queues through the SDK, on Azurite: receipts, visibility, limits."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from shared.store.counting import counting
from shared.store.interface import Message, Queues, Receipt, ReceiptLost, Storage


@pytest.fixture
async def queues(azure_storage: Storage) -> Queues:
    """Queues, with an empty one named "q-1"."""
    await azure_storage.queues.create("q-1")
    await azure_storage.queues.create("q-1")  # a second time is fine
    return azure_storage.queues


def _near(moment: datetime, seconds: float) -> bool:
    """Whether the time is about `seconds` from now: requests take time, and fractions are cut off."""
    return abs(moment - datetime.now(UTC) - timedelta(seconds=seconds)) < timedelta(seconds=5)


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(b'{"taskId":"a"}').decode(),
        "plain <&> 'text' \"quoted\"",
        " é\U0001f600 ",
        "x" * 65_536,
        "é" * 32_768,
    ],
)
async def test_texts_come_back_as_they_went(queues: Queues, text: str) -> None:
    await queues.put("q-1", text)
    (seen,) = await queues.peek("q-1")
    (taken,) = await queues.get("q-1", hidden_for=30)
    assert seen.text == taken.text == text
    moved = await queues.update("q-1", taken.receipt, visible_in=0, text=f"{text[:-1]}!")
    (again,) = await queues.get("q-1", hidden_for=30)
    assert again.text == f"{text[:-1]}!"
    assert moved.message_id == taken.receipt.message_id


async def test_a_message_from_put_to_delete(queues: Queues) -> None:
    put = await queues.put("q-1", "text")
    assert _near(put.visible, 0)
    (seen,) = await queues.peek("q-1")
    assert seen.receipt.pop_receipt == ""
    assert (seen.receipt.message_id, seen.text, seen.dequeue_count) == (put.message_id, "text", 0)
    assert _near(seen.inserted, 0)
    (taken,) = await queues.get("q-1", hidden_for=60)
    assert (taken.receipt.message_id, taken.text, taken.dequeue_count) == (put.message_id, "text", 1)
    assert _near(taken.receipt.visible, 60)
    assert await queues.peek("q-1") == await queues.get("q-1", hidden_for=1) == []
    moved = await queues.update("q-1", taken.receipt, visible_in=0)
    assert _near(moved.visible, 0)
    (again,) = await queues.get("q-1", hidden_for=60)
    assert (again.text, again.dequeue_count) == ("text", 2)
    await queues.delete("q-1", again.receipt)
    assert await queues.peek("q-1") == []


async def _until_visible(look: Callable[[], Awaitable[list[Message]]]) -> list[Message]:
    for _ in range(300):
        if found := await look():
            return found
        await asyncio.sleep(0.02)
    pytest.fail("nothing became visible")


async def test_a_hidden_message_comes_back(queues: Queues) -> None:
    started = datetime.now(UTC)
    await queues.put("q-1", "text", visible_in=0.4)
    (message,) = await _until_visible(lambda: queues.get("q-1", hidden_for=60))
    assert message.dequeue_count == 1
    assert datetime.now(UTC) - started >= timedelta(seconds=0.9)  # whole seconds, rounded up


def _bent(receipt: Receipt) -> Receipt:
    return Receipt(message_id=receipt.message_id, pop_receipt="bm8gcmVjZWlwdA==", visible=receipt.visible)


@pytest.mark.parametrize("action", ["update", "update text", "delete"])
@pytest.mark.parametrize("state", ["deleted", "taken by another", "moved", "bent receipt", "no queue"])
async def test_a_receipt_is_lost(queues: Queues, state: str, action: str) -> None:
    queue = "q-1"
    receipt = await queues.put(queue, "text")
    match state:
        case "deleted":
            await queues.delete(queue, receipt)
        case "taken by another":
            await queues.get(queue, hidden_for=60)
        case "moved":
            await queues.update(queue, receipt, visible_in=60)
        case "bent receipt":
            receipt = _bent(receipt)
        case "no queue":
            queue = "q-2"
    with pytest.raises(ReceiptLost):
        if action == "delete":
            await queues.delete(queue, receipt)
        else:
            await queues.update(queue, receipt, visible_in=5, text="new" if action == "update text" else None)


async def test_illegal_arguments_are_refused_before_a_request(queues: Queues) -> None:
    receipt = await queues.put("q-1", "text")
    with counting() as operations:
        for text in ("", "x" * 65_537, "a\x00b"):
            with pytest.raises(ValueError):
                await queues.put("q-1", text)
            with pytest.raises(ValueError):
                await queues.update("q-1", receipt, visible_in=0, text=text)
        for delay in (-1, 604_801):
            with pytest.raises(ValueError):
                await queues.put("q-1", "text", visible_in=delay)
            with pytest.raises(ValueError):
                await queues.update("q-1", receipt, visible_in=delay)
            with pytest.raises(ValueError):
                await queues.get("q-1", hidden_for=delay)
    assert operations.total == 0


async def test_a_queue_that_is_not_there(azure_storage: Storage) -> None:
    queues = azure_storage.queues
    assert await queues.get("empty", hidden_for=1) == []
    assert await queues.peek("empty") == []
    with counting() as operations:
        await queues.put("made", "text")
        await queues.put("made", "text")
    assert "".join(request.kind for request in operations.requests) == "PMPP"
    assert len(await queues.peek("made", count=32)) == 2


async def test_a_queue_that_is_dropped_is_gone_with_its_messages(queues: Queues) -> None:
    await queues.put("q-1", "text")
    (taken,) = await queues.get("q-1", hidden_for=60)
    await queues.drop("q-1")
    await queues.drop("q-1")  # a second time is fine
    assert await queues.get("q-1", hidden_for=1) == await queues.peek("q-1") == []
    assert await queues.length("q-1") == 0
    with pytest.raises(ReceiptLost):
        await queues.delete("q-1", taken.receipt)
    await queues.put("q-1", "again")  # Azure would refuse that for a while
    assert await queues.length("q-1") == 1
