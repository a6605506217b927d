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


async def test_order_is_kept_without_disorder(twin: MemoryStorage) -> None:
    texts = await _fill(twin.storage.queues, 20)
    assert await _take(twin.storage.queues) == texts


async def test_messages_are_received_out_of_order() -> None:
    orders = set()
    for seed in range(5):
        queues = _disordered(seed).storage.queues
        texts = await _fill(queues, 20)
        taken = await _take(queues)
        assert sorted(taken) == sorted(texts)
        orders.add(tuple(taken))
    assert len(orders) == 5


async def test_the_same_seed_gives_the_same_disorder() -> None:
    taken = []
    for _ in range(2):
        queues = _disordered(7, late=0.5, duplicated=0.2).storage.queues
        await _fill(queues, 20)
        taken.append([await _take(queues) for _ in range(5)])
    assert taken[0] == taken[1]


async def test_a_late_message_is_received_in_the_end() -> None:
    queues = _disordered(late=0.5).storage.queues
    texts = await _fill(queues, 20)
    first = await _take(queues)
    assert 0 < len(first) < 20
    rest: list[str] = []
    for _ in range(20):
        rest += await _take(queues)
    assert sorted(first + rest) == sorted(texts)


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


async def test_visible_to_the_second(twin: MemoryStorage) -> None:
    await twin.storage.queues.put("abc", "text", visible_in=60)
    twin.clock.advance(59.999)
    assert await _take(twin.storage.queues) == []
    twin.clock.advance(0.001)
    assert await _take(twin.storage.queues) == ["text"]


async def test_a_merge_into_too_much_is_refused_and_changes_nothing(twin: MemoryStorage) -> None:
    halves: list[dict[str, Value]] = [{f"{half}{n}": b"x" * 60_000 for n in range(9)} for half in "ab"]
    await twin.storage.tables.transact("Tasks", "p", [Create("k", halves[0])])
    with pytest.raises(ValueError, match="an entity"):
        await twin.storage.tables.transact("Tasks", "p", [Create("new", {}), Merge("k", halves[1])])
    assert [row.key for row in twin.tables.rows("Tasks")] == ["k"]


async def test_rows_cannot_be_changed_from_outside(twin: MemoryStorage) -> None:
    values: dict[str, Value] = {"n": 1}
    await twin.storage.tables.transact("Tasks", "p", [Create("k", values)])
    values["n"] = 2
    row = await twin.storage.tables.get("Tasks", "p", "k")
    assert row is not None
    assert row.values["n"] == 1
    with pytest.raises(TypeError):
        row.values["n"] = 3  # type: ignore[index]  # that is the point


async def test_names_are_checked_as_azure_does(twin: MemoryStorage) -> None:
    with pytest.raises(ValueError, match="table"):
        await twin.storage.tables.get("no-table", "p", "k")
    with pytest.raises(ValueError, match="queue"):
        await twin.storage.queues.put("No_Queue", "text")
    with pytest.raises(ValueError, match="container"):
        await twin.storage.blobs.download("No_Container", "a")


async def test_an_upload_drops_staged_blocks(twin: MemoryStorage) -> None:
    blobs = twin.storage.blobs
    await blobs.put_block("blobs", "a", "1", b"staged")
    assert twin.blobs.staged("blobs", "a") == {"1": b"staged"}
    with pytest.raises(ValueError, match="equally long"):
        await blobs.put_block("blobs", "a", "12", b"x")
    await blobs.upload("blobs", "a", b"whole", content_type="text/plain")
    assert not await blobs.commit_blocks("blobs", "a", ["1"], content_type="text/plain", content_encoding="")
    assert twin.blobs.blobs("blobs")["a"].content == b"whole"


async def test_the_look_inside_makes_no_request(twin: MemoryStorage) -> None:
    await twin.storage.queues.create("abc")
    await twin.storage.queues.put("abd", "text", visible_in=60)
    assert twin.queues.names() == ["abc", "abd"]
    (message,) = twin.queues.messages("abd")
    assert (message.text, message.dequeue_count, message.taken) == ("text", 0, False)
    assert (message.visible - message.inserted).total_seconds() == 60
    assert twin.tables.rows("Tasks") == []
