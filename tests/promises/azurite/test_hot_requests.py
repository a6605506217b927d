"""Rows and messages that go in by hand come out by the SDK, and the other way round: any key, any value, every type."""

from __future__ import annotations

import math
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.data.tables import EdmType, EntityProperty
from azure.data.tables.aio import TableClient
from azure.storage.queue.aio import QueueClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.store.connection import AzureStorage
from shared.store.interface import Create, Delete, Merge, Replace, Row, Upsert, Value
from tests.storage_accounts import own_connection_string
from tools.local.azurite import Azurite

AZURITE = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
KEYS = st.text(
    st.sampled_from("a'b\"+ %41&=;{x}()!*é\u2028\U0001f600")
    | st.characters(exclude_characters="/\\#?", exclude_categories=["Cc", "Cs"]),
    max_size=20,
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True).filter(
    lambda name: name.lower() not in {"partitionkey", "rowkey", "timestamp"}
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXTS, st.binary(max_size=40))
ROWS = st.dictionaries(NAMES, VALUES, max_size=6)
MESSAGES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), min_size=1)


class Both:
    """One table and one queue, used by hand-made requests and by the SDK."""

    def __init__(self, account: AzureStorage, connection_string: str) -> None:
        self.tables, self.queues = account.storage.tables, account.storage.queues
        self.table = TableClient.from_connection_string(connection_string, "Tasks")
        self.queue = QueueClient.from_connection_string(connection_string, "queue")


@pytest.fixture
async def both(azurite: Azurite) -> AsyncIterator[Both]:
    connection_string = own_connection_string(azurite)
    async with AzureStorage.from_connection_string(connection_string) as account:
        made = Both(account, connection_string)
        async with made.table, made.queue:
            await made.table.create_table()
            await made.queue.create_queue()
            yield made


def of_sdk(values: Mapping[str, Value]) -> dict[str, Any]:
    """Returns values in the SDK's form: it takes numbers for small ones, unless they are said to be large."""
    return {
        name: EntityProperty(value, EdmType.INT64) if type(value) is int and abs(value) >= 2**31 else value
        for name, value in values.items()
    }


def plain(entity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a row that the SDK gives."""
    return {
        name: value.value if isinstance(value, EntityProperty) else value
        for name, value in entity.items()
        if name not in {"PartitionKey", "RowKey"}
    }


async def same_by_both(both: Both, partition: str, key: str, values: Mapping[str, Any]) -> Row:
    """Reads the row in every way, and compares the results."""
    theirs = await both.table.get_entity(partition, key)
    ours = await both.tables.get_row("Tasks", partition, key)
    page = await both.tables.query("Tasks", partition, start=key, end=f"{key}\uffff")
    assert ours is not None
    assert plain(theirs) == dict(ours.values) == dict(values)
    assert [type(value) for value in ours.values.values()] == [type(value) for value in plain(theirs).values()]
    assert (ours.partition, ours.key) == (theirs["PartitionKey"], theirs["RowKey"]) == (partition, key)
    assert ours.etag == theirs.metadata["etag"]
    assert ours.timestamp == theirs.metadata["timestamp"]
    assert ours in page.rows
    return ours


@AZURITE
@given(partition=KEYS, key=KEYS, values=ROWS, others=ROWS)
async def test_rows(both: Both, partition: str, key: str, values: dict[str, Value], others: dict[str, Value]) -> None:
    partition = f"{uuid.uuid4()}{partition}"
    send = both.tables.transact
    (created,) = await send("Tasks", partition, [Create(key, values)])
    assert (await same_by_both(both, partition, key, values)).etag == created
    (merged,) = await send("Tasks", partition, [Merge(key, others, created)])
    assert (await same_by_both(both, partition, key, {**values, **others})).etag == merged
    await send("Tasks", partition, [Replace(key, others, merged)])
    await same_by_both(both, partition, key, others)
    await send("Tasks", partition, [Upsert(key, values)])
    await same_by_both(both, partition, key, values)
    await send("Tasks", partition, [Delete(key)])
    await both.table.create_entity({"PartitionKey": partition, "RowKey": key, **of_sdk(others)})
    await same_by_both(both, partition, key, others)


async def test_every_type_that_azure_has(both: Both) -> None:
    """Values of types that this service never writes are as JSON has them: an operator may have put them there."""
    moment, number = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), uuid.uuid4()
    values = {
        "text": EntityProperty("t", EdmType.STRING),
        "true": True,
        "small": EntityProperty(-(2**31), EdmType.INT32),
        "large": EntityProperty(2**63 - 1, EdmType.INT64),
        "large_zero": EntityProperty(0, EdmType.INT64),
        "binary": b"\x00\xff",
        "double": 0.5,
        "whole_double": EntityProperty(5.0, EdmType.DOUBLE),
        "nan": math.nan,
        "infinite": -math.inf,
        "moment": moment,
        "number": number,
    }
    await both.table.create_entity({"PartitionKey": "p", "RowKey": "k", **values})
    row = await both.tables.get_row("Tasks", "p", "k")
    assert row is not None
    read = dict(row.values)
    assert math.isnan(float(read.pop("nan")))
    assert float(read.pop("infinite")) == -math.inf
    assert datetime.fromisoformat(str(read.pop("moment"))) == moment
    assert read == {
        "text": "t",
        "true": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "large_zero": 0,
        "binary": b"\x00\xff",
        "double": 0.5,
        "whole_double": 5.0,
        "number": str(number),
    }


@AZURITE
@given(first=MESSAGES, second=MESSAGES)
async def test_messages(both: Both, first: str, second: str) -> None:
    put = await both.queues.put_message("queue", first, visible_in=0.2)
    assert abs(put.visible - datetime.now(UTC) - timedelta(seconds=1)) < timedelta(seconds=30)
    await both.queues.update("queue", put, visible_in=0)
    taken = await both.queue.receive_message(visibility_timeout=60)
    assert taken is not None
    assert (taken.content, taken.id, taken.dequeue_count) == (first, put.message_id, 1)
    await both.queue.delete_message(taken)
    sent = await both.queue.send_message(first, visibility_timeout=60)
    moved = await both.queue.update_message(sent.id, sent.pop_receipt, second, visibility_timeout=0)
    (message,) = await both.queues.get_messages("queue", count=32, hidden_for=60)
    assert (message.text, message.receipt.message_id, message.dequeue_count) == (second, moved.id, 1)
    assert message.inserted == sent.inserted_on
    await both.queues.update("queue", message.receipt, visible_in=0, text=first)
    (again,) = await both.queues.get_messages("queue", hidden_for=60)
    assert (again.text, again.dequeue_count) == (first, 2)
    await both.queues.delete_message("queue", again.receipt)
    assert [found async for found in both.queue.receive_messages()] == []
