"""The in-memory twin behaves as Azurite does, answer for answer, through the adapters of `shared.store`.

Where they are known to differ (and Azure agrees with the twin, or does not say):
- ETags (of one row), ids and receipts are compared by which of the earlier ones they equal, not by their text.
- Azurite orders messages by the time they became visible, to the millisecond: a pause keeps requests apart.
- Azurite does not check the size of what a merge results in; the twin refuses it as Azure does.
- Azurite keeps staged blocks when the blob is overwritten as a whole; Azure and the twin drop them (Azure's
  documentation of Put Block). So a path is either uploaded or made of blocks here.
"""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shared.store.interface import Queues, ReceiptLost, Storage
from tests.parts.properties.storage_sides import Step, compare
from tests.parts.twin import MemoryStorage
from tests.selection import examples
from tools.local.azurite import Azurite

_KEYS = ("a", "b", "b ", "b~1", "c'% +&=é", "\U0001f600", "ﬀ")


def _step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(*arguments).map(lambda drawn: Step(name, drawn))


_key = st.sampled_from(("a", "a", "b", *_KEYS))  # mostly the same ones, or nothing would ever meet
_numbers = st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)])
_texts = st.sampled_from(["", "x", " y ", "é\U0001f600'\"\\/<&>", "line\r\nbreak\x01", "2026-01-01T00:00:00.000Z", "1"])
_value = st.one_of(_numbers, st.booleans(), _texts, st.sampled_from([b"", b"\x00\xff", b"x" * 5000]))
_values = st.dictionaries(st.sampled_from(["state", "n", "x_1"]), _value, max_size=3)
_etag = st.none() | st.none() | st.integers(0, 5)
_kind = st.sampled_from(["upsert", "upsert", "create", "merge", "merge", "replace", "delete"])
_operation = st.tuples(_kind, _key, _values, _etag)
_operations = st.lists(_operation, min_size=2, max_size=4, unique_by=lambda operation: operation[1])
_range = st.sampled_from(["", " ", *_KEYS, "a ", "b/", "\uffff"])
_select = st.none() | st.sampled_from([(), ("state",), ("n", "missing")])
_table_steps = st.lists(
    st.one_of(
        _step("transact", _operations),
        _step("transact", st.tuples(_operation)),
        _step("transact", st.tuples(_operation)),
        _step("get_row", _key),
        _step("query", _range, _range, st.sampled_from([1, 2, 1000]), _select),
    ),
    min_size=8,
    max_size=24,
)

_delays = st.sampled_from([0, 0, 600, 604_800, 604_801])
_messages = st.sampled_from(["x", "a <b> & 'c' \"d\"", "é\U0001f600", "eyJ0YXNrSWQiOiJhIn0=", "", "x\x00", " x "])
_queue_steps = st.lists(
    st.one_of(
        _step("put", _messages, _delays),
        _step("get", st.sampled_from([1, 2, 32, 33])),
        _step("peek", st.sampled_from([1, 32])),
        _step("length"),
        _step("update", st.integers(0, 9), st.sampled_from([0, 0, 600, 604_801]), st.none() | _messages),
        _step("delete", st.integers(0, 9)),
    ),
    min_size=8,
    max_size=24,
)

_uploaded = st.sampled_from(["t/0/a", "t/1/ä %?#&+"])
_staged = st.sampled_from(["t/0/b", "u"])
_path = _uploaded | _staged
_block = st.sampled_from(["b1", "b2"])
_type = st.sampled_from(["text/plain", "application/json; charset=utf-8"])
_encoding = st.sampled_from(["", "gzip"])
_content = st.sampled_from([b"", b"hello", b"\x1f\x8b not really gzip", b"x" * 100_000])
_blob_steps = st.lists(
    st.one_of(
        _step("upload", _uploaded, _content, _type, _encoding),
        _step("download", _path, st.sampled_from([0, 0, 3, 1_000_000]), st.sampled_from([None, 1, 5, 1_000_000, 0])),
        _step("properties", _path),
        _step("put_block", _staged, _block, _content.filter(len)),
        _step(
            "commit", _staged, st.lists(_block, min_size=1, max_size=2, unique=True).map(tuple), _type, st.booleans()
        ),
        _step("delete_blob", _uploaded),
        _step("set_headers", _path, _type, _encoding, st.sampled_from(["always", "as it is", "changed"])),
        _step("list_paths", st.sampled_from(["", "t/", "t/0/", "z"]), st.sampled_from([1, 2, 1000])),
    ),
    min_size=8,
    max_size=24,
)

_TABLES = [
    Step("transact", ([("create", "a", {"n": 1, "state": "x"}, None)],)),
    Step("transact", ([("create", "a", {}, None)],)),
    Step("transact", ([("merge", "a", {"x_1": True}, 0)],)),
    Step("transact", ([("merge", "a", {"n": 2}, 0)],)),
    Step("transact", ([("replace", "a", {"n": 3}, 1)],)),
    Step("transact", ([("delete", "a", {}, 0)],)),
    Step("transact", ([("upsert", "b", {"n": 0}, None), ("delete", "c", {}, None)],)),
    Step("transact", ([("upsert", "b", {"n": 0}, None), ("create", "b~1", {}, None), ("merge", "a", {"n": 4}, 2)],)),
    Step("transact", ([("upsert", "b", {}, None), ("replace", "a", {}, 0)],)),
    Step("query", ("", "b", 1000, None)),
    Step("query", ("b", "b~1", 1000, None)),
    Step("query", ("", "\uffff", 1, None)),
    Step("query", ("a", "\uffff", 2, ("n", "missing"))),
    Step("transact", ([("delete", "b", {}, None)],)),
    Step("get_row", ("b",)),
]
_QUEUES = [
    *(Step("put", ("x", 0)), Step("put", (" x ", 600)), Step("peek", (32,)), Step("get", (1,))),
    *(Step("update", (0, 0, None)), Step("update", (2, 0, "y")), Step("get", (2,)), Step("delete", (2,))),
    *(Step("delete", (4,)), Step("delete", (4,)), Step("update", (1, 0, None)), Step("get", (32,)), Step("length", ())),
]
_BLOBS = [
    Step("upload", ("t/0/a", b"hello", "text/plain", "gzip")),
    *(Step("download", ("t/0/a", 3, 1)), Step("download", ("t/0/a", 0, 1_000_000))),
    Step("upload", ("t/0/a", b"", "application/json; charset=utf-8", "")),
    *(Step("properties", ("t/0/a",)), Step("put_block", ("u", "b1", b"hello")), Step("download", ("u", 0, None))),
    Step("commit", ("u", ("b1", "b2"), "text/plain", False)),
    *(Step("put_block", ("u", "b2", b" you")), Step("commit", ("u", ("b1", "b2"), "text/plain", False))),
    *(Step("commit", ("u", ("b1", "b2"), "a/b", True)), Step("properties", ("u",)), Step("download", ("u", 0, None))),
    *(Step("put_block", ("u", "b1", b"new")), Step("commit", ("u", ("b1",), "text/plain", True))),
    *(Step("download", ("u", 0, None)), Step("set_headers", ("u", "a/b", "gzip", "as it is"))),
    *(Step("set_headers", ("u", "c/d", "", "changed")), Step("properties", ("u",)), Step("list_paths", ("t/", 1))),
    *(Step("list_paths", ("z", 1000)), Step("delete_blob", ("t/0/a",)), Step("delete_blob", ("t/0/a",))),
]
"""Steps in which each refusal and each option has its turn: random ones seldom meet."""

_quick = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
_thorough = settings(_quick, max_examples=250)


@_quick
@given(steps=_table_steps)
@example(steps=_TABLES)
def test_tables_answer_as_azurite(azurite: Azurite, steps: list[Step]) -> None:
    asyncio.run(compare(azurite, steps))


@_quick
@given(steps=_queue_steps)
@example(steps=_QUEUES)
def test_queues(azurite: Azurite, steps: list[Step]) -> None:
    asyncio.run(compare(azurite, steps))


@_quick
@given(steps=_blob_steps)
@example(steps=_BLOBS)
def test_blobs(azurite: Azurite, steps: list[Step]) -> None:
    asyncio.run(compare(azurite, steps))


@pytest.mark.large
@pytest.mark.timeout(900)
@_thorough
@given(st.one_of(_table_steps, _queue_steps, _blob_steps))
def test_all_kinds_answer_as_azurite_at_length(azurite: Azurite, steps: list[Step]) -> None:
    asyncio.run(compare(azurite, steps))


async def test_messages_come_back_in_time(azure_storage: Storage, twin: MemoryStorage) -> None:
    """Messages hidden by a Put, a Get and an Update are there after one second of real time, in this order."""
    seen = []
    for storage in (azure_storage, twin.storage):
        queues = storage.queues
        started = time.monotonic()
        await queues.put_message("q-1", "taken")
        (taken,) = await queues.get_messages("q-1", hidden_for=0.2)  # a second at least
        await queues.put_message("q-1", "put", visible_in=1)
        moved = await queues.put_message("q-1", "moved", visible_in=600)
        await queues.update("q-1", moved, visible_in=0.9)
        hidden = await queues.peek("q-1", count=32)
        hidden_in_time = time.monotonic() - started < 0.9
        if storage is twin.storage:
            twin.clock.advance(1.1)
        else:
            await _until_visible(queues, 3)
        back = await queues.get_messages("q-1", count=32, hidden_for=600)
        seen.append([(message.text, message.dequeue_count) for message in back])
        assert not hidden or not hidden_in_time
        with pytest.raises(ReceiptLost):
            await queues.delete_message("q-1", taken.receipt)
    assert seen[0] == seen[1] == [("taken", 2), ("put", 1), ("moved", 1)]


async def _until_visible(queues: Queues, count: int) -> None:
    for _ in range(300):
        if len(await queues.peek("q-1", count=32)) == count:
            return
        await asyncio.sleep(0.02)
    pytest.fail("the messages did not come back")
