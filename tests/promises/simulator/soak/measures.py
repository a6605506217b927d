"""Measures the deployment of a soak, and finds out whether the figures stay flat."""

from __future__ import annotations

import gc
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.promises.simulator.world import World
from tools.local.entities import CONTAINERS, TABLES

GROWTH, SPARE = 1.05, 4.0
"""Limits of growth: memory is flat if its median in the last quarter is at most GROWTH times that of the second
quarter, plus SPARE MB."""
ENOUGH = 8
"""Number of cycles from which on memory is judged: before, caches fill."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Figures at the end of a cycle, when all has expired."""

    cycle: int
    seconds: float
    """Seconds of wall clock since the beginning."""
    days: float
    """Days of virtual time since the beginning."""
    tasks: int
    """Tasks created since the beginning."""
    busiest: Mapping[str, int]
    """Rows, messages and blobs at the end of the cycle's busy days, in sums."""
    counts: Mapping[str, int]
    """Rows by table, messages by queue, blobs by container, and queues; only what there is."""
    megabytes: float


def counts(world: World) -> dict[str, int]:
    """Returns what the account holds, without blocks that nobody has committed: Azure forgets them after a week."""
    found: Counter[str] = Counter()
    for table in TABLES:
        found[f"rows of {table}"] = len(world.rows(table))
    for queue in world.memory.queues.names():
        is_of_pool = queue.startswith("pending-")
        found[f"messages of {'task queues' if is_of_pool else queue}"] += len(world.messages(queue))
        found["queues of task queues"] += is_of_pool
    for container in CONTAINERS:
        found[f"blobs of {container}"] = len(world.account.committed(container))
    return {name: count for name, count in sorted(found.items()) if count}


def sums(found: Mapping[str, int]) -> dict[str, int]:
    """Returns the sums of all rows, messages and blobs."""
    return {
        kind: sum(count for name, count in found.items() if name.startswith(kind))
        for kind in ("rows", "messages", "blobs")
    }


def megabytes() -> float:
    """Returns the memory that the process has now; if the system does not tell, the most that it has had."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def growth(samples: Sequence[Sample]) -> Iterator[str]:
    """Yields a line for each figure that has grown. Growth up to the first cycle is normal: cursors, roles, full
    lists."""
    first, last = samples[0], samples[-1]
    for name in sorted({*first.counts, *last.counts}):
        was, is_now = first.counts.get(name, 0), last.counts.get(name, 0)
        if is_now > was:
            yield f"{name}: {was} after the first cycle, {is_now} after the last one"
    if len(samples) >= ENOUGH:
        quarter = len(samples) // 4
        before = median(sample.megabytes for sample in samples[quarter : 2 * quarter])
        at_last = median(sample.megabytes for sample in samples[-quarter:])
        if at_last > before * GROWTH + SPARE:
            yield f"memory: {before:.1f} MB in the second quarter, {at_last:.1f} MB in the last one"


def report(samples: Sequence[Sample]) -> Iterator[str]:
    """Yields at most some twenty samples, and what was left after the first, a middle and the last one."""
    yield "cycle   seconds  virtual days    tasks   rows messages  blobs (busy)   rows messages  blobs (after)      MB"
    step = max(len(samples) // 20, 1)
    shown = [sample for number, sample in enumerate(samples, 1) if number % step == 0 or number == len(samples)]
    for sample in shown:
        busy, after = sample.busiest, sums(sample.counts)
        yield (
            f"{sample.cycle:5} {sample.seconds:9.0f} {sample.days:13.0f} {sample.tasks:8}"
            f" {busy['rows']:6} {busy['messages']:8} {busy['blobs']:6}       "
            f" {after['rows']:6} {after['messages']:8} {after['blobs']:6}         {sample.megabytes:7.1f}"
        )
    chosen = [samples[0], samples[len(samples) // 2], samples[-1]]
    names = sorted({name for sample in chosen for name in sample.counts})
    yield "what there is after the first, a middle and the last cycle:"
    for name in names:
        yield f"  {name}: {', '.join(str(sample.counts.get(name, 0)) for sample in chosen)}"
