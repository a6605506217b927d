"""A soak: cycles of busy days and of a quiet time, until everything has expired, for as long as it is asked for."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.promises.simulator import invariants
from tests.promises.simulator.soak.deployment import Deployment
from tests.promises.simulator.soak.life import Life
from tests.promises.simulator.soak.measures import Sample, counts, growth, megabytes, report, sums

ROUGH = 0.01
"""Share of the requests of every second busy hour that meet trouble."""
TO_THE_LAST_DEADLINE = 12 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The extent of a cycle."""

    days: int = 5
    busy_hours: int = 4
    """Busy hours of each busy day."""
    groups: int = 6
    """Groups created in a busy hour."""
    workers: int = 10
    quiet_days: int = 45
    """Quiet days of a cycle: longer than any life, than a pool is kept unused, and than the history is kept."""


class Soak:
    """Goes on with one deployment, cycle after cycle. Cycle n is decided by the seed plus n."""

    def __init__(self, seed: int, extent: Extent, say: Callable[[str], None], monotonic: Callable[[], float]) -> None:
        self._seed = seed
        self._extent = extent
        self._say = say
        self._monotonic = monotonic
        self._began = monotonic()
        self.deployment = Deployment(seed)
        self.samples: list[Sample] = []

    def run(self, minutes: float = 0, cycles: int = 2) -> list[str]:
        """Runs for `minutes`, and `cycles` at least; returns what went wrong, a line each."""
        self._say(f"seed {self._seed}")
        while len(self.samples) < cycles or self._monotonic() - self._began < 60 * minutes:
            number = len(self.samples)
            try:
                self._cycle(number)
            except BaseException as failure:
                if isinstance(failure, KeyboardInterrupt):
                    break
                self._say("".join(traceback.format_exception(failure)))
                now = self.deployment.clock.now()
                again = f"again: --seed {self._seed + number}"
                return [f"cycle {number} at {now:%Y-%m-%d %H:%M}: {failure!r}; {again}"]
        for line in report(self.samples):
            self._say(line)
        trouble = ", ".join(f"{count} × {kind}" for kind, count in sorted(self.deployment.trouble.counts.items()))
        self._say(f"trouble: {trouble}; {self.deployment.restarts} restarts")
        return list(growth(self.samples))

    def _cycle(self, number: int) -> None:
        deployment, extent = self.deployment, self._extent
        deployment.chance.seed(self._seed + number)
        for role in ("calls", "handlers", "jobs"):
            deployment.restart(role)  # as by a new release: caches, which may hold a lot, begin empty
        pools = ("soak/kept", f"soak/of-{number}")
        life = Life(deployment, pools, self._seed + number)
        world = deployment.world
        for day in range(extent.days):
            world.run(self._day(life, day))
            deployment.check()
            if day + 1 < extent.days:
                deployment.forget()
        busiest = sums(counts(world))
        world.topics.is_down = False
        world.run(deployment.host(TO_THE_LAST_DEADLINE, step=60.0))
        world.run(deployment.settle())
        deployment.check()
        self._check_resolved()
        world.run(deployment.pass_days(extent.quiet_days))
        deployment.forget()
        self.samples.append(
            Sample(
                cycle=number,
                seconds=self._monotonic() - self._began,
                days=deployment.clock.elapsed / 86_400,
                tasks=deployment.created,
                busiest=busiest,
                counts=counts(world),
                megabytes=megabytes(),
            )
        )
        last = self.samples[-1]
        self._say(
            f"cycle {number}: {last.seconds:.0f} s, {last.tasks} tasks so far; "
            f"{sum(busiest.values())} things when busy, {sum(last.counts.values())} afterwards; {last.megabytes:.1f} MB"
        )

    async def _day(self, life: Life, day: int) -> None:
        deployment, extent, chance = self.deployment, self._extent, self.deployment.chance
        topics = deployment.world.topics
        topics.is_down = chance.random() < (0.6 if topics.is_down else 0.15)
        quiet = (24 - extent.busy_hours) * 3600.0 / extent.busy_hours
        for hour in range(extent.busy_hours):
            deployment.trouble.rate = ROUGH if (day + hour) % 2 == 0 else 0.0
            await life.hour(extent.groups, extent.workers)
            for role, often in (("calls", 0.4), ("handlers", 0.1), ("jobs", 0.1)):
                if chance.random() < often:
                    deployment.restart(role)
            await deployment.host(quiet / 2, step=60.0)
        await deployment.settle()

    def _check_resolved(self) -> None:
        """Checks that all that was to be handled was handled, as in a finished world."""
        invariants.check_finished(self.deployment.world)
