"""Tables through the SDK, on Azurite: what each request means, and how it is refused."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from shared.store.counting import Kind, counting
from shared.store.interface import (
    Create,
    Delete,
    Merge,
    Operation,
    Refusal,
    Replace,
    Storage,
    Tables,
    TransactionRefused,
    Upsert,
    Value,
)

_ELSE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""


@pytest.fixture
async def tables(azure_storage: Storage) -> Tables:
    """Tables with the row "there" in partition "p" of Tasks."""
    await azure_storage.tables.transact("Tasks", "p", [Create("there", {"n": 1, "kept": "x"})])
    return azure_storage.tables


async def _values(tables: Tables, key: str) -> object:
    row = await tables.get("Tasks", "p", key)
    return row and dict(row.values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"text": "é\U0001f600 'quoted' \"twice\" <&> \\ \r\n\t\x01", "empty": ""},
        {"binary": bytes(range(256)), "nothing": b""},
        {"least": -(2**63), "below": -(2**31) - 1, "zero": 0, "above": 2**31, "most": 2**63 - 1},
        {"yes": True, "no": False, "one": 1},
        {f"property_{number}": number for number in range(252)},
        {"text": "x" * 32_768, "binary": b"\xff" * 65_536},
        {f"p{number}": b"\xff" * 65_000 for number in range(12)},
    ],
    ids=["none", "text", "binary", "numbers", "truth", "252", "largest properties", "large entity"],
)
@pytest.mark.parametrize("rows", [1, 2])
async def test_values_come_back_as_they_went(azure_storage: Storage, values: dict[str, Value], rows: int) -> None:
    keys = [f"k{number}" for number in range(rows)]
    etags = await azure_storage.tables.transact("Tasks", "p", [Create(key, values) for key in keys])
    for key, etag in zip(keys, etags, strict=True):
        row = await azure_storage.tables.get("Tasks", "p", key)
        assert row is not None
        assert (row.partition, row.key, row.etag) == ("p", key, etag)
        assert dict(row.values) == values
        assert [type(value) for value in row.values.values()] == [type(value) for value in values.values()]
        assert abs(row.timestamp - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("key", ["'", "''", "a'b", "%41", "a+b", "a b", "a&b=c;d", "{x}", "é", "\U0001f600", "k" * 512])
@pytest.mark.parametrize("rows", [1, 2])
async def test_any_legal_key_works_everywhere(azure_storage: Storage, key: str, rows: int) -> None:
    tables = azure_storage.tables
    other: list[Operation] = [Upsert("other", {})] * (rows - 1)
    await tables.transact("Tasks", key, [Create(key, {"n": 1}), *other])
    await tables.transact("Tasks", key, [Merge(key, {"m": 2}), *other])
    row = await tables.get("Tasks", key, key)
    assert row is not None
    assert (row.partition, row.key, dict(row.values)) == (key, key, {"n": 1, "m": 2})
    page = await tables.query("Tasks", key, start=key, end=f"{key[:511]}\uffff")
    assert [row.key for row in page.rows if row.key != "other"] == [key]
    await tables.transact("Tasks", key, [Delete(key, row.etag), *other])
    assert await tables.get("Tasks", key, key) is None


async def test_what_the_operations_do(tables: Tables) -> None:
    (merged,) = await tables.transact("Tasks", "p", [Merge("there", {"n": 2, "new": True})])
    assert await _values(tables, "there") == {"n": 2, "kept": "x", "new": True}
    (replaced,) = await tables.transact("Tasks", "p", [Replace("there", {"m": 3}, merged)])
    assert await _values(tables, "there") == {"m": 3}
    (upserted,) = await tables.transact("Tasks", "p", [Upsert("there", {"o": 4})])
    assert await _values(tables, "there") == {"o": 4}
    assert len({merged, replaced, upserted}) == 3
    assert await tables.transact("Tasks", "p", [Delete("there", upserted)]) == [""]
    assert await _values(tables, "there") is None


_REFUSED: list[tuple[Operation, Refusal]] = [
    (Create("there", {}), Refusal.EXISTS),
    (Merge("gone", {}), Refusal.MISSING),
    (Merge("gone", {}, _ELSE), Refusal.MISSING),
    (Merge("there", {}, _ELSE), Refusal.STALE),
    (Replace("gone", {}), Refusal.MISSING),
    (Replace("gone", {}, _ELSE), Refusal.MISSING),
    (Replace("there", {}, _ELSE), Refusal.STALE),
    (Delete("gone"), Refusal.MISSING),
    (Delete("gone", _ELSE), Refusal.MISSING),
    (Delete("there", _ELSE), Refusal.STALE),
]


@pytest.mark.parametrize(("operation", "refusal"), _REFUSED)
async def test_single_operation_refused(tables: Tables, operation: Operation, refusal: Refusal) -> None:
    with pytest.raises(TransactionRefused) as caught:
        await tables.transact("Tasks", "p", [operation])
    assert (caught.value.index, caught.value.refusal) == (0, refusal)
    assert await _values(tables, "there") == {"n": 1, "kept": "x"}


@pytest.mark.parametrize(("operation", "refusal"), _REFUSED)
@pytest.mark.parametrize("index", [0, 2])
async def test_refusal_names_its_index_in_a_batch(
    tables: Tables, operation: Operation, refusal: Refusal, index: int
) -> None:
    operations: list[Operation] = [Create("a", {}), Upsert("b", {}), Create("c", {})]
    operations.insert(index, operation)
    with pytest.raises(TransactionRefused) as caught:
        await tables.transact("Tasks", "p", operations)
    assert (caught.value.index, caught.value.refusal) == (index, refusal)
    page = await tables.query("Tasks", "p", start="", end="\uffff")
    assert [(row.key, dict(row.values)) for row in page.rows] == [("there", {"n": 1, "kept": "x"})]


async def test_a_range_is_read_page_by_page(azure_storage: Storage) -> None:
    tables = azure_storage.tables
    keys = ["a", "a ", "a!", "ab", "b", "b~", "c"]
    await tables.transact("Tasks", "p", [Create(key, {"key": key}) for key in keys])
    await tables.transact("Tasks", "other", [Create("a", {})])

    async def pages(start: str, end: str, limit: int) -> Sequence[list[str]]:
        found = []
        resume: str | None = start
        while resume is not None:
            with counting() as operations:
                page = await tables.query("Tasks", "p", start=resume, end=end, limit=limit)
            assert operations.total == 1
            found.append([row.key for row in page.rows])
            resume = page.resume
        return found

    assert await pages("", "\uffff", 1000) == [keys]
    assert await pages("", "\uffff", 7) == [keys]
    assert await pages("", "\uffff", 3) == [keys[:3], keys[3:6], keys[6:]]
    assert await pages("", "\uffff", 1) == [[key] for key in keys]
    assert await pages("a!", "b~", 2) == [["a!", "ab"], ["b"]]
    assert await pages("b", "b", 2) == [[]]
    assert await pages("d", "e", 2) == [[]]


async def test_a_selection_returns_only_the_named_properties(tables: Tables) -> None:
    page = await tables.query("Tasks", "p", start="", end="\uffff", select=["n", "missing"])
    (row,) = page.rows
    assert (row.partition, row.key, dict(row.values)) == ("p", "there", {"n": 1})
    assert row.etag
    assert row.timestamp.tzinfo is not None
    (bare,) = (await tables.query("Tasks", "p", start="", end="\uffff", select=[])).rows
    assert dict(bare.values) == {}


async def test_a_table_that_is_not_there(azure_storage: Storage) -> None:
    tables = azure_storage.tables
    with counting() as operations:
        assert await tables.get("Nothing", "p", "k") is None
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


async def test_compare_and_swap_loses_no_increment(tables: Tables) -> None:
    all_have_read = asyncio.Barrier(8)

    async def count_up() -> int:
        refused = 0
        while True:
            row = await tables.get("Tasks", "p", "there")
            assert row is not None
            if not refused:
                await all_have_read.wait()
            value = row.values["n"]
            assert isinstance(value, int)
            try:
                await tables.transact("Tasks", "p", [Merge("there", {"n": value + 1}, row.etag), Upsert("b", {})])
                return refused
            except TransactionRefused as error:
                assert error.refusal is Refusal.STALE
                refused += 1

    refused = await asyncio.gather(*(count_up() for _ in range(8)))
    assert (await _values(tables, "there")) == {"n": 9, "kept": "x"}
    assert sum(refused) >= 7
