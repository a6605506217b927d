"""Workers with poll URLs on the twin: what becomes of messages that are handed in, hidden, deleted, or confused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.app.services import Services
from shared.base.errors import InputError, ServiceUnavailable
from shared.queue.claims.work import Claim
from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved, Worker
from shared.store.interface import Message
from tests.promises.simulator.hostile import LONGEST, delete, poll_answer, take
from tests.promises.simulator.running import done
from tests.promises.simulator.world import POOL, WORKER, World

INTERVAL = 120.0
"""Seconds after which a worker that asks all the time finds what was hidden: the grace, and the next check."""


async def hand_in(world: World, messages: list[Message], count: int = 32, worker: Worker = WORKER) -> list[Claim]:
    return await world.services.work.claim_polled(POOL, worker, count, poll_answer(messages), 20)


async def claim_all(world: World, seconds: float = INTERVAL, services: Services | None = None) -> list[str]:
    """Returns the tasks that a worker gets which asks for work for `seconds`."""
    until = world.clock.now() + timedelta(seconds=seconds)
    claimed: list[str] = []
    while world.clock.now() < until:
        claimed.extend(claim.task.task_id for claim in await world.claim(32, services))
    return claimed


def visible(world: World) -> int:
    """Returns the number of messages of the lowest band that anybody can take now."""
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


def test_a_holder_who_hides_every_message_again_gets_no_claims_and_breaks_nothing() -> None:
    """A holder of URLs who hides every message again gets no claims, and blocks the pool only meanwhile."""

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
