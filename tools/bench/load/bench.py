"""A run: what is measured, in which sizes, one part after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from tools.bench.load.burst import REFUSED, burst
from tools.bench.load.client import Calls, Kind, Target
from tools.bench.load.crowd import (
    Clock,
    Crowd,
    Seen,
    create_all,
    create_for,
    percentile,
    statuses_for,
    wait_for_work,
)
from tools.bench.load.hostlog import Cost
from tools.bench.load.machine import use_of
from tools.bench.load.meter import Meter
from tools.bench.load.result import Curve, Row
from tools.bench.load.shapes import SHAPES

_WHOLE_RUN = {"claimWork": 1, "reportCompleted": 1, RESOLVED_QUEUE: 1}
"""Calls and messages that one task costs from its claim on, as hosts log them. What a process itself does after a
resolution is in no log line."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The sizes of a run."""

    name: str
    seconds: float
    """Seconds for which the throughput of each call is measured."""
    samples: int
    """Number of calls of one client alone, for latency."""
    graph: int
    """Number of tasks of each graph."""
    sizes: tuple[int, ...]
    """Numbers of tasks of a group, all pending in one task queue, at which its growth is measured."""
    idle_seconds: float
    burst: tuple[int, int]
    """Number of calls that one client sends at once, and of other clients beside it."""


QUICK = Preset(name="quick", seconds=3, samples=10, graph=24, sizes=(0, 100, 300), idle_seconds=5, burst=(100, 5))
FULL = Preset(
    name="full",
    seconds=8,
    samples=60,
    graph=300,
    sizes=(0, 500, 1000, 2500, 5000),
    idle_seconds=20,
    burst=(1000, 20),
)


@dataclass
class Bench:
    """One run against one deployment."""

    target: Target
    crowd: Crowd
    preset: Preset
    meter: Meter

    def __post_init__(self) -> None:
        self._tag = new_slugid()[-6:].replace("-", "x").replace("_", "x").lower()
        self._calls = Calls(self.target, "client-alone")

    def run(self) -> None:
        """Measures all parts of a run."""
        for part in (self._throughput, self._alone, self._graphs, self._growth, self._burst, self._idle):
            part()
        self.meter.result.memory = {name: round(use.memory, 1) for name, use in use_of(self.meter.processes).items()}
        self._calls.client.close()

    def _throughput(self) -> None:
        kind, seconds = self._kind("calls"), self.preset.seconds
        self.crowd.all(create_for, min(seconds, 2.0), self._kind("warm"))  # caches, connections, tables
        with self.meter.measured("throughput") as measure:
            created = measure("createTask", lambda: self.crowd.all(create_for, seconds, kind), {"createTask": 1})
        left = min(50, created.count("createTask") // 2)
        count = created.count("createTask") - left
        with self.meter.measured("throughput") as measure:
            measure("status", lambda: self.crowd.all(statuses_for, seconds, created.task_ids), {"status": 1})
            measure(
                "claimWork + reportCompleted",
                lambda: self.meter.settled(self.crowd.work(kind.task_queue_id, count)),
                _WHOLE_RUN,
                by="reportCompleted",
            )
            measure(
                "… with reclaimTask and 5 × createArtifact",
                lambda: self.meter.settled(self.crowd.work(kind.task_queue_id, left, reclaims=True, artifacts=5)),
                {**_WHOLE_RUN, "reclaimTask": 1, "createArtifact": 5},
                by="reportCompleted",
            )

    def _alone(self) -> None:
        """Measures each call of a single client by itself."""
        kind, clock = self._kind("alone"), Clock()
        for _ in range(self.preset.samples):
            task_id = clock.timed("createTask", self._calls.create, kind)
            if task_id is None:
                continue
            clock.timed("status", self._calls.status, task_id)
            if (claimed := clock.timed("claimWork", self._calls.claim, kind.task_queue_id)) is None:
                continue
            clock.timed("reclaimTask", self._calls.reclaim, claimed)
            clock.timed("createArtifact", self._calls.artifact, claimed, "public/a.txt")
            clock.timed("reportCompleted", self._calls.complete, claimed)
        seen = clock.stop()
        costs = self.meter.costs()
        for name, latencies in seen.latencies.items():
            cost = costs.get(name, Cost())
            row = Row(part="one client", name=name, count=len(latencies), requests=cost.each or None)
            self.meter.row(row, latencies)
        self.meter.note(seen)

    def _graphs(self) -> None:
        """Measures how fast tasks are created and completed: without dependencies, and in each shape of a graph."""
        for name, shape in SHAPES.items():
            self._graph(name, shape(self.preset.graph))
        self._many_dependencies()

    def _graph(self, name: str, plan: Sequence[Sequence[int]]) -> None:
        kind = self._kind(name.replace(" ", "-"))
        ids = [new_slugid() for _ in plan]
        tasks = [
            (task_id, kind.depending_on(*(ids[index] for index in required)))
            for task_id, required in zip(ids, plan, strict=True)
        ]
        with self.meter.measured("graphs") as measure:
            measure(f"{name}: create", lambda: self._created(tasks, plan), {"createTask": 1}, by="createTask")
            measure(
                f"{name}: claim and complete",
                lambda: self.meter.settled(self.crowd.work(kind.task_queue_id, len(ids))),
                _WHOLE_RUN,
                by="reportCompleted",
            )

    def _created(self, tasks: Sequence[tuple[str, Kind]], plan: Sequence[Sequence[int]]) -> Seen:
        """Creates tasks side by side, in waves, so that each comes after all that it depends on."""
        depth: list[int] = []
        for required in plan:
            depth.append(1 + max((depth[index] for index in required), default=-1))
        seen = Seen()
        for level in range(max(depth) + 1):
            wave = [task for task, at in zip(tasks, depth, strict=True) if at == level]
            seen.add(create_all_here(self._calls, wave) if len(wave) == 1 else self.crowd.shared(create_all, wave))
        return seen

    def _many_dependencies(self) -> None:
        """Measures createTask with 0, 4, … open dependencies."""
        kind, counts = self._kind("many"), [0, 4, 48, min(self.preset.graph, 1000)]
        ids = self.crowd.shared(create_all, [(new_slugid(), kind) for _ in range(max(counts))]).task_ids
        self.meter.costs()
        curve = Curve(name="createTask by dependencies", across="open dependencies", unit="ms")
        requests = Curve(name="storage requests of createTask", across="open dependencies", unit="requests")
        for count in sorted({min(count, len(ids)) for count in counts}):
            seconds = []
            for _ in range(5):
                started = time.perf_counter()
                self._calls.create(kind.depending_on(*ids[:count]))
                seconds.append(time.perf_counter() - started)
            curve.points.append((count, percentile(seconds, 0.5)))
            cost = self.meter.costs().get("createTask", Cost())
            if cost.calls:
                requests.points.append((count, cost.each))
            name = f"createTask, {count} open dependencies"
            self.meter.row(Row(part="graphs", name=name, count=5, requests=cost.each or None), seconds)
        self.meter.result.curves += [curve, requests] if requests.points else [curve]

    def _growth(self) -> None:
        """Measures one group as it grows, all of whose tasks are pending in one task queue."""
        kind, have, samples = self._kind("growth"), 0, max(self.preset.samples // 2, 5)
        names = ("createTask", "claimWork", "reportCompleted", "status")
        curves = {name: Curve(name=f"{name} by pending tasks", across="tasks", unit="ms") for name in names}
        lists = [
            Curve(name="listTaskGroup, the whole group", across="tasks", unit="ms"),
            Curve(name="listTaskGroup, again at once", across="tasks", unit="ms"),
        ]
        for size in self.preset.sizes:
            self.meter.say(f"  a group of {size}")
            have += len(self.crowd.shared(create_all, [(new_slugid(), kind) for _ in range(size - have)]).task_ids)
            if size:
                self.meter.costs()
                for curve, when in zip(lists, ("", ", again at once"), strict=True):
                    started = time.perf_counter()
                    count = self._calls.list_group(kind.task_group_id)
                    seconds = time.perf_counter() - started
                    curve.points.append((count, seconds * 1000))
                    cost = self.meter.costs().get("listTaskGroup", Cost())
                    requests = cost.requests or None
                    name = f"listTaskGroup of {size} pending tasks{when}"
                    self.meter.row(Row(part="growth", name=name, count=1, requests=requests), [seconds])
            for name, value in self._sampled(kind, samples).items():
                curves[name].points.append((size, value))
        self.meter.result.curves += [*curves.values(), *lists]

    def _sampled(self, kind: Kind, samples: int) -> dict[str, float]:
        """Returns the median milliseconds of each call of one client. As many tasks are pending then as before."""
        clock = Clock()
        for _ in range(samples):
            task_id = clock.timed("createTask", self._calls.create, kind)
            if task_id is not None:
                clock.timed("status", self._calls.status, task_id)
                claimed = clock.timed("claimWork", self._calls.claim, kind.task_queue_id)
                if claimed is not None:
                    clock.timed("reportCompleted", self._calls.complete, claimed)
        self.meter.note(clock.stop())
        return {name: percentile(latencies, 0.5) for name, latencies in clock.seen.latencies.items()}

    def _burst(self) -> None:
        """Measures one client that sends many calls at once, and its effect on others."""
        count, others = self.preset.burst
        self.meter.say(f"{count} calls at once beside {others} other clients")
        bursting, beside = burst(self.target, self._kind("burst"), count, others)
        for name, seen in (
            (f"createTask, {count:,} at once by one client", bursting),
            (f"createTask, one a second by each of {others} others", beside),
        ):
            row = Row(
                part="burst", name=name, count=seen.count("createTask"), rate=seen.count("createTask") / seen.seconds
            )
            row.failures, row.sent_again = len(seen.failures), seen.count(REFUSED)
            self.meter.row(row, seen.latencies.get("createTask", []))
            self.meter.note(seen)
        self.meter.costs()

    def _idle(self) -> None:
        """Measures what a minute of workers costs that wait for work in vain. The polls of storage are made by the
        process for all who wait, and belong to no call."""
        seconds, before = self.preset.idle_seconds, use_of(self.meter.processes)
        self.meter.say(f"idle polling for {seconds:g} s")
        seen = self.crowd.all(wait_for_work, seconds, self._kind("idle").task_queue_id)
        row = Row(part="idle", name=f"a minute of {self.crowd.clients} idle workers", count=1)
        row.cpu = self.meter.cpu(before, seconds / 60)
        self.meter.result.rows.append(row)
        self.meter.note(seen)

    def _kind(self, name: str) -> Kind:
        return Kind(task_queue_id=f"bench/{name[:20]}-{self._tag}", task_group_id=new_slugid())


def create_all_here(calls: Calls, tasks: Sequence[tuple[str, Kind]]) -> Seen:
    """Creates tasks as `create_all` does, in this process."""
    clock = Clock()
    for task_id, kind in tasks:
        clock.timed("createTask", calls.create, kind, task_id)
    return clock.stop()
