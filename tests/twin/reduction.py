"""Every order of requests that can make a difference, and of those that cannot, only one (sleep sets).

    explore_distinct(scenario)       # as `explore`, over the same simulations

Two requests that touch nothing in common may be swapped without anybody noticing, so of all orders that differ only
by such swaps one is run. What remains is complete: each end that any order leads to is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shared.store.counting import Kind
from tests.twin.driver import Simulation, TooManyOrders
from tests.twin.gate import Call, Phase, process_name

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


class _Waiting:
    """A request at the gate."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.process = process_name()
        self.turn = asyncio.get_running_loop().create_future()


class ReducedSimulation(Simulation):
    """A simulation that takes a script of choices, and stops as soon as what follows has been run before.

    `in_order`: what a process sends side by side arrives in the order in which it was sent, so that only the orders
    between processes are left (name them with `as_process`).
    """

    def __init__(self, script: Sequence[int], *, in_order: bool = False) -> None:
        super().__init__(lambda options: 0)
        self._in_order = in_order
        self._script = list(script)
        self._requests: list[_Waiting] = []
        self._asleep: list[_Waiting] = []
        """What need not be taken now: its order with all that was taken since has been run before."""
        self.is_redundant = False

    async def gate(self, call: Call, phase: Phase) -> None:
        """Waits for its turn."""
        if phase is Phase.AFTER:
            return
        waiting = _Waiting(call)
        self._requests.append(waiting)
        await waiting.turn

    def _let_through(self) -> bool:
        self._requests = [waiting for waiting in self._requests if not waiting.turn.done()]
        if not self._requests:
            return False
        ready = list({waiting.process: waiting for waiting in reversed(self._requests)}.values())[::-1]
        awake = [waiting for waiting in (ready if self._in_order else self._requests) if waiting not in self._asleep]
        if self.is_redundant:  # the run is being wound up
            awake = self._requests
        elif not awake:
            self.is_redundant = True
            raise _Redundant
        chosen = 0
        if len(awake) > 1 and not self.is_redundant:
            chosen = self._script.pop(0) if self._script else 0
            self.choices.append((chosen, len(awake)))
        taken = awake[chosen]
        self._asleep = [
            waiting
            for waiting in (*self._asleep, *awake[:chosen])
            if are_independent(waiting.call, taken.call) and waiting is not taken
        ]
        self._requests.remove(taken)
        taken.turn.set_result(None)
        return True


def explore_distinct(scenario: Callable[[Simulation], None], *, limit: int = 20_000, in_order: bool = False) -> int:
    """Run the scenario once for every order that makes a difference; returns how many there are.

    Some runs are begun and given up; all of them count for `limit`, beyond which TooManyOrders is raised.
    A failure carries the choices that lead to it (`ReducedSimulation`).
    """
    script: list[int] = []
    distinct = 0
    for _ in range(limit):
        simulation = ReducedSimulation(script, in_order=in_order)
        try:
            scenario(simulation)
            distinct += 1
        except _Redundant:
            pass  # its equal has been run
        except BaseException as error:
            chosen = [chosen for chosen, _ in simulation.choices]
            error.add_note(f"order: ReducedSimulation({chosen}, in_order={in_order})")
            raise
        choices = simulation.choices
        while choices and choices[-1][0] + 1 == choices[-1][1]:
            choices.pop()
        if not choices:
            return distinct
        script = [chosen for chosen, _ in choices]
        script[-1] += 1
    raise TooManyOrders(f"more than {limit}")
