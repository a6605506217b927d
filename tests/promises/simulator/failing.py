"""Lets requests of a call fail, and checks the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shared.base.errors import ServiceUnavailable
from shared.queue.events.announcer import EventsUnavailable
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Phase, process_name
from tests.promises.simulator.daily import some
from tests.promises.simulator.running import READS, VICTIM, Attempt, Harmed, Left, attempt

RETRYABLE = (StorageUnavailable, ServiceUnavailable, EventsUnavailable)


@dataclass
class FailAt:
    """A gate that fails the victim's request of that number (from 1), or with `lasting` all from it on."""

    number: int
    phase: Phase
    error: Callable[[], Exception] = StorageUnavailable
    lasting: bool = False
    sent: int = 0
    hit: Call | None = None

    def __call__(self, call: Call, phase: Phase) -> None:
        """Counts what is sent, and fails when it is time."""
        if process_name() != VICTIM:
            return
        if phase is Phase.BEFORE:
            self.sent += 1
            if self.sent == self.number:
                self.hit = call
            if self.lasting and self.sent >= self.number:
                raise self.error()
        if self.hit is call and phase is self.phase:
            self.hit = None
            raise self.error()


def fail(harmed: Harmed) -> None:
    """Lets each request of the call fail for good, without its effect or with it (a read has none), or all from it on,
    so that what was written ahead cannot be rolled back."""
    scenario = harmed.scenario
    last = set[int]()

    def once(number: int) -> Attempt:
        gate = FailAt(number, Phase.BEFORE)
        done = attempt(scenario, gate)
        if gate.sent == number:
            last.add(number)  # nothing was sent after it that could fail as well
        return done

    def answer_lost(number: int) -> Attempt:
        return attempt(scenario, FailAt(number, Phase.AFTER))

    def from_there_on(number: int) -> Attempt:
        return attempt(scenario, FailAt(number, Phase.BEFORE, lasting=True))

    def finish(done: Attempt) -> None:
        if done.outcome is not None:
            done.repeat()
        harmed.finish(done)

    numbered = some(list(enumerate(harmed.calls, 1)), harmed.one_in, f"failures of {scenario.name}")
    finish_each(numbered, once, finish, harmed.seen)
    finish_each([each for each in numbered if each[1].kind not in READS], answer_lost, finish, harmed.seen)
    finish_each([each for each in numbered if each[0] not in last], from_there_on, finish, harmed.seen)


def finish_each(
    numbered: Iterable[tuple[int, Call]],
    make: Callable[[int], Attempt],
    finish: Callable[[Attempt], None],
    seen: set[Left],
) -> None:
    """Makes the call with a fault at each of these requests. It is answered, or fails retryably; then `finish` repeats
    it, if it was not answered, and handles what is due. If several faults leave the same, as noted in `seen`, only one
    is finished."""
    for number, at in numbered:
        try:
            done = make(number)
            assert done.outcome is None or isinstance(done.outcome, RETRYABLE), repr(done.outcome)
            if done.left not in seen:
                seen.add(done.left)
                finish(done)
        except BaseException as failure:
            failure.add_note(f"request {number}: {at}")
            raise
