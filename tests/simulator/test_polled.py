"""Workers with poll URLs on the twin: what becomes of messages that are handed in, hidden, deleted, or confused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from shared.app.services import Services
from shared.base.errors import InputError, ServiceUnavailable
from shared.queue.claims.work import Claim
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved, State, Worker
from shared.store.interface import Message, ReceiptLost
from tests.simulator.hostile import LONGEST, delete, poll_answer, take
from tests.simulator.world import POOL, WORKER, World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase

T = TypeVar("T")
INTERVAL = 120.0
"""Seconds after which a worker that asks all the time finds what was hidden: given time, and the next check."""


def done(world: World, work: Coroutine[Any, Any, T]) -> T:
    (result,) = world.run(work)
    return result


async def hand_in(world: World, messages: list[Message], count: int = 32, worker: Worker = WORKER) -> list[Claim]:
    return await world.services.work.claim_polled(POOL, worker, count, poll_answer(messages), 20)


async def claim_all(world: World, seconds: float = INTERVAL, services: Services | None = None) -> list[str]:
    """The tasks that a worker gets which asks all the time for so long."""
    until = world.clock.now() + timedelta(seconds=seconds)
    claimed: list[str] = []
    while world.clock.now() < until:
        claimed.extend(claim.task.task_id for claim in await world.claim(32, services))
    return claimed


def visible(world: World) -> int:
    """Messages of the lowest band that anybody can take now."""
    messages = world.memory.queues.messages(pending_queue(POOL, "lowest"))
    return sum(message.visible <= world.clock.now() for message in messages)


def test_messages_become_claims_in_one_call() -> None:
    async def script(world: World) -> None:
        ids = [await world.create() for _ in range(3)]
        claims = await hand_in(world, await take(world))
        assert [claim.task.task_id for claim in claims] == ids
        assert {run.worker_id for claim in claims for run in claim.task.runs} == {"worker"}

    world = World()
    done(world, script(world))


def test_no_more_than_asked_for_and_the_rest_is_there_at_once() -> None:
    async def script(world: World) -> None:
        for _ in range(5):
            await world.create()
        assert len(await hand_in(world, await take(world), count=2)) == 2
        assert visible(world) == 3

    world = World()
    done(world, script(world))


def test_nothing_is_claimed_where_the_rest_cannot_be_let_go() -> None:
    """Its receipts are the worker's: storage may refuse one in a way that nobody has thought of."""
    world = World()

    async def script(world: World) -> None:
        for _ in range(2):
            await world.create()
        messages = await take(world)

        async def refuse(call: Call, phase: Phase) -> None:
            if phase is Phase.BEFORE and call.subject == messages[1].receipt.message_id:
                raise RuntimeError("no such receipt")

        world.memory.gate = refuse
        with pytest.raises(RuntimeError):
            await hand_in(world, messages, count=1)
        assert {task.state for task in world.tasks().values()} == {State.PENDING}

    done(world, script(world))


def test_a_quarantined_worker_waits_in_vain_and_others_get_the_work() -> None:
    async def script(world: World) -> None:
        await world.create()
        await world.create()
        assert len(await world.claim()) == 1  # so that the worker is known
        until = world.clock.now() + timedelta(hours=1)
        await world.services.workers.quarantine(POOL, WORKER, until, client_id="c", info="")
        before = world.clock.now()
        assert await hand_in(world, await take(world)) == []
        assert (world.clock.now() - before).total_seconds() >= 20
        assert visible(world) == 1
        assert len(await hand_in(world, await take(world), worker=replace(WORKER, worker_id="other"))) == 1

    world = World()
    done(world, script(world))


def test_what_is_no_poll_answer_is_refused_and_changes_nothing() -> None:
    async def script(world: World) -> None:
        with pytest.raises(InputError):
            await world.services.work.claim_polled(POOL, WORKER, 1, "<html/>", 20)

    world = World()
    done(world, script(world))
    assert world.memory.queues.names() == []


def test_everything_that_is_hidden_for_a_week_or_deleted_is_back_within_the_interval() -> None:
    async def script(world: World) -> None:
        ids = [await world.create() for _ in range(45)]
        hidden = await take(world, hidden=LONGEST)
        assert len(hidden) == 32
        deleted = await take(world)
        await delete(world, deleted)
        assert await claim_all(world, 30) == [], "nothing is visible, and it may still be under way"
        claimed = await claim_all(world)
        assert Counter(claimed) == Counter(ids)

    world = World()
    done(world, script(world))


def test_hidden_messages_that_are_handed_in_after_the_recovery_claim_nothing() -> None:
    async def script(world: World) -> None:
        ids = [await world.create() for _ in range(4)]
        hidden = await take(world, hidden=LONGEST)
        assert sorted(await claim_all(world, 2 * INTERVAL)) == sorted(ids)
        assert await hand_in(world, hidden) == []
        for task_id in ids:
            task = world.tasks()[task_id]
            assert [run.state for run in task.runs] == [State.RUNNING]
            await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        await world.clock.sleep(600)
        assert await claim_all(world) == []

    world = World()
    done(world, script(world))


def test_a_holder_who_hides_every_message_again_gets_no_claims_and_breaks_nothing() -> None:
    """While the attacker goes on, the pool is blocked; when it stops, the pool recovers."""

    async def script(world: World) -> None:
        ids = [await world.create() for _ in range(3)]
        taken: list[Message] = []
        for _ in range(10):
            taken += await take(world, hidden=LONGEST)
            await world.clock.sleep(61)
            await world.handlers.reconciler.check_all()
        taken += await take(world, hidden=LONGEST)
        old = taken[: len(taken) // 2]
        with pytest.raises(ServiceUnavailable):  # this process remembers the tasks as they were many commits ago
            await hand_in(world, old[:32])
        assert await hand_in(world, old[:32]) == [], "their hints do not count any more"
        assert sorted(await claim_all(world)) == sorted(ids)

    world = World()
    done(world, script(world))


def test_the_oldest_message_of_a_busy_band_that_was_hidden_is_found_missing() -> None:
    """The band never is empty: it is the age of its first message that shows it."""

    async def script(world: World) -> None:
        oldest = await world.create()
        await take(world, hidden=LONGEST)
        await world.create()
        claimed: list[str] = []
        for minute in range(14):
            await world.create()
            claimed += [claim.task.task_id for claim in await world.claim(1)]
            assert visible(world) >= 1
            assert (oldest in claimed) <= (minute > 10)
            await world.clock.sleep(60)
            await world.handlers.reconciler.check_all()
        claimed += [claim.task.task_id for claim in await world.claim(32)]
        assert oldest in claimed

    world = World()
    done(world, script(world))


def test_the_text_of_one_message_with_the_receipt_of_another_spoils_nothing_for_good() -> None:
    async def script(world: World) -> None:
        ids = [await world.create() for _ in range(2)]
        first, second = await take(world)
        confused = [replace(first, receipt=second.receipt)]
        claims = await hand_in(world, confused)
        assert [claim.task.task_id for claim in claims] == [ids[0]], "it is signed: a claim like any other"
        rest = await claim_all(world, 300 + INTERVAL)
        assert rest == [ids[1]]
        await world.services.lifecycle.report(ids[0], 0, Resolved.COMPLETED)
        await world.services.lifecycle.report(ids[1], 0, Resolved.COMPLETED)
        await world.clock.sleep(3600)
        assert await claim_all(world) == []

    world = World()
    done(world, script(world))


def test_receipts_that_were_used_are_worth_nothing() -> None:
    async def script(world: World) -> None:
        task_id = await world.create()
        taken = await take(world)
        assert len(await hand_in(world, taken)) == 1
        for _ in range(3):
            assert await hand_in(world, taken) == []
        with pytest.raises(ReceiptLost):
            await delete(world, taken)
        await world.clock.sleep(21 * 60)
        (retry,) = await hand_in(world, await take(world))
        assert (retry.task.task_id, retry.run_id) == (task_id, 1)

    world = World()
    done(world, script(world))


def test_a_lease_that_is_deleted_after_taken_until_does_not_stop_the_retry() -> None:
    async def script(world: World) -> None:
        task_id = await world.create()
        await hand_in(world, await take(world))
        await world.clock.sleep(20 * 60 + 1)
        await delete(world, await take(world))
        await world.drain(5)
        (retry,) = await hand_in(world, await take(world))
        assert (retry.task.task_id, retry.run_id) == (task_id, 1)

    world = World()
    done(world, script(world))


@pytest.mark.parametrize("seed", range(25))
def test_two_workers_with_messages_of_the_same_tasks_claim_each_once(seed: int) -> None:
    """One polls with URLs, the other waits in claimWork, in any interleaving."""
    world = World(Simulation.seeded(seed))

    async def poller() -> list[str]:
        claimed: list[str] = []
        for _ in range(4):
            messages = await take(world, count=2)
            if messages:
                claimed += [claim.task.task_id for claim in await hand_in(world, messages, count=1)]
        return claimed

    async def waiter() -> list[str]:
        return [claim.task.task_id for _ in range(3) for claim in await world.claim(2, world.handlers)]

    async def create() -> list[str]:
        return [await world.create() for _ in range(4)]

    ids = done(world, create())
    first, second = world.run(poller(), waiter())
    both = Counter([*first, *second])
    assert all(count == 1 for count in both.values())
    rest = done(world, claim_all(world))
    assert sorted([*first, *second, *rest]) == sorted(ids)
