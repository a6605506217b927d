"""What a part of a run took: rows of the result from the clients' view, the hosts' CPU time and their logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tools.bench.load.crowd import Seen, percentile
from tools.bench.load.hostlog import Cost, HostLogs
from tools.bench.load.machine import Use, cores_in_use, use_of
from tools.bench.load.result import Result, Row

SETTLED_SECONDS = 60.0
LOOK_SECONDS = 0.25


@dataclass
class Meter:
    """Measures into a result. Without `processes` and `logs` it measures only what clients see."""

    result: Result
    say: Callable[[str], None]
    processes: Mapping[str, int] = field(default_factory=dict)
    logs: HostLogs | None = None
    unsettled: Callable[[], int] = lambda: 0
    """Returns the number of messages of resolutions that are not followed up yet, as far as that can be seen."""
    _unsettled_before: int = 0
    """Number of such messages that earlier parts have left, for example checks that are due again later."""

    @contextmanager
    def measured(self, part: str) -> Iterator[Callable[..., Seen]]:
        """Yields a function that does something, and makes a row of what it took."""

        def measure(name: str, work: Callable[[], Seen], calls: Mapping[str, int], by: str | None = None) -> Seen:
            self.say(name)
            self.costs()
            self._unsettled_before = self.unsettled()
            before, busy, started = use_of(self.processes), cores_in_use(), time.monotonic()
            seen = work()
            elapsed = time.monotonic() - started
            by = by or name
            count = seen.count(by)
            row = Row(part=part, name=name, count=count, failures=len(seen.failures))
            if count:
                row.rate = count / seen.seconds
                row.cpu = self.cpu(before, count)
                ours = sum(row.cpu.values()) * count / 1000
                row.cpu["clients"] = seen.cpu * 1000 / count
                others = (cores_in_use() - busy - ours - seen.cpu) / elapsed
                self.result.machine.setdefault("cores used by others", []).append(round(others, 2))
                costs = self.costs()
                if self.logs is not None:
                    row.requests = sum(costs[call].each * times for call, times in calls.items() if call in costs)
            self.row(row, _summed(seen, by, calls))
            self.note(seen)
            return seen

        yield measure

    def settled(self, seen: Seen) -> Seen:
        """Waits until the resolutions have been followed up, whose CPU counts as well, and returns what was seen."""
        until = time.monotonic() + SETTLED_SECONDS
        while self.unsettled() > self._unsettled_before and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        return seen

    def costs(self) -> dict[str, Cost]:
        """Returns the costs that were logged since the last time."""
        return self.logs.read() if self.logs is not None else {}

    def cpu(self, before: Mapping[str, Use], count: float) -> dict[str, float]:
        """Returns the milliseconds of CPU of each process since `before`, divided by `count`."""
        after = use_of(self.processes)
        return {name: (after[name].cpu - use.cpu) * 1000 / count for name, use in before.items()}

    def row(self, row: Row, latencies: Sequence[float]) -> None:
        """Adds a row to the result."""
        if latencies:
            row.p50, row.p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
        self.result.rows.append(row)

    def note(self, seen: Seen) -> None:
        """Adds the first failures of the run to the result."""
        self.result.failures += seen.failures[: 20 - len(self.result.failures)]


def _summed(seen: Seen, by: str, calls: Mapping[str, int]) -> list[float]:
    """Returns the seconds that all calls of one task took together, for each task, if the calls were made one by one
    for each; else the seconds of the call `by`."""
    timed = [seen.latencies[name] for name in calls if name in seen.latencies]
    if len(timed) < 2 or any(len(each) != len(timed[0]) for each in timed):
        return seen.latencies.get(by, [])
    return [sum(parts) for parts in zip(*timed, strict=True)]
