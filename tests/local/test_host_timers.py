"""Timer functions, on a clock of the test's own, and once on the real one."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from tests.local.host_process import running_host, wait_until
from tools.local.azurite import Azurite
from tools.local.host.functions import IndexedFunction, TimerTrigger
from tools.local.host.invocation import Invoker
from tools.local.host.ncrontab import parse_schedule
from tools.local.host.timers import TimerListener

START = datetime(2026, 11, 21, 6, 0, 30, tzinfo=UTC)


class Bench:
    """A timer listener whose clock moves only when it sleeps, or its function takes time."""

    def __init__(self, schedule: str, invoker: Invoker, **trigger: Any) -> None:
        self.now = START
        self.fired: list[tuple[datetime, func.TimerRequest]] = []
        self.took = timedelta(0)
        self.failing = False
        self.until = START + timedelta(minutes=12)
        self.finished = asyncio.Event()
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.ended = 0
        function = IndexedFunction(
            name="bench",
            call=self._call,
            is_async=True,
            directory="",
            raw_bindings=(),
            trigger=TimerTrigger(**{"schedule": schedule, "run_on_startup": False, "use_monitor": True, **trigger}),
            parameter="timer",
            wants_text=False,
            wants_context=False,
            has_return=False,
        )
        self.listener = TimerListener(
            function, parse_schedule(schedule), invoker, now=lambda: self.now, sleep=self._sleep
        )

    async def _call(self, timer: func.TimerRequest) -> None:
        self.fired.append((self.now, timer))
        self.begun.set()
        await self._pass(self.took)
        await self.gate.wait()
        self.ended += 1
        if self.failing:
            raise RuntimeError("meant to fail")

    async def _sleep(self, seconds: float) -> None:
        await self._pass(timedelta(seconds=seconds))

    async def _pass(self, time: timedelta) -> None:
        self.now += time
        if self.now > self.until:
            self.finished.set()
        await asyncio.sleep(0)

    async def run(self) -> list[str]:
        """Run until the clock has passed `until`; when the function was called."""
        task = asyncio.create_task(self.listener.run())
        await self.finished.wait()
        task.cancel()
        await asyncio.wait({task})
        return [f"{at:%H:%M:%S}" for at, _ in self.fired if at <= self.until]


@pytest.fixture
def invoker() -> Iterator[Invoker]:
    """An invoker without a time limit."""
    made = Invoker(timeout=None)
    yield made
    made.close()


async def test_a_function_runs_when_its_schedule_says(invoker: Invoker) -> None:
    bench = Bench("0 */5 * * * *", invoker)
    assert await bench.run() == ["06:05:00", "06:10:00"]
    assert [timer.past_due for _, timer in bench.fired] == [False, False]


async def test_a_function_may_run_at_the_start_as_well(invoker: Invoker) -> None:
    assert await Bench("0 */5 * * * *", invoker, run_on_startup=True).run() == ["06:00:30", "06:05:00", "06:10:00"]


async def test_a_function_that_fails_keeps_its_schedule(invoker: Invoker) -> None:
    bench = Bench("0 */5 * * * *", invoker)
    bench.failing = True
    assert await bench.run() == ["06:05:00", "06:10:00"]


async def test_an_occurrence_that_was_missed_whole_is_past_due(invoker: Invoker) -> None:
    bench = Bench("0 */5 * * * *", invoker)
    bench.took = timedelta(minutes=11)
    bench.until = START + timedelta(minutes=30)
    assert await bench.run() == ["06:05:00", "06:16:00", "06:27:00"]
    assert [timer.past_due for _, timer in bench.fired][:3] == [False, True, True]


async def test_a_monitored_timer_knows_its_last_and_next_run(invoker: Invoker) -> None:
    bench = Bench("0 */5 * * * *", invoker)
    await bench.run()
    first, second = (timer for _, timer in bench.fired[:2])
    status: dict[str, str] = second.schedule_status  # type: ignore[attr-defined]  # the public class declares past_due only
    assert status["Last"] == status["LastUpdated"] == "2026-11-21T06:05:00+00:00"
    assert status["Next"] == "2026-11-21T06:10:00+00:00"
    assert first.schedule == {"AdjustForDST": True}  # type: ignore[attr-defined]  # the same


async def test_an_unmonitored_timer_has_no_status(invoker: Invoker) -> None:
    bench = Bench("0 * * * * *", invoker, use_monitor=False)
    await bench.run()
    assert bench.fired
    assert all(timer.schedule_status == {} for _, timer in bench.fired)  # type: ignore[attr-defined]  # the same


async def test_a_stopped_listener_waits_for_its_function_but_not_for_ever(invoker: Invoker) -> None:
    for grace, may_end in ((5.0, True), (0.05, False)):
        bench = Bench("0 * * * * *", invoker)
        bench.gate.clear()
        task = asyncio.create_task(bench.listener.run())
        await bench.begun.wait()
        task.cancel()
        stopping = asyncio.create_task(bench.listener.stop(grace))
        if may_end:
            bench.gate.set()
        await stopping
        assert bench.ended == may_end


@pytest.mark.large
async def test_a_timer_ticks_on_the_real_clock(azurite: Azurite, tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=10)
    with running_host(azurite, tmp_path, SAMPLE_SCHEDULE=f"{soon.second} * * * * *") as host:
        await asyncio.to_thread(wait_until, lambda: len(host.seen(function="tick", past_due=False)) >= 2, "tick")
