"""A call that loses every compare-and-swap is refused with 503, and rolls back what it has written ahead."""

from __future__ import annotations

import pytest

from shared.base.errors import ServiceUnavailable
from shared.base.priority import PRIORITIES
from shared.base.retrying import LOST_RACE
from shared.queue.tasks.internal_messages import DEADLINE_QUEUE, RESOLVED_QUEUE
from shared.queue.tasks.messages import pending_queue
from shared.store import keys
from shared.store.counting import Kind
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator import parties
from tests.promises.simulator.parties import Party
from tests.promises.simulator.running import VICTIM, finish
from tests.promises.simulator.situations import A, Step, completed, pending, running
from tests.promises.simulator.world import POOL, World, unordered


class Overtake:
    """A gate that makes another commit right before each commit of the victim."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.times = 0

    async def __call__(self, call: Call, phase: Phase) -> None:
        is_commit = call.kind is Kind.TABLE_WRITE and keys.TASK_STATUS in call.keys
        if self.world is None or phase is not Phase.BEFORE or process_name() != VICTIM or not is_commit:
            return
        self.times += 1
        await as_process("other", self._commit(self.world))

    @staticmethod
    async def _commit(world: World) -> None:
        """Commits without anything written ahead, so that all that is left is the victim's."""
        tasks = world.services.stores.tasks
        read = await tasks.existing(A)
        await tasks.commit(read, read.task)


def _rows(world: World) -> set[str]:
    """Returns the keys of a pool's and a group's rows, but that of returned claims, which stays as long as the pool."""
    return {row.key for row in (*world.rows(keys.POOLS), *world.rows(keys.GROUPS))} - {keys.RETURNED}


def _messages(world: World) -> list[object]:
    queues = (RESOLVED_QUEUE, DEADLINE_QUEUE, *(pending_queue(POOL, band) for band in PRIORITIES))
    return [body for queue in queues for body, _ in world.messages(queue)]


@pytest.mark.parametrize(
    ("prepare", "party"),
    [(running, parties.cancel(A)), (pending, parties.change_priority(A, "high")), (completed, parties.rerun(A))],
    ids=["cancelTask", "changeTaskPriority", "rerunTask"],
)
def test_call_that_is_overtaken_too_often_rolls_back(prepare: Step, party: Party) -> None:
    gate = Overtake()
    world = unordered(gate)
    world.run(prepare(world))
    messages, rows = _messages(world), _rows(world)
    gate.world = world
    (outcome,) = world.simulation.outcomes(world.victim(party(world, world.services)))
    assert isinstance(outcome, ServiceUnavailable)
    assert gate.times == LOST_RACE.tries + (prepare is not completed)  # one more on the version that it knows
    assert _messages(world) == messages
    assert _rows(world) == rows
    gate.world = None
    finish(world, is_acknowledged=False)
