"""Answers to a claim's writes, or to the worker, that were lost."""

from __future__ import annotations

from contextlib import suppress

import pytest

from shared.queue.tasks.effects import ChangePoolRows, row_of
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import Create, StorageUnavailable
from tests.simulator import invariants
from tests.simulator.claimer import (
    ANOTHER,
    Once,
    a_world,
    is_commit,
    of_worker,
    quarantine,
)
from tests.simulator.running import finish
from tests.simulator.situations import A
from tests.simulator.world import CLAIM_TIMEOUT, POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Killed, Phase, Resent, as_process


def test_recent_tasks_names_a_claim_once_though_the_answer_was_lost() -> None:
    gate = Once(of_worker, Phase.AFTER, Resent)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        assert len(await as_process("claimer", world.claim())) == 1
        assert not gate.is_armed
        assert (await world.services.workers.get(POOL, WORKER)).record.recent_tasks == ((A, 0),)

    world.run(story())


def test_one_quarantine_is_one_entry_though_the_answer_was_lost() -> None:
    gate = Once(of_worker, Phase.AFTER, Resent)
    world = a_world(gate)

    async def story() -> None:
        await world.claim()
        gate.is_armed = True
        await as_process("claimer", quarantine(world))
        assert not gate.is_armed
        known = await world.services.workers.get(POOL, WORKER)
        assert len(known.history) == 1
        assert known.record.is_quarantined(world.clock.now())

    world.run(story())


def test_a_claim_that_no_worker_received_is_announced_before_its_end() -> None:
    """The process dies between commit and announcement."""
    gate = Once(is_commit, Phase.AFTER, Killed)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        await as_process("claimer", world.claim())

    world.simulation.outcomes(story())
    assert world.topics.of("task-running") == []
    world.run(world.drain(CLAIM_TIMEOUT.total_seconds() + 5))
    kinds = [message.topic for message in world.topics.messages]
    assert kinds[-3:] == ["task-running", "task-exception", "task-pending"]


def test_rows_of_claims_answer_the_etag_of_the_workers_row() -> None:
    """By which the worker's next call knows that no one else has written it."""
    world = World(Simulation.scripted([]))
    world.is_ordered = False

    async def story() -> None:
        await world.create(A)
        assert await world.claim()
        added = ChangePoolRows(task_queue_id=POOL, add=(row_of(world.tasks()[A], 0),))
        key = keys.worker("group", "another")
        etag = await world.services.stores.pools.change([added], POOL, [Create(key, {})])
        (row,) = (row for row in world.rows(keys.POOLS, keys.pool(POOL)) if row.key == key)
        assert etag == row.etag

    world.run(story())


@pytest.mark.parametrize("trouble", [Resent, StorageUnavailable], ids=["sent again", "given up"])
def test_a_message_that_a_lost_answer_has_hidden_is_replaced(trouble: type[Exception]) -> None:
    """Nobody knows the receipt by which it is held for as long as a claim would last. In a band with other messages the
    reconciler does not miss it for ten minutes."""
    gate = Once(lambda call: call.kind is Kind.QUEUE_UPDATE, Phase.AFTER, trouble)
    world = a_world(gate)

    async def story() -> None:
        await world.create(A)
        gate.is_armed = True
        with suppress(StorageUnavailable):
            await as_process("claimer", world.services.work.claim_work(POOL, WORKER, 1, 1.5))
        assert not gate.is_armed
        await world.create()
        await world.services.work.claim_work(POOL, ANOTHER, 2, 1.5)
        assert world.tasks()[A].state is State.RUNNING
        invariants.check(world)

    world.run(story())
    finish(world, is_acknowledged=False)
