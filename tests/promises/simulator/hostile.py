"""An attacker with the poll URLs of a pool: takes, hides and deletes its messages, and hands in forged ones."""

from __future__ import annotations

from collections.abc import Sequence

from shared.base.priority import PRIORITIES
from shared.queue.tasks.messages import pending_queue
from shared.store.interface import Message
from tests.promises.simulator.world import POOL, World

LONGEST = 7 * 24 * 3600.0
"""Seconds that a message can be hidden for."""


def poll_answer(messages: Sequence[Message]) -> str:
    """Returns the messages as a poll URL returns them."""
    time = "%a, %d %b %Y %H:%M:%S GMT"
    listed = "".join(
        f"<QueueMessage><MessageId>{message.receipt.message_id}</MessageId>"
        f"<InsertionTime>{message.inserted.strftime(time)}</InsertionTime>"
        f"<PopReceipt>{message.receipt.pop_receipt}</PopReceipt>"
        f"<TimeNextVisible>{message.receipt.visible.strftime(time)}</TimeNextVisible>"
        f"<DequeueCount>{message.dequeue_count}</DequeueCount><MessageText>{message.text}</MessageText></QueueMessage>"
        for message in messages
    )
    return f'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>{listed}</QueueMessagesList>'


async def take(world: World, *, count: int = 32, hidden: float = 300) -> list[Message]:
    """Takes what a worker with the poll URLs sees: up to `count` messages of the highest band that has any."""
    for band in PRIORITIES:
        messages = await world.memory.queues.get_messages(pending_queue(POOL, band), count=count, hidden_for=hidden)
        if messages:
            return messages
    return []


async def delete(world: World, messages: Sequence[Message]) -> None:
    """Deletes messages that were taken from the lowest band."""
    for message in messages:
        await world.memory.queues.delete_message(pending_queue(POOL, "lowest"), message.receipt)
