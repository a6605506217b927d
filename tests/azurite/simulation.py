"""Simulations whose storage is an Azurite: time is virtual there too, and only input and output are real.

The loop hands out time as the simulator's does: a timer runs off only when no task is at work and no request is under
way. So the same script of choices gives the same run, whatever the machine's speed.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.twin.clock import VirtualClock
from tests.twin.driver import Deadlock, Simulation
from tests.twin.gate import Killed

_ANSWER_SECONDS = 30.0
"""Real time within which Azurite responds."""

_RESOLUTION = 1e-6
"""Seconds: the clocks count microseconds, and sums of many hours are less exact than the loop would have it."""


class RequestLoop(asyncio.SelectorEventLoop):
    """One event loop for many simulations, one after the other, so that connections last."""

    def __init__(self) -> None:
        super().__init__(_PatientSelector(self))
        self._clock_resolution = _RESOLUTION
        self.forgotten: list[BaseException] = []
        self.set_exception_handler(self._note)
        self._simulation: AzuriteSimulation | None = None
        self._before = 0.0
        self._under_way = 0

    @property
    def clock(self) -> VirtualClock | None:
        """The clock of the simulation that runs."""
        return self._simulation.clock if self._simulation else None

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._before + (self.clock.elapsed if self.clock else 0.0)

    def attach(self, simulation: AzuriteSimulation) -> None:
        """From now on the simulation decides; the loop's time goes on from where it is."""
        self._before = self.time() - simulation.clock.elapsed
        self._simulation = simulation

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is under way inside: time stands still until its answer is here."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def wait(self, timeout: float | None) -> float:
        """What to do when nothing is ready: how many real seconds to wait for input, after time went on perhaps."""
        if self._under_way:
            return _ANSWER_SECONDS
        assert self._simulation is not None
        if self._simulation.let_through():
            return 0
        if timeout is None:
            raise Deadlock("everybody waits, and no timer runs")
        self._simulation.clock.advance(timeout)
        return 0

    def _note(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.forgotten.append(error or RuntimeError(context["message"]))


class _PatientSelector(selectors.DefaultSelector):
    """Where the loop waits."""

    def __init__(self, loop: RequestLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Input that is there; where none is, the loop says how to wait. Raises TimeoutError for a silent Azurite."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        patience = self._loop.wait(timeout)
        found = super().select(patience)
        if patience and not found:
            raise TimeoutError("Azurite does not answer")
        return found


class AzuriteSimulation(Simulation):
    """As Simulation.scripted([]): requests go one after the other, in the order in which they are made."""

    def __init__(self, loop: RequestLoop) -> None:
        super().__init__(lambda options: 0)
        self._loop = loop
        loop.attach(self)

    def let_through(self) -> bool:
        """The next request goes, if one waits."""
        return self._let_through()

    def outcomes(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """See `Simulation.outcomes`."""
        try:
            outcomes = self._loop.run_until_complete(_gathered(*work))
        finally:
            self._end_the_rest()
            self._waiting.clear()
        if self._loop.forgotten:
            raise self._loop.forgotten.pop()
        return outcomes

    def _end_the_rest(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(_gathered(*left))


async def _gathered(*work: Any) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)
