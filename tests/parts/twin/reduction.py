"""Every order of requests that can make a difference, and of those that cannot, only one.

    explore_distinct(scenario)       # as `explore`, over the same simulations

Two requests that touch nothing in common may be swapped without anybody noticing, so of all orders that differ only
by such swaps one is run (sleep sets). Between processes, `in_order`, a request is taken before another one only where
that one was seen to depend on it (source sets of Abdulla and others). What remains is complete:
each end that any order leads to is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from shared.store.counting import Kind
from tests.parts.twin.driver import Simulation, TooManyOrders
from tests.parts.twin.gate import Call, Phase, process_name

_READS = {Kind.TABLE_READ, Kind.QUEUE_PEEK, Kind.BLOB_READ}
_OF_ONE_MESSAGE = {Kind.QUEUE_UPDATE, Kind.QUEUE_DELETE}
_POLLED = "pending-"
_TABLE = {Kind.TABLE_READ, Kind.TABLE_WRITE}


def are_independent(one: Call, other: Call) -> bool:
    """Whether the two requests may be swapped: neither can see, or is refused because of, the other."""
    if one.target != other.target or (one.kind in _READS and other.kind in _READS):
        return True
    if {one.kind, other.kind} <= _TABLE:
        named = one.keys and other.keys
        return one.subject != other.subject or bool(named and not set(one.keys) & set(other.keys))
    if {one.kind, other.kind} <= _OF_ONE_MESSAGE:
        return one.subject != other.subject
    if Kind.QUEUE_PUT in {one.kind, other.kind}:
        # A new message is none that was named before; of two, the first may be taken first where workers poll.
        both_new = one.kind is other.kind
        return not one.target.startswith(_POLLED) if both_new else bool({one.kind, other.kind} & _OF_ONE_MESSAGE)
    return False


class _Redundant(Exception):
    """This order differs from one that was run by swaps alone."""


@dataclass
class _Fork:
    """A moment at which several processes have a request at the gate, in the order of sending."""

    ready: list[str]
    asleep: set[str]
    """Names of processes whose turn at this moment has been run before, in another order."""
    taken: list[str]
    """Names of the processes that had the turn in each run from here; the last one has it now."""
    wanted: set[str]
    """Names of processes whose turn has to be tried, as what depends on a step taken here begins there."""

    def go_on(self) -> bool:
        """Gives the turn to the next process; returns False if there is none left."""
        left = [each for each in self.ready if each in self.wanted - self.asleep - {*self.taken}]
        self.taken += left[:1]
        return bool(left)


@dataclass(frozen=True)
class _Step:
    """A request that was let through."""

    process: str
    call: Call
    fork: _Fork | None
    known: dict[str, int]
    """By process, the number of its last step that this one follows from, itself included."""


class _Waiting:
    """A request at the gate."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.process = process_name()
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class ReducedSimulation(Simulation):
    """A simulation that takes a script of choices. One that explores stops as soon as what follows has been run before.

    `in_order`: what a process sends side by side arrives in the order in which it was sent, so that only the orders
    between processes are left (name them with `as_process`).
    """

    def __init__(self, script: Sequence[int], *, in_order: bool = False, forks: list[_Fork] | None = None) -> None:
        """Takes a script of choices, and the forks of the last run to go through again; new ones are added."""
        super().__init__(lambda options: 0)
        self._in_order = in_order
        self._forks = forks
        self._passed = 0
        self._steps: list[_Step] = []
        self._known: dict[str, dict[str, int]] = {}
        """By process: the last steps of each that it has seen anything of."""
        self._since = 0
        """The first step that anything may be taken before: all others are over before time goes on, or work ends."""
        self._now = 0.0
        self._script = list(script)
        self._requests: list[_Waiting] = []
        self._asleep: list[_Waiting] = []
        """What need not be taken now: its order with all that was taken since has been run before."""
        self.is_redundant = False

    def gate(self, call: Call, phase: Phase) -> asyncio.Future[None] | None:
        """Makes the request wait for its turn."""
        if phase is Phase.AFTER:
            return None
        waiting = _Waiting(call)
        self._requests.append(waiting)
        return waiting.turn

    def _let_through(self) -> bool:
        self._requests = [waiting for waiting in self._requests if not waiting.turn.done()]
        if not self._requests:
            return False
        if self._in_order:
            self._let_through_in_order()
            return True
        awake = [waiting for waiting in self._requests if waiting not in self._asleep]
        if self.is_redundant:  # the run is being wound up
            awake = self._requests
        elif not awake:
            self.is_redundant = True
            raise _Redundant
        chosen = 0
        if len(awake) > 1 and not self.is_redundant:
            chosen = self._script.pop(0) if self._script else 0
            self.choices.append((chosen, len(awake)))
        self._take(awake[chosen], awake[:chosen])
        return True

    def _take(self, taken: _Waiting, before: Sequence[_Waiting]) -> None:
        """Lets a request through. `before` are those that were taken here in earlier runs."""
        self._asleep = [
            waiting
            for waiting in (*self._asleep, *before)
            if are_independent(waiting.call, taken.call) and waiting is not taken
        ]
        self._requests.remove(taken)
        taken.turn.set_result(None)

    def outcomes(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Runs all as any simulation does. Nothing is taken before what was over before."""
        self._since = len(self._steps)
        return super().outcomes(*work)

    def _let_through_in_order(self) -> None:
        ready = {waiting.process: waiting for waiting in reversed(self._requests)}
        ready = dict(reversed(ready.items()))
        if self._now != self.clock.elapsed:
            self._since, self._now = len(self._steps), self.clock.elapsed
        if self._forks is None or self.is_redundant:  # a script is repeated, or the run is being wound up
            self._take(self._scripted(list(ready.values())), ())
            return
        asleep = {waiting.process for waiting in self._asleep}
        awake = [process for process in ready if process not in asleep]
        if not awake:
            self.is_redundant = True
            raise _Redundant
        fork, process = None, awake[0]
        if len(ready) > 1:
            if self._passed == len(self._forks):
                self._forks.append(_Fork([*ready], asleep, [process], {process}))
            fork = self._forks[self._passed]
            self._passed += 1
            process = fork.taken[-1]
            self.choices.append((fork.ready.index(process), len(ready)))
        taken = ready[process]
        self._note(taken, fork)
        self._take(taken, [ready[each] for each in fork.taken[:-1]] if fork else ())

    def _scripted(self, ready: Sequence[_Waiting]) -> _Waiting:
        chosen = 0
        if len(ready) > 1 and not self.is_redundant:
            chosen = self._script.pop(0) if self._script else 0
            self.choices.append((chosen, len(ready)))
        return ready[chosen]

    def _note(self, taken: _Waiting, fork: _Fork | None) -> None:
        """Notes that the request follows from the steps that it depends on. A step that it does not follow from in
        another way could come after it, which has to be tried."""
        known = self._known.setdefault(taken.process, {})
        races = []
        for number in range(len(self._steps) - 1, self._since - 1, -1):
            step = self._steps[number]
            if number <= known.get(step.process, -1) or are_independent(step.call, taken.call):
                continue
            races.append(number)
            for process, last in step.known.items():
                known[process] = max(known.get(process, -1), last)
        known[taken.process] = len(self._steps)
        self._steps.append(_Step(taken.process, taken.call, fork, dict(known)))
        for number in races:
            self._try_after(number)

    def _try_after(self, number: int) -> None:
        """Makes some run take the last step before an earlier one, preceded by what leads to it."""
        step = self._steps[number]
        if step.fork is None:
            return
        leading = [
            (at, each)
            for at, each in enumerate(self._steps[number + 1 :], number + 1)
            if each.known.get(step.process, -1) < number or at == len(self._steps) - 1
        ]
        first = {
            each.process: None
            for position, (_, each) in enumerate(leading)
            if not any(each.known.get(other.process, -1) >= before for before, other in leading[:position])
        }
        if not first.keys() & step.fork.wanted:
            step.fork.wanted.add(next(iter(first)))


def explore_distinct(scenario: Callable[[Simulation], None], *, limit: int = 20_000, in_order: bool = False) -> int:
    """Runs the scenario once for every order that makes a difference; returns how many there are.

    Some runs are begun and given up; all of them count for `limit`, beyond which TooManyOrders is raised.
    A failure carries the choices that lead to it (`ReducedSimulation`).
    """
    script: list[int] = []
    forks: list[_Fork] = []
    distinct = 0
    for _ in range(limit):
        simulation = ReducedSimulation(script, in_order=in_order, forks=forks)
        try:
            scenario(simulation)
            distinct += 1
        except _Redundant:
            pass  # its equal has been run
        except BaseException as error:
            chosen = [chosen for chosen, _ in simulation.choices]
            error.add_note(f"order: ReducedSimulation({chosen}, in_order={in_order})")
            raise
        if in_order:
            while forks and not forks[-1].go_on():
                forks.pop()
            if not forks:
                return distinct
            continue
        choices = simulation.choices
        while choices and choices[-1][0] + 1 == choices[-1][1]:
            choices.pop()
        if not choices:
            return distinct
        script = [chosen for chosen, _ in choices]
        script[-1] += 1
    raise TooManyOrders(f"more than {limit}")
