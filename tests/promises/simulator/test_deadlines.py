"""Deadlines: chained timers, messages that come early, and messages of tasks that do not exist."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.protocol import LONGEST_TIMER
from shared.queue.tasks.internal_messages import DEADLINE_QUEUE, decode_body
from shared.queue.tasks.rules import Resolved, State
from shared.store.interface import Receipt
from tests.promises.simulator import world as worlds
from tests.promises.simulator.situations import GROUP, A, B, C
from tests.promises.simulator.world import World, unordered

DELAY = timedelta(seconds=worlds.settings().deadline_delay_seconds)


def _waiting(world: World) -> list[timedelta]:
    """Returns in how long each deadline message is visible."""
    return [visible - world.clock.now() for _, visible in world.messages(DEADLINE_QUEUE)]


@pytest.mark.parametrize("days", [6, 7, 8, 20])
def test_deadline_beyond_what_a_queue_allows(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline message is hidden for seven days at most, so that a later one is put again on the way, and seldom."""
    usual = worlds.settings()
    monkeypatch.setattr(worlds, "settings", lambda: usual.model_copy(update={"max_task_deadline_days": 30}))
    world = unordered()
    handled = 0
    handle = world.handlers.due.deadline_due

    async def counted(*arguments: object) -> None:
        nonlocal handled
        handled += 1
        await handle(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(world.handlers.due, "deadline_due", counted)

    async def story() -> None:
        deadline = world.clock.now() + timedelta(days=days)
        await world.create(A, deadline=format_date(deadline), expires=format_date(deadline + timedelta(days=1)))
        while deadline - world.clock.now() > timedelta(hours=1):
            assert len(_waiting(world)) == 1
            assert _waiting(world)[0] <= LONGEST_TIMER
            left = (deadline - world.clock.now()).total_seconds() - 1800
            await world.drain(min(left, timedelta(days=1).total_seconds()))
            assert world.tasks()[A].state is State.PENDING
        await world.drain(1800 + DELAY.total_seconds() + 30)
        assert world.tasks()[A].last_run.reason_resolved is Resolved.DEADLINE_EXCEEDED
        assert _waiting(world) == []

    world.run(story())
    assert handled == -(-timedelta(days=days) // LONGEST_TIMER)


@pytest.mark.parametrize("state", [State.PENDING, State.RUNNING, State.UNSCHEDULED])
def test_a_lost_deadline_message_is_put_again_soon_after_the_deadline(state: State) -> None:
    """A lost deadline message is put again soon after the deadline, by the reconciler or a check of the group."""
    world = unordered()

    async def story() -> None:
        expires = format_date(world.clock.now() + timedelta(days=365))
        await world.create(A, taskGroupId=GROUP, expires=expires)
        if state is State.RUNNING:
            assert await world.claim()
        if state is State.UNSCHEDULED:
            deadline = format_date(world.clock.now() + timedelta(hours=5))
            await world.create(B, taskGroupId=GROUP, expires=expires, deadline=deadline)
            await world.create(C, taskGroupId=GROUP, expires=expires, dependencies=[B])
        lost = C if state is State.UNSCHEDULED else A
        for message in world.account.messages(DEADLINE_QUEUE):
            if decode_body(message.text)["taskId"] == lost:
                receipt = Receipt(
                    message_id=message.message_id, pop_receipt=message.pop_receipt, visible=message.visible
                )
                await world.memory.storage.queues.delete_message(DEADLINE_QUEUE, receipt)
        for _ in range(8):
            await world.drain(3600)
        assert world.tasks()[lost].last_run.reason_resolved is Resolved.DEADLINE_EXCEEDED

    world.run(story())
