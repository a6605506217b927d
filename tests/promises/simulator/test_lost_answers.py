"""The answer to a write is lost, another call or handler acts, and only then the SDK sends the write again.

The victim cannot tell its own write from that of others by the refusal. A commit that took effect is acknowledged
any call that followed; nothing that it relies on is rolled back; and the invariants hold, at once and in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shared.base.errors import ApiError
from shared.queue.events.announcer import EventsUnavailable
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Phase, Resent, process_name
from tests.promises.simulator import artifact_invariants
from tests.promises.simulator.artifact_scenarios import ARTIFACT_SCENARIOS
from tests.promises.simulator.company import COMPANY, PROCESS, interfere
from tests.promises.simulator.daily import SEED_VARIABLE, todays_chance, todays_seed
from tests.promises.simulator.running import READS, VICTIM, attempt, finish, requests
from tests.promises.simulator.scenarios import SCENARIOS, Scenario
from tests.promises.simulator.world import World

SAMPLE = 1
"""Number of commits and of other writes of each scenario that a run without `--all` takes."""
ALL = [*SCENARIOS, *ARTIFACT_SCENARIOS]
_READS = {*READS, Kind.QUEUE_GET}


@dataclass
class LoseAnswer:
    """A gate that loses the answer to one request of the victim, lets the company act, and repeats the request."""

    number: int
    company: str
    world: World | None = None
    """The world, to be set before the victim acts."""
    sent: int = 0
    hit: Call | None = None
    sequence: int | None = None
    has_committed: bool = False
    """Whether the request whose answer was lost is a commit that took effect."""
    has_acted: bool = False
    """Whether the company has written anything."""

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts the victim's requests, and interferes when it is time."""
        if process_name() == PROCESS:
            self.has_acted |= call.kind not in _READS
        if process_name() != VICTIM:
            return
        assert self.world is not None
        if phase is Phase.BEFORE and self.hit is None:
            self.sent += 1
            if self.sent == self.number:
                self.hit = call
                self.sequence = self._sequence(call)
        elif phase is Phase.AFTER and self.hit is call and self.number:
            self.number = 0
            self.has_committed = self._sequence(call) != self.sequence
            await interfere(COMPANY[self.company], self.world)
            raise Resent

    def _sequence(self, call: Call) -> int | None:
        assert self.world is not None
        if call.target != keys.TASKS or keys.TASK_STATUS not in call.keys:
            return None
        task = self.world.tasks().get(call.subject)
        return None if task is None else task.sequence


def _run(scenario: Scenario, number: int, company: str) -> None:
    gate = LoseAnswer(number, company)

    def open_world(*gates: object) -> World:
        gate.world = World(None, gate)
        return gate.world

    done = attempt(scenario, open_world=open_world)
    assert gate.number == 0, "the request is made"
    if not gate.has_acted:
        return  # as if no other call had been there
    if gate.has_committed:
        assert done.outcome is None, repr(done.outcome)
    else:
        assert isinstance(done.outcome, ApiError | StorageUnavailable | EventsUnavailable | None), repr(done.outcome)
    # A write ahead whose answer is lost looks like another call's: it waits for the reconciler.
    finish(done.world, is_acknowledged=done.is_acknowledged, settles=False)
    if scenario in ARTIFACT_SCENARIOS:
        done.world.run(done.world.handlers.expiration.run(600))
        artifact_invariants.check_to_the_end(done.world, is_acknowledged=done.is_acknowledged, hours=(12, 48, 48))


def _cases(scenario: Scenario) -> Iterator[tuple[int, Call, str]]:
    for number, call in enumerate(requests(scenario), 1):
        if call.kind not in _READS:
            yield from ((number, call, company) for company in COMPANY)


def _all_end_well(scenario: Scenario, cases: list[tuple[int, Call, str]]) -> None:
    for number, call, company in cases:
        try:
            _run(scenario, number, company)
        except BaseException as failure:
            failure.add_note(f"the answer to request {number} was lost ({call}), meanwhile: {company}")
            failure.add_note(f"once more: {SEED_VARIABLE}={todays_seed()}")
            raise


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_lost_answer_while_another_call_acts_by_chance(scenario: Scenario) -> None:
    """A sample of lost answers, of commits and of other writes, is harmless while other calls act."""
    chance = todays_chance(f"lost answers, {scenario.name}")
    cases = list(_cases(scenario))
    commits = [case for case in cases if keys.TASK_STATUS in case[1].keys]
    others = [case for case in cases if case not in commits]
    for kind in (commits, others):
        _all_end_well(scenario, chance.sample(kind, min(SAMPLE, len(kind))))


@pytest.mark.large
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_lost_answer_while_another_call_acts(scenario: Scenario) -> None:
    """A lost answer to any write of any call is harmless while other calls act, half of which are tried each day."""
    cases = list(_cases(scenario))
    chance = todays_chance(f"lost answers, {scenario.name}")
    _all_end_well(scenario, chance.sample(cases, (len(cases) + 1) // 2))
