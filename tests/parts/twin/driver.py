"""Runs coroutines on virtual time, and decides which of their storage requests goes next.

    def scenario(simulation: Simulation) -> None:
        memory = MemoryStorage(simulation.clock, gate=simulation.gate)
        simulation.run(first(memory), second(memory))
        ...what must hold now...

    explore(scenario)                # every order of the requests
    sample(scenario, range(200))     # the order that a seed chooses; a failure names its seed

The coroutines may use everything of asyncio that needs no socket or process; what is for a thread is done at once. A
request waits at the gate until all coroutines wait; then one of the waiting requests is let through. Only when no
request waits does time go on, to the next timer. The same choices give the same run, as long as the code does not
depend on the order of a set.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Call, Killed, Phase

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Choose = Callable[[int], int]
"""Function that picks one of `n` choices by its number."""


class Deadlock(Exception):
    """All coroutines wait, and nothing will ever wake them."""


class TooManyOrders(Exception):
    """The scenario has more orders than `explore` may try."""


class Simulation:
    """One run. Its `clock` and `gate` are for the twin; `choices` shows afterwards which orders were taken."""

    def __init__(self, choose: Choose, *, yield_after: bool = False) -> None:
        """`yield_after` makes the answer of a request a point of choice as well (default: only its sending)."""
        self.clock = VirtualClock()
        self.choices: list[tuple[int, int]] = []
        """Of each choice: what was chosen, out of how many."""
        self._choose = choose
        self._yield_after = yield_after
        self._together = False
        self._waiting: list[asyncio.Future[None]] = []

    @classmethod
    def seeded(cls, seed: int, *, yield_after: bool = False) -> Simulation:
        """Returns a run whose order is decided by the seed."""
        return cls(random.Random(seed).randrange, yield_after=yield_after)

    @classmethod
    def scripted(cls, script: Sequence[int], *, yield_after: bool = False) -> Simulation:
        """Returns a run that takes these choices, then always the first."""
        remaining = list(script)
        return cls(lambda options: remaining.pop(0) if remaining else 0, yield_after=yield_after)

    @classmethod
    def rounds(cls) -> Simulation:
        """Returns a run in which all waiting requests go together, so `counting` shows the exact depth of a call."""
        simulation = cls(lambda options: 0)
        simulation._together = True
        return simulation

    def gate(self, call: Call, phase: Phase) -> asyncio.Future[None] | None:
        """Makes the request wait for its turn, unless it would be the next in any case."""
        if phase is Phase.AFTER and not self._yield_after:
            return None
        loop = asyncio.get_running_loop()
        if not self._waiting and isinstance(loop, _SimulationLoop) and loop.is_idle:
            return None
        turn = loop.create_future()
        self._waiting.append(turn)
        return turn

    def run(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Runs all to their end and returns their results. Raises the first error; None stands for a killed one."""
        outcomes = self.outcomes(*work)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Killed):
                raise outcome
        return [None if isinstance(outcome, Killed) else outcome for outcome in outcomes]

    def outcomes(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Works as `run`, with errors among the results. Raises Deadlock, and what a task forgotten by the code raised.
        Tasks that are left over at the end are cancelled."""
        loop = _SimulationLoop(self.clock, self._let_through)
        try:
            outcomes = loop.run_until_complete(_gathered(work))
        finally:
            self._waiting.clear()
            loop.wind_up()
        if loop.forgotten:
            raise loop.forgotten[0]
        return outcomes

    def _let_through(self) -> bool:
        """Wakes one of the waiting requests, or all if they go together; returns False if there is none."""
        self._waiting = [turn for turn in self._waiting if not turn.done()]
        if not self._waiting:
            return False
        if self._together:
            for turn in self._waiting:
                turn.set_result(None)
            self._waiting = []
            return True
        chosen = 0
        if len(self._waiting) > 1:
            chosen = self._choose(len(self._waiting))
            self.choices.append((chosen, len(self._waiting)))
        self._waiting.pop(chosen).set_result(None)
        return True


def explore(scenario: Callable[[Simulation], None], *, limit: int = 10_000, yield_after: bool = False) -> int:
    """Runs the scenario once for every order of its requests; returns how many there are.

    Raises TooManyOrders beyond `limit`. A failure carries the choices that lead to it (`Simulation.scripted`).
    """
    script: list[int] = []
    for tried in range(1, limit + 1):
        simulation = Simulation.scripted(script, yield_after=yield_after)
        try:
            scenario(simulation)
        except BaseException as error:
            error.add_note(f"order: Simulation.scripted({[chosen for chosen, _ in simulation.choices]})")
            raise
        choices = simulation.choices
        while choices and choices[-1][0] + 1 == choices[-1][1]:
            choices.pop()
        if not choices:
            return tried
        script = [chosen for chosen, _ in choices]
        script[-1] += 1
    raise TooManyOrders(f"more than {limit}")


def sample(scenario: Callable[[Simulation], None], seeds: Iterable[int], *, yield_after: bool = False) -> None:
    """Runs the scenario once for each seed. A failure names its seed (`Simulation.seeded`)."""
    for seed in seeds:
        try:
            scenario(Simulation.seeded(seed, yield_after=yield_after))
        except BaseException as error:
            error.add_note(f"order: Simulation.seeded({seed})")
            raise


def _ignored(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignores errors that are found after the end of a loop: they come too late for anybody to hear of them."""


async def _gathered(work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    if len(work) > 1:
        return await asyncio.gather(*work, return_exceptions=True)
    try:
        return [await each for each in work]  # in this task: gather would make another one
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return [error]


class _SimulationLoop(asyncio.BaseEventLoop):
    """An event loop without a selector: when nothing is ready, a request is let through, or else time goes on."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _asyncgens: set[Any]

    def __init__(self, clock: VirtualClock, let_through: Callable[[], bool]) -> None:
        super().__init__()
        self.clock = clock
        self.forgotten: list[BaseException] = []
        self._let_through = let_through
        self._selector = self  # where BaseEventLoop waits
        self._clock_resolution = 1e-6
        self.set_exception_handler(self._note)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do now except for what is being done."""
        if self._ready:
            return False
        return not self._scheduled or self._scheduled[0].when() > self.time() + self._clock_resolution

    def wind_up(self) -> None:
        """Cancels the tasks that are left over, waits for their end, and closes."""
        try:
            if left := asyncio.all_tasks(self):
                for task in left:
                    task.cancel()
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            if self._asyncgens:
                self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self.close()
            # Loops are thrown away by the thousand, which costs little while they do not refer to themselves.
            del self._selector
            self.set_exception_handler(_ignored)

    def time(self) -> float:
        """Virtual seconds."""
        return self.clock.elapsed

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Does at once what the code leaves to a thread, so that no order depends on a thread."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def select(self, timeout: float | None) -> list[Any]:
        """Called by BaseEventLoop to wait for `timeout` seconds, or for ever; there is nothing to wait for here."""
        if timeout is not None and timeout <= 0:
            return []
        if self._let_through():
            return []
        if timeout is None:
            raise Deadlock("everybody waits, and no timer runs")
        self.clock.advance(timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "nothing outside can happen here"

    def _write_to_self(self) -> None:
        """No thread sleeps in a selector, so none has to be woken."""

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Killed):
            return
        self.forgotten.append(error or RuntimeError(context["message"]))
