"""The twin where Azurite cannot show it: Azure's freedom, Azure's limits, the look inside."""

import random

import pytest

from shared.store.interface import Create, Merge, Queues, ReceiptLost, Value
from tests.twin import Disorder, MemoryStorage, VirtualClock


async def _fill(queues: Queues, count: int) -> list[str]:
    texts = [f"text {number}" for number in range(count)]
    for text in texts:
        await queues.put("abc", text)
    return texts


async def _take(queues: Queues, count: int = 32) -> list[str]:
    return [message.text for message in await queues.get("abc", count=count, hidden_for=60)]


def _disordered(seed: int = 0, **chances: float | bool) -> MemoryStorage:
    return MemoryStorage(VirtualClock(), disorder=Disorder(chance=random.Random(seed), **chances))  # type: ignore[arg-type]  # names are those of the fields


async def test_messages_are_received_out_of_order() -> None:
    orders = set()
    for seed in range(5):
        queues = _disordered(seed).storage.queues
        texts = await _fill(queues, 20)
        taken = await _take(queues)
        assert sorted(taken) == sorted(texts)
        orders.add(tuple(taken))
    assert len(orders) == 5


async def test_duplicated_and_only_what_was_taken() -> None:
    queues = _disordered(duplicated=1.0).storage.queues
    await queues.put("abc", "delayed", visible_in=60)
    await queues.put("abc", "moved")
    (moved,) = await queues.get("abc", hidden_for=60)
    await queues.update("abc", moved.receipt, visible_in=60)
    await queues.put("abc", "taken")
    (first,) = await queues.get("abc", hidden_for=60)
    (again,) = await queues.get("abc", hidden_for=60)
    assert [first.text, again.text] == ["taken", "taken"]
    assert (first.dequeue_count, again.dequeue_count) == (1, 2)
    with pytest.raises(ReceiptLost):
        await queues.delete("abc", first.receipt)
    await queues.delete("abc", again.receipt)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_receipt_whose_time_is_over(lost: bool) -> None:
    memory = _disordered(lapsed_receipts_lost=lost)
    await memory.storage.queues.put("abc", "text")
    (taken,) = await memory.storage.queues.get("abc", hidden_for=30)
    memory.clock.advance(30)
    if lost:
        with pytest.raises(ReceiptLost):
            await memory.storage.queues.delete("abc", taken.receipt)
    else:
        await memory.storage.queues.delete("abc", taken.receipt)
    assert len(memory.queues.messages("abc")) == (1 if lost else 0)


async def test_a_merge_into_too_much_is_refused_and_changes_nothing(twin: MemoryStorage) -> None:
    halves: list[dict[str, Value]] = [{f"{half}{n}": b"x" * 60_000 for n in range(9)} for half in "ab"]
    await twin.storage.tables.transact("Tasks", "p", [Create("k", halves[0])])
    with pytest.raises(ValueError, match="an entity"):
        await twin.storage.tables.transact("Tasks", "p", [Create("new", {}), Merge("k", halves[1])])
    assert [row.key for row in twin.tables.rows("Tasks")] == ["k"]
