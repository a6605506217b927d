"""A resolution is carried to all of its dependents page by page, in bounded work, and with a timer behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from shared.base import bounds
from shared.base.dates import parse_date
from shared.base.protocol import ORPHAN_AFTER
from shared.queue.tasks.codec import pack_definition
from shared.queue.tasks.internal_messages import DEADLINE_QUEUE, RESOLVED_QUEUE, ResolvedBody
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Fail, Phase, process_name
from tests.promises.simulator.depending import write_edges
from tests.promises.simulator.situations import GROUP, A, B, C, failed_and_completed_again
from tests.promises.simulator.world import World, resolved_message, unordered


@dataclass
class Handled:
    """Counts the resolved messages that are handled, by task."""

    world: World
    messages: list[ResolvedBody] = field(default_factory=list)

    def __post_init__(self) -> None:
        handle = self.world.handlers.resolution.resolved_due

        async def counted(message: ResolvedBody) -> None:
            self.messages.append(message)
            await handle(message)

        self.world.handlers.resolution.resolved_due = counted  # type: ignore[method-assign]


async def _complete(world: World, *task_ids: str) -> None:
    assert len(await world.claim(len(task_ids))) == len(task_ids)
    for task_id in task_ids:
        await world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED)


def _edges(world: World, task_id: str) -> int:
    inside = [row for row in world.rows(keys.GROUPS) if row.key.startswith(keys.unblocked(task_id)[0])]
    return len(inside) + sum(row.key.startswith("dependent~") for row in world.rows(keys.TASKS, task_id))


async def _edge(world: World, required: str, dependent: str, place: str) -> None:
    """Writes an edge of a call that died."""
    if place == "in the group":
        await write_edges(world, world.tasks()[required].task_group_id, dependent, [required])
    else:
        await world.services.stores.tasks.edges.rewrite(required, dependent)


IN_PLACE = pytest.mark.parametrize("place", ["in the group", "of another group"])


SMALL_PAGE = 5
"""Number of edges of a page in tests with many pages."""


@IN_PLACE
@pytest.mark.parametrize(("edges", "page"), [(1, 100), (99, 100), (100, 100), (101, 100), (51, SMALL_PAGE)])
def test_dead_edges_cost_a_bounded_number_of_looks(
    edges: int, page: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edges of dead calls cost a bounded number of looks: a page leads to the next one only once."""
    monkeypatch.setattr(bounds, "EDGES_AT_A_TIME", page)
    world = unordered()
    handled = Handled(world)

    async def story() -> None:
        await world.create(A)
        for _ in range(edges):
            await _edge(world, A, world.slugid(), place)
        await _complete(world, A)
        await world.drain(400)

    world.run(story())
    pages = -(-edges // page)
    assert len([message for message in handled.messages if message.waiting is None]) == pages
    assert len(handled.messages) <= 14 * pages
    assert _edges(world, A) == 0
    assert world.messages(RESOLVED_QUEUE) == []


@pytest.mark.parametrize(
    ("inside", "outside", "page"),
    [(101, 0, 100), (0, 101, 100), (11, 0, SMALL_PAGE), (0, 11, SMALL_PAGE), (6, 6, SMALL_PAGE), (3, 11, SMALL_PAGE)],
)
def test_dependents_of_every_page_become_pending(
    inside: int, outside: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "EDGES_AT_A_TIME", page)
    world = unordered()
    handled = Handled(world)
    count = inside + outside

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        for number in range(count):
            await world.create(dependencies=[A], **({"taskGroupId": GROUP} if number < inside else {}))
        await _complete(world, A)
        await world.drain(30)
        states = [task.state for task_id, task in world.tasks().items() if task_id != A]
        assert states == [State.PENDING] * count

    world.run(story())
    pages = [max(0, -(-edges // page) - 1) for edges in (inside, outside)]
    assert len(handled.messages) == 1 + sum(pages), "each page leads to the next one of its place once"


@IN_PLACE
@pytest.mark.parametrize("age", [0, 240])
def test_dependent_that_commits_late_is_found_by_a_later_look(age: float, place: str) -> None:
    """A dependent that commits late is found by a later look. It had read its dependency as running, and its edge was
    read before its commit. Another edge of the page, of a call that died, is `age` seconds older: the page is looked at
    for as long as the youngest of its edges may get its dependent."""

    async def slow(call: Call, phase: Phase) -> None:
        if (
            phase is Phase.BEFORE
            and call.kind is Kind.TABLE_WRITE
            and call.subject == B
            and keys.TASK_STATUS in call.keys
        ):
            await world.clock.sleep(100)

    world = unordered(slow)

    async def story() -> None:
        await world.create(A, taskGroupId=GROUP)
        await _edge(world, A, C, place)
        await world.clock.sleep(age)
        assert await world.claim()

    async def resolve() -> None:
        await world.clock.sleep(1)
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        await world.drain(200)

    world.run(story())
    group = {"taskGroupId": GROUP} if place == "in the group" else {}
    world.run(world.process().create_task(world.definition(B, dependencies=[A], **group)), resolve())
    assert world.tasks()[B].state is State.PENDING


@IN_PLACE
@pytest.mark.parametrize("is_looked_at_again", [False, True])
@pytest.mark.parametrize(("seconds", "left"), [(-5, 1), (5, 0)])
def test_edge_without_a_dependent_stays_for_as_long_as_its_call_may_commit(
    seconds: float, left: int, is_looked_at_again: bool, place: str
) -> None:
    world = unordered()

    async def story() -> None:
        await world.create(A)
        await _complete(world, A)
        await _edge(world, A, B, place)
        message = ResolvedBody(task_id=A, run_id=0, put=world.clock.now())
        if is_looked_at_again:
            await world.handlers.resolution.resolved_due(message)
            put = [resolved_message(body) for body, _ in world.messages(RESOLVED_QUEUE)]
            (message,) = (each for each in put if each.waiting is not None)
        await world.clock.sleep(ORPHAN_AFTER.total_seconds() + seconds)
        await world.handlers.resolution.resolved_due(message)

    world.run(story())
    assert _edges(world, A) == left


def test_message_before_its_commit_is_looked_at_again() -> None:
    world = unordered()

    async def story() -> None:
        await world.create(A)
        await world.create(B, dependencies=[A])
        assert await world.claim()
        message = ResolvedBody(task_id=A, run_id=0, put=world.clock.now())
        await world.handlers.resolution.resolved_due(message)
        (again,) = world.messages(RESOLVED_QUEUE)
        assert parse_date(again[0]["put"]) == message.put
        await world.drain(240)
        assert len(world.messages(RESOLVED_QUEUE)) == 1, "the commit may still come"
        await world.drain(120)
        assert world.messages(RESOLVED_QUEUE) == []

    world.run(story())


def test_deadline_message_goes_last() -> None:
    """The deadline message is removed last, so that the timer exists wherever the handler fails."""

    def of_handler(call: Call) -> bool:
        return process_name() == "handler" and not call.kind.name.startswith("QUEUE")

    for number in range(1, 12):
        skip = [number]

        def chosen(call: Call, skip: list[int] = skip) -> bool:
            if not of_handler(call):
                return False
            skip[0] -= 1
            return skip[0] <= 0

        gate = Fail(chosen, times=10**6)
        world = unordered(gate)

        async def story(world: World = world, gate: Fail = gate) -> None:
            gate.times = 0
            await world.create(A, taskGroupId=GROUP)
            await world.create(B, taskGroupId=GROUP, dependencies=[A])
            await _complete(world, A)
            gate.times = 10**6
            await world.drain(30)

        world.run(story())
        assert sum(body["taskId"] == A for body, _ in world.messages(DEADLINE_QUEUE)) == (skip[0] <= 0), number


def test_deadline_message_of_a_rerun_goes_with_the_resolution_of_the_rerun() -> None:
    """The deadline message of a rerun is removed with the rerun's resolution, not with an earlier run's."""
    world = unordered()

    async def handled(run_id: int) -> bool:
        """Handles a resolution; returns whether the task's deadline message is left."""
        handle = world.tasks()[A].handles.deadline
        assert handle is not None
        message = ResolvedBody(task_id=A, run_id=run_id, put=world.clock.now())
        await world.handlers.resolution.resolved_due(message)
        return handle.message_id in {each.message_id for each in world.account.messages(DEADLINE_QUEUE)}

    async def story() -> None:
        await failed_and_completed_again(world)
        assert await handled(0)
        assert not await handled(1)

    world.run(story())


def test_young_orphans_are_waited_for_by_one_handler_alone() -> None:
    """Each handler looks once at young orphans; then only that of the last resolution goes on."""
    world = unordered()
    handled = Handled(world)

    async def die_in_create() -> None:
        orphan = world.definition(taskGroupId=GROUP)
        await world.services.create_task._membership.join(orphan, await pack_definition(orphan))

    async def story() -> None:
        ids = [await world.create(taskGroupId=GROUP)]
        for _ in range(7):  # in front of all other rows, and more than one look at the group reads
            await die_in_create()
        ids += [await world.create(taskGroupId=GROUP) for _ in range(20)]
        await _complete(world, *ids)
        for _ in range(3):
            await world.drain(200)
            assert world.topics.of("task-group-resolved") == []
            await die_in_create()
        await world.drain(700)
        assert len(world.topics.of("task-group-resolved")) == 1
        assert len(handled.messages) <= 2 * len(ids) + 8
        assert sum(not message.group_only for message in handled.messages) == len(ids), "the rest is done once"

    world.run(story())
