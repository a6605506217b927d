"""The largest rows, and tables that are not there, on Azurite. All else is compared with the twin
(tests/parts/properties)."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.store.counting import Kind, counting
from shared.store.interface import Create, Delete, Merge, Storage, TransactionRefused, Value


@pytest.mark.parametrize(
    "values",
    [
        {f"property_{number}": number for number in range(252)},
        {"text": "x" * 32_768, "binary": b"\xff" * 65_536},
        {f"p{number}": b"\xff" * 65_000 for number in range(12)},
    ],
    ids=["252", "largest properties", "large entity"],
)
@pytest.mark.parametrize("rows", [1, 2])
async def test_values_come_back_as_they_went(azure_storage: Storage, values: dict[str, Value], rows: int) -> None:
    keys = [f"k{number}" for number in range(rows)]
    etags = await azure_storage.tables.transact("Tasks", "p", [Create(key, values) for key in keys])
    for key, etag in zip(keys, etags, strict=True):
        row = await azure_storage.tables.get_row("Tasks", "p", key)
        assert row is not None
        assert (row.partition, row.key, row.etag) == ("p", key, etag)
        assert dict(row.values) == values
        assert [type(value) for value in row.values.values()] == [type(value) for value in values.values()]
        assert abs(row.timestamp - datetime.now(UTC)) < timedelta(minutes=1)


async def test_a_table_that_is_not_there(azure_storage: Storage) -> None:
    tables = azure_storage.tables
    with counting() as operations:
        assert await tables.get_row("Nothing", "p", "k") is None
        assert (await tables.query("Nothing", "p", start="", end="z")).rows == []
    assert operations.counts == {Kind.TABLE_READ: 2}
    with pytest.raises(TransactionRefused, match="missing"):
        await tables.transact("Merged", "p", [Merge("k", {})])
    with pytest.raises(TransactionRefused, match="operation 1: missing"):
        await tables.transact("Batched", "p", [Create("a", {}), Delete("k")])
    with counting() as operations:
        await tables.transact("Created", "p", [Create("a", {}), Create("b", {})])
    assert operations.counts == {Kind.TABLE_WRITE: 2, Kind.MAKE: 1}
    with counting() as operations:
        await tables.transact("Created", "p", [Create("c", {})])
    assert operations.counts == {Kind.TABLE_WRITE: 1}
