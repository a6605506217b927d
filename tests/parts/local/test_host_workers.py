"""The app's process crashes, hangs or does not start, in virtual time: experiments made with Microsoft's host.

The names are those of docs/functions-host.md. The same with real processes: tests/parts/local/test_host_process.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from azure.functions.meta import Datum

from tests.parts.local.test_host_storage import function
from tests.parts.twin import Simulation
from tools.local.host.errors import HostError
from tools.local.host.functions import TimerTrigger
from tools.local.host.invocation import InvocationFailed
from tools.local.host.times import Times
from tools.local.host.worker import Call, Indexed, Result
from tools.local.host.workers import Workers

FUNCTION = function(TimerTrigger(schedule="", run_on_startup=False, use_monitor=False))
CRASH = -1.0
IMPORT_SECONDS = 0.6


@dataclass
class Process:
    """Stands for one process of the app: a call says how many seconds it takes, or that it is a crash."""

    world: World
    received: Callable[[Any], None]
    lost: Callable[[], None]
    is_gone: bool = False
    running: list[asyncio.TimerHandle] = field(default_factory=list)

    def begin(self) -> None:
        """Imports the app."""
        self.later(IMPORT_SECONDS, lambda: self.received(self.world.app))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Does something after `seconds`, unless the process has ended by then."""
        self.running.append(asyncio.get_running_loop().call_later(seconds, act))

    def send(self, call: Any) -> None:
        """Takes a call from the host."""
        assert isinstance(call, Call)
        self.world.begun.append((round(self.world.now, 1), self.world.processes.index(self)))
        seconds = call.payload.value
        self.later(max(0, seconds), self.kill if seconds == CRASH else lambda: self.received(Result(call.number)))

    def kill(self) -> None:
        """Ends the process at once."""
        if not self.is_gone:
            self.is_gone = True
            for each in self.running:
                each.cancel()
            asyncio.get_running_loop().call_soon(self.lost)

    close = kill


class World:
    """A host whose app's processes are played, and what became of its calls."""

    def __init__(self, timeout: float | None = None, app: Indexed | None = None) -> None:
        self.app = app or Indexed([FUNCTION])
        self.simulation = Simulation.scripted([])
        self.processes: list[Process] = []
        self.begun: list[tuple[float, int]] = []
        """When each call reached a process, and which."""
        self.results: dict[str, tuple[float, bool]] = {}
        """When each call ended, and whether it succeeded."""
        self.stops: list[float] = []
        self.timeout = timeout

    @property
    def now(self) -> float:
        """Seconds since the app was imported."""
        return self.simulation.clock.elapsed - IMPORT_SECONDS

    async def _launch(self, received: Callable[[Any], None], lost: Callable[[], None]) -> Process:
        self.processes.append(Process(self, received, lost))
        self.processes[-1].begin()
        return self.processes[-1]

    async def _call(self, workers: Workers, name: str, at: float, seconds: float) -> None:
        await asyncio.sleep(at - self.now)
        try:
            await workers.invoke(FUNCTION, Datum(seconds, "json"))
        except InvocationFailed:
            self.results[name] = (round(self.now, 1), False)
        else:
            self.results[name] = (round(self.now, 1), True)

    def run(self, calls: Mapping[str, tuple[float, float]], until: float = 5000) -> None:
        """Makes calls, each at a time and of a length."""

        async def scenario() -> None:
            workers = Workers(
                self._launch, timeout=self.timeout, times=Times(), stop=lambda _: self.stops.append(round(self.now, 1))
            )
            await workers.start()
            made = [asyncio.create_task(self._call(workers, name, *call)) for name, call in calls.items()]
            await asyncio.wait(made, timeout=until)
            await workers.close()
            for each in made:
                each.cancel()

        self.simulation.run(scenario())


def test_what_runs_in_a_process_that_crashes_fails_at_once_and_other_calls_wait() -> None:
    """When a process crashes, what runs in it fails at once, and other calls wait (experiment worker-kill)."""
    world = World()
    world.run({"beside": (1, 20), "crash": (2, CRASH), "next": (2.1, 1)})
    assert world.results == {"beside": (2, False), "crash": (2, False), "next": (2.6 + 1, True)}
    assert not world.stops


def test_the_second_restart_waits_and_the_third_crash_stops_the_host() -> None:
    """The second restart waits; the third crash stops the host, and later calls get no answer (worker-exit)."""
    world = World()
    calls = {"one": (1, CRASH), "two": (2, CRASH), "waits": (3, 1), "three": (20, CRASH), "never": (21, 1)}
    world.run(calls, until=100)
    assert world.results["waits"] == (1 + 10 + IMPORT_SECONDS + 1, True)
    assert world.stops == [20]
    assert "never" not in world.results


@pytest.mark.parametrize(("third", "stops"), [(1802, True), (1803, False)])
def test_a_crash_counts_for_half_an_hour(third: float, stops: bool) -> None:
    world = World()
    world.run({"one": (1, CRASH), "two": (2, CRASH), "three": (third, CRASH), "next": (third + 20, 1)}, until=3000)
    assert bool(world.stops) == stops
    assert ("next" in world.results) != stops


def test_a_call_that_overruns_takes_its_neighbours_with_it() -> None:
    """The process of a call that overruns is replaced after a grace, and killed ten seconds later. Calls beside it get
    no answer before their own time is over, though they have ended long before. New calls are served all the time
    (experiment worker-timeout)."""
    world = World(timeout=10)
    world.run({"late": (0, 600), "beside": (5, 8), "before": (5, 6), "new": (12.5, 1)})
    assert world.results == {"before": (11, True), "beside": (17, False), "late": (22, False), "new": (13.6, True)}
    assert [number for _, number in world.begun] == [0, 0, 0, 1]
    assert not world.stops


def test_calls_that_overrun_do_not_count_as_crashes() -> None:
    world = World(timeout=10)
    world.run({str(number): (30 * number, 600) for number in range(5)})
    assert [ended for ended, _ in world.results.values()] == [22 + 30 * number for number in range(5)]
    assert not world.stops


def test_an_app_that_ends_its_process_when_it_is_imported_stops_the_start() -> None:
    """An app that ends its process on import stops the start; the real host hangs (worker-exit-import)."""
    with pytest.raises(HostError, match="code 3"):
        World(app=Indexed([], "it ended the process with code 3", ends=True)).run({})
