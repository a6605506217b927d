"""What passes the check of a transaction's size is sent as no more than Azure takes, and what we plan passes it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.base.dates import format_date
from shared.store import keys, limits
from shared.store import table_requests as batch
from shared.store.interface import MAX_OPERATIONS, Create, Delete, Merge, Operation, Replace, Upsert, Value
from shared.store.table_requests import encode_entity
from shared.store.wire import StorageEndpoint
from tests.parts.twin.gate import Call, Phase
from tests.promises.simulator.situations import GROUP
from tests.promises.simulator.world import POOL, WORKER, unordered
from tests.selection import examples

ENDPOINT = StorageEndpoint.of("https://" + "a" * 24 + ".table.core.windows.net")
TABLE = "T" * 63
ETAG = "W/\"datetime'2026-01-02T03%3A04%3A05.1234567Z'\""

KEYS = st.text(st.sampled_from(["x", "'", '"', " ", "~", "%", "é", "\u2028", "\U0001f600"]), min_size=1, max_size=40)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: name not in {"PartitionKey", "RowKey", "Timestamp"}
)
VALUES: st.SearchStrategy[Value] = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
    | st.sampled_from(["\x00", '"', "\\", "é", "\U0001f600"]).map(lambda each: each * 1000)
    | st.binary(max_size=200)
)
ROWS = st.dictionaries(NAMES, VALUES, max_size=10)
OPERATIONS: st.SearchStrategy[Operation] = (
    st.builds(Create, KEYS, ROWS)
    | st.builds(Upsert, KEYS, ROWS)
    | st.builds(Replace, KEYS, ROWS, st.just(ETAG))
    | st.builds(Merge, KEYS, ROWS, st.just(ETAG))
    | st.builds(Delete, KEYS, st.just(ETAG))
)


@settings(deadline=None, max_examples=examples(100))
@given(KEYS, KEYS, ROWS)
def test_entity_is_no_larger_than_it_counts(partition: str, key: str, values: dict[str, Value]) -> None:
    assert len(encode_entity(partition, key, values)) <= limits.entity_size(partition, key, values)


@settings(deadline=None, max_examples=examples(50))
@given(KEYS, st.lists(OPERATIONS, min_size=1, max_size=4))
@example("'" * limits.MAX_KEY, [Delete(f"{number}" + "'" * 500, ETAG) for number in range(8)])
@example("é" * limits.MAX_KEY, [Create(f"{number}" + "é" * 500, {}) for number in range(8)])
def test_transaction_is_no_larger_than_it_counts(partition: str, operations: list[Operation]) -> None:
    sent = batch.encode(ENDPOINT, TABLE, partition, operations).content
    assert len(sent) <= limits.transaction_size(partition, operations)


@pytest.mark.parametrize(("rows", "fits"), [(1, True), (5, True), (6, False)])
def test_transaction_of_four_mebibytes_is_refused_before_it_is_sent(rows: int, fits: bool) -> None:
    """A transaction of more than four mebibytes is refused before it is sent, although each of its rows would fit."""
    values: dict[str, Value] = {f"p{number}": bytes(60_000) for number in range(10)}
    operations = [Create(f"{number}", values) for number in range(rows)]
    assert (len(batch.encode(ENDPOINT, TABLE, "p", operations).content) <= limits.MAX_TRANSACTION) == fits
    if fits:
        limits.check_transaction("p", operations)
    else:
        with pytest.raises(ValueError, match="a transaction has about"):
            limits.check_transaction("p", operations)


class Largest:
    """A gate that notes the largest transactions. The twin refuses those that Azure would not take."""

    def __init__(self) -> None:
        self.operations = 0

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts the operations."""
        if phase is Phase.BEFORE:
            self.operations = max(self.operations, len(call.keys))


@pytest.mark.parametrize("count", [1, 31, 32])
def test_claims_of_one_call_fit_into_a_transaction(count: int) -> None:
    """The index rows of the claims of one call, and the worker's row, fit into one transaction."""
    gate = Largest()
    world = unordered(gate)

    async def story() -> None:
        for _ in range(count):
            await world.create()
        assert len(await world.claim(count)) == count
        ended, rest = await world.services.workers.removed(POOL, WORKER, start="")
        assert (len(ended), rest) == (count, None)

    world.run(story())
    assert gate.operations <= MAX_OPERATIONS


@pytest.mark.parametrize("count", [100, 101])
def test_tasks_that_expire_together_leave_their_group_in_transactions_that_fit(count: int) -> None:
    gate = Largest()
    world = unordered(gate)

    async def story() -> None:
        expires = format_date(world.clock.now() + timedelta(hours=4))
        for _ in range(count):
            task_id = await world.create(taskGroupId=GROUP, expires=expires)
            await world.services.lifecycle.cancel(await world.services.lifecycle.existing(task_id))
        await world.drain(8 * 3600)  # a group is looked into up to three hours later (contract 14.3)
        gate.operations = 0
        await world.handlers.expiration.run(600)

    world.run(story())
    assert not world.tasks()
    assert [row.key for row in world.rows(keys.GROUPS) if row.key.startswith("member~")] == []
    assert gate.operations == min(count, MAX_OPERATIONS)
