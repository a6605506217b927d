"""Queues that come and go, on Azurite. All else is compared with the twin (tests/parts/properties)."""

import pytest

from shared.store.counting import counting
from shared.store.interface import Queues, ReceiptLost, Storage


@pytest.fixture
async def queues(azure_storage: Storage) -> Queues:
    """Queues, with an empty one named "q-1"."""
    await azure_storage.queues.create_queue("q-1")
    await azure_storage.queues.create_queue("q-1")  # a second time is fine
    return azure_storage.queues


async def test_a_queue_that_is_not_there(azure_storage: Storage) -> None:
    queues = azure_storage.queues
    assert await queues.get_messages("empty", hidden_for=1) == []
    assert await queues.peek("empty") == []
    with counting() as operations:
        await queues.put_message("made", "text")
        await queues.put_message("made", "text")
    assert "".join(request.kind for request in operations.requests) == "PMPP"
    assert len(await queues.peek("made", count=32)) == 2


async def test_a_queue_that_is_dropped_is_gone_with_its_messages(queues: Queues) -> None:
    await queues.put_message("q-1", "text")
    (taken,) = await queues.get_messages("q-1", hidden_for=60)
    await queues.drop("q-1")
    await queues.drop("q-1")  # a second time is fine
    assert await queues.get_messages("q-1", hidden_for=1) == await queues.peek("q-1") == []
    assert await queues.length("q-1") == 0
    with pytest.raises(ReceiptLost):
        await queues.delete_message("q-1", taken.receipt)
    await queues.put_message("q-1", "again")  # Azure would refuse that for a while
    assert await queues.length("q-1") == 1
