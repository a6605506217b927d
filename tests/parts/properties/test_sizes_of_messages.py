"""Whatever happens, its message fits into a queue: 64 KiB as base64, with room for what a later version adds."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.base import bounds
from shared.base.priority import PRIORITIES
from shared.queue.artifacts import rules
from shared.queue.events.announcer import to_json
from shared.queue.events.rules import ArtifactEvent, Event, Exchange, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.effects import PendingContent, PutClaim, PutDeadline
from shared.queue.tasks.internal_messages import (
    GROUP_QUEUE,
    RESOLVED_QUEUE,
    GroupJobBody,
    ResolvedBody,
    encode_body,
)
from shared.queue.tasks.messages import Messages, poison_queue
from shared.queue.tasks.rules import MAX_RUNS, Resolved, State
from shared.runtime import Runtime
from shared.store import keys, limits
from shared.store.interface import Create
from tests.parts.twin import MemoryStorage
from tests.parts.twin.clock import VirtualClock
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import unordered
from tests.selection import examples

ROOM = 0.5
"""The largest share of a message's limit that an internal message may take."""
SLUGID = f"{'_' * 8}Q_G{'_' * 10}g"
LONGEST_ID = "w" * 38
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)

PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
NAMES = st.text(PRINTABLE, min_size=1, max_size=rules.MAX_NAME) | st.sampled_from(PRINTABLE).map(
    lambda each: each * rules.MAX_NAME
)
TYPES = st.text(max_size=255) | st.sampled_from(['"', "\\", "\x00", "é", "\u2028", "\U0001f600"]).map(lambda x: x * 255)
ARTIFACTS = st.builds(
    ArtifactEvent, storage_type=st.just("reference"), name=NAMES, expires=st.just(LATEST), content_type=TYPES
)
TASK_EVENTS = st.builds(
    TaskEvent,
    exchange=st.sampled_from([one for one in Exchange if "group" not in one]),
    task_id=st.just(SLUGID),
    run_id=st.just(MAX_RUNS),
    retries_left=st.just(MAX_RUNS),
    artifact=st.none() | ARTIFACTS,
    old_priority=st.sampled_from(PRIORITIES),
    new_priority=st.sampled_from(PRIORITIES),
    sequence=st.just(2**63),
    snapshot=st.just(Snapshot(priority="very-high", runs=MAX_RUNS, state=State.UNSCHEDULED, taken_until=LATEST)),
)
GROUP_EVENTS = st.builds(
    GroupEvent,
    exchange=st.sampled_from([one for one in Exchange if "group" in one]),
    task_group_id=st.just(SLUGID),
    scheduler_id=st.just(LONGEST_ID),
    occasion=st.just(f"{SLUGID}~{2**31}"),
    expires=st.just(LATEST),
    sealed=st.just(LATEST),
    new_priority=st.sampled_from(PRIORITIES),
    tasks_affected=st.just(2**31),
)


def _messages(memory: MemoryStorage, clock: VirtualClock) -> Messages:
    runtime = Runtime(now=clock.now, slugid=lambda: SLUGID, jitter=lambda: 0.5, sleep=clock.sleep)
    return Messages(memory.storage, runtime, ["key"], timedelta(minutes=1))


def _fit(memory: MemoryStorage, *queues: str) -> None:
    texts = [message.text for queue in queues for message in memory.messages(queue)]
    assert texts
    assert max(len(text.encode()) for text in texts) <= ROOM * limits.MAX_MESSAGE


@settings(deadline=None, max_examples=examples(50))
@given(TASK_EVENTS | GROUP_EVENTS)
def test_pointer_to_any_event_fits(event: Event) -> None:
    """The pointer to any event fits into a message, also if its names are quoted twice in JSON."""
    text = encode_body({"pointer": to_json(event), "attempts": 99, "waits": 99})
    limits.check_text(text)
    assert len(text) <= ROOM * limits.MAX_MESSAGE


async def test_every_message_of_the_longest_ids_fits() -> None:
    clock = VirtualClock()
    memory = MemoryStorage(clock)
    messages = _messages(memory, clock)
    pool = f"{LONGEST_ID}/{LONGEST_ID}"
    content = PendingContent(task_queue_id=pool, task_id=SLUGID, run_id=MAX_RUNS, hint_id=SLUGID)
    handle = await messages.put_pending(content, "lowest", None)
    await messages.move_pending(handle, content, clock.now() + timedelta(days=6))
    await messages.put_claim(PutClaim(task_id=SLUGID, run_id=MAX_RUNS, taken_until=LATEST, started=LATEST))
    deadline = PutDeadline(task_id=SLUGID, task_group_id=SLUGID, scheduler_id=LONGEST_ID, deadline=clock.now())
    await messages.put_deadline(deadline)
    page = f"{keys.dependent(SLUGID)} "
    left = ResolvedBody(task_id=SLUGID, run_id=MAX_RUNS, put=LATEST, start=page, end=page, delay=3.25)
    await messages.put_body(left, 0)
    job = GroupJobBody(task_group_id=SLUGID, kind="priority", new_priority="very-high", number=2**31, listed=page)
    await messages.put_body(job, 0)
    _fit(memory, handle.queue, "claim", "deadline", RESOLVED_QUEUE, GROUP_QUEUE)


@pytest.mark.parametrize("edges", [bounds.EDGES_AT_A_TIME - 1, bounds.EDGES_AT_A_TIME, bounds.EDGES_AT_A_TIME + 1])
def test_edges_that_wait_for_their_dependents_fit_into_a_message(edges: int) -> None:
    """A page of edges that wait for their dependents fits into a message, which names each with its ETag."""
    world = unordered()

    async def story() -> None:
        await world.create(A)
        for _ in range(edges):
            await world.memory.storage.tables.transact(keys.TASKS, A, [Create(keys.dependent(world.slugid()), {})])
        assert await world.claim()
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        await world.clock.sleep(2)
        await world.handle_visible()
        await world.handle_visible()

    world.run(story())
    waiting = [body["waiting"] for body, _ in world.messages(RESOLVED_QUEUE) if "waiting" in body]
    assert sorted(map(len, waiting), reverse=True) == [
        min(edges, bounds.EDGES_AT_A_TIME),
        *[1] * (edges > bounds.EDGES_AT_A_TIME),
    ]
    _fit(world.memory, RESOLVED_QUEUE)


@settings(deadline=None, max_examples=examples(50))
@given(st.sampled_from(["x", "é", "\ufffd", "\U0001f600", "\x00"]), st.sampled_from([1, 16_384, 49_152, 49_153]))
async def test_whatever_is_dead_lettered_is_kept_as_far_as_it_fits(character: str, length: int) -> None:
    """What is dead-lettered is kept as far as it fits, also a message of somebody else, or a damaged one, in which each
    wrong byte has become a character of three bytes."""
    clock = VirtualClock()
    memory = MemoryStorage(clock)
    text = character * length
    await _messages(memory, clock).poison("claim", text)
    (message,) = memory.messages(poison_queue("claim"))
    kept = base64.b64decode(message.text).decode(errors="ignore")
    assert text.startswith(kept)
    assert kept == text or len(message.text) > 0.99 * limits.MAX_MESSAGE
