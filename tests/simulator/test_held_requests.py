"""One request of a call or handler is held up, before it is sent or before its answer is read, while others act.

What is read side by side is then of different times: nothing may be concluded from the two together. Each request is
held up in turn while the company does all that it has to do; then everything that is due is handled, and the
invariants must hold.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from shared.base.errors import ApiError
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from shared.store.interface import Receipt
from tests.simulator import parties
from tests.simulator.parties import DEPENDENT, ELSEWHERE, Party
from tests.simulator.running import VICTIM, finish_once
from tests.simulator.situations import A, B, Step, failed_and_completed_again, running
from tests.simulator.world import World
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, as_process, process_name


@dataclass
class Hold:
    """A gate that holds up the victim's request of that number (from 1; 0: none) in one phase until it is released."""

    number: int
    phase: Phase
    calls: list[Call] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts the victim's requests, and holds up one."""
        if process_name() != VICTIM:
            return
        if phase is Phase.BEFORE:
            self.calls.append(call)
        is_held = 0 < self.number <= len(self.calls) and self.calls[self.number - 1] is call
        if is_held and phase is self.phase:
            self.reached.set()
            await self.released.wait()


@dataclass(frozen=True)
class Encounter:
    """A victim whose requests are held up, and the company that acts meanwhile, one call after the other."""

    name: str
    prepare: Step
    victim: Party
    company: tuple[Party, ...]


async def just_committed(world: World) -> None:
    """A is completed; its resolved message is in a handler's hands already."""
    await running(world)
    await parties.commit_completed(A)(world, world.services)


async def failed_and_completed_without_messages(world: World) -> None:
    """A has failed, was run again and is completed; both resolved messages are in handlers' hands."""
    await failed_and_completed_again(world)
    queues = world.memory.storage.queues
    for message in world.memory.messages(RESOLVED_QUEUE):
        receipt = Receipt(message_id=message.message_id, pop_receipt=message.pop_receipt, visible=message.visible)
        await queues.delete(RESOLVED_QUEUE, receipt)


ENCOUNTERS = [
    Encounter(
        "a resolved message before its commit, a new dependent and the commit",
        running,
        parties.handle_resolved(A),
        (parties.create(B, dependencies=[A]), parties.commit_completed(A)),
    ),
    Encounter(
        "a resolved message before its commit, the commit and a new dependent",
        running,
        parties.handle_resolved(A),
        (parties.commit_completed(A), parties.create(B, dependencies=[A])),
    ),
    Encounter(
        "a new dependent, its dependency's commit and resolved message",
        running,
        parties.create(B, dependencies=[A]),
        (parties.commit_completed(A), parties.handle_resolved(A)),
    ),
    Encounter(
        "a resolved message before its commit, a new dependent of another group and the commit",
        running,
        parties.handle_resolved(A),
        (parties.create(B, **ELSEWHERE), parties.commit_completed(A)),
    ),
    Encounter(
        "a new dependent that knows its dependency, that one's commit and resolved message",
        running,
        parties.create_knowing(B, **DEPENDENT),
        (parties.commit_completed(A), parties.handle_resolved(A)),
    ),
    Encounter(
        "a new dependent of another group, its dependency's commit and resolved message",
        running,
        parties.create_knowing(B, **ELSEWHERE),
        (parties.commit_completed(A), parties.handle_resolved(A)),
    ),
    Encounter(
        "a resolved message, a new dependent that knows the task",
        just_committed,
        parties.handle_resolved(A),
        (parties.create_knowing(B, **DEPENDENT),),
    ),
    Encounter(
        "a resolved message, a new dependent",
        just_committed,
        parties.handle_resolved(A),
        (parties.create(B, **DEPENDENT),),
    ),
    Encounter(
        "a resolved message, a new dependent of another group",
        just_committed,
        parties.handle_resolved(A),
        (parties.create(B, **ELSEWHERE),),
    ),
    Encounter(
        "a new dependent that knows its dependency, the resolved message",
        just_committed,
        parties.create_knowing(B, **DEPENDENT),
        (parties.handle_resolved(A),),
    ),
    Encounter(
        "the late resolved message of a failed run, that of its rerun and a new dependent",
        failed_and_completed_without_messages,
        parties.handle_resolved(A, 0),
        (parties.handle_resolved(A, 1), parties.create_knowing(B, **DEPENDENT)),
    ),
    Encounter(
        "the resolved message of a rerun, a new dependent and the late message of its failed run",
        failed_and_completed_without_messages,
        parties.handle_resolved(A, 1),
        (parties.create_knowing(B, **DEPENDENT), parties.handle_resolved(A, 0)),
    ),
]


def _run(encounter: Encounter, number: int, phase: Phase, seen: set[str]) -> Hold:
    hold = Hold(number, phase)
    world = World(Simulation.scripted([]), hold)
    world.is_ordered = False
    world.run(encounter.prepare(world))
    definition = world.definition().body
    world.fixed = {name: definition[name] for name in ("created", "deadline", "expires")}
    victim, other = world.process(), world.process()

    async def held() -> None:
        try:
            await as_process(VICTIM, encounter.victim(world, victim))
        finally:
            hold.reached.set()

    async def company() -> None:
        await hold.reached.wait()
        try:
            for party in encounter.company:
                await party(world, other)
        finally:
            hold.released.set()

    outcomes = world.simulation.outcomes(held(), company())
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ApiError):
            raise outcome
    finish_once(world, seen, is_acknowledged=not any(isinstance(outcome, ApiError) for outcome in outcomes))
    return hold


@pytest.mark.parametrize("encounter", ENCOUNTERS, ids=lambda encounter: encounter.name)
def test_company_while_a_request_is_held_up(encounter: Encounter) -> None:
    """Every request of the victim in turn, before it takes effect and after."""
    seen: set[str] = set()
    for number, at in enumerate(_run(encounter, 0, Phase.BEFORE, seen).calls, 1):
        for phase in Phase:
            try:
                _run(encounter, number, phase, seen)
            except BaseException as failure:
                failure.add_note(f"held up {phase.value} request {number}: {at}")
                raise
