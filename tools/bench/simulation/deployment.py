"""A deployment under a load: tasks from creation to follow-up, other calls, timers, and what goes wrong."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import simpy

from tools.bench.cost_model.model import Model
from tools.bench.simulation.calls import CALLS, OTHER, Call, RoundTrip
from tools.bench.simulation.instances import Front, Size
from tools.bench.simulation.listeners import Listener
from tools.bench.simulation.storage import Account, Latency

Process = Generator[simpy.Event, None, None]
CLIENT_RETRIES, CLIENT_PAUSE = 5, 0.1
"""Taskcluster's client: the number of its retries, and its first pause in seconds, which doubles each time."""
UPLOAD: RoundTrip = ("BW blobs", "BW blobs")
LATENCY = Latency(median=0.004, p99=0.040)
"""Latency of a small storage request inside a region: an assumption, as Azure promises none."""
READ: RoundTrip = ("BR blobs",)


@dataclass(frozen=True)
class Load:
    """The load on a deployment. Rates are the profile's load at its peak, times `factor`."""

    factor: float = 1.0
    seconds: float = 20.0
    warm: float = 5.0
    """Seconds at the beginning that are not measured."""
    groups: int = 200
    """Number of groups and pools over which tasks are spread. With 1, all are in one group, one pool and one band."""
    cold: bool = False
    """Whether the simulation begins without an instance of any kind."""
    settled: bool = False
    """Whether it begins with as many instances as the cost model gives the load, not those standing ready."""
    calls: bool = True
    """Whether calls are simulated; else only messages of queues are, at the rates of the load."""
    kill_at: tuple[float, ...] = ()
    """Times at which the oldest instance of each kind dies."""
    throttled: tuple[float, float, float] | None = None
    """Beginning and end of a time in which the account is cut down, and the requests a second that it then takes."""
    run_seconds: float = 4.0
    """How long a task runs. Short, so that a run of the simulation soon has as many ends as beginnings."""
    lost: float = 0.02
    """Share of runs whose worker is lost, and also of tasks that reach their deadline."""
    latency: Latency = LATENCY
    seed: int = 1


class Deployment:
    """The instances of a profile, one account, and the clients of a load."""

    def __init__(self, model: Model, load: Load) -> None:
        self.model, self.load = model, load
        self.env = simpy.Environment()
        self.dice = random.Random(load.seed)
        self.account = Account(self.env, self.dice, load.latency)
        self.samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """By what was measured: when, and how many seconds it took."""
        self.counts: Counter[str] = Counter()
        profile = model.profile
        self.front = Front(self.env, self._size("http", int(profile["httpConcurrency"])), self.account)
        self.front.held = int(model.load["waiting_workers"] * load.factor) if load.calls else 0
        places = int(profile["queueBatchSize"]) * 3 // 2
        self.listeners = {
            queue: Listener(
                self.env, self._size(f"function:{name}", places), self.account, queue, CALLS[queue], self.done
            )
            for queue, name in (
                ("claim", "claim-expired"),
                ("deadline", "deadline-exceeded"),
                ("resolved", "task-resolved"),
            )
        }

    def _size(self, name: str, concurrency: int) -> Size:
        assume, http = self.model.assume, name == "http"
        ready = self.model.ready.get(name, 0)
        begin = max(ready, self._settled(name)) if self.load.settled else ready
        share = assume["target_concurrency_share"] if http else 2 / 3
        return Size(
            ready=ready,
            begin=0 if self.load.cold else begin,
            most=int(self.model.profile["maximumInstanceCount"]),
            concurrency=concurrency,
            target=concurrency * share,
            vcpus=min(self.model.vcpus, 1.0),
            start=assume["instance_start_seconds"]["usual"] + assume["import_cpu_seconds"] / min(self.model.vcpus, 1.0),
            look=assume["scale_look_seconds"]["usual"],
            call_cpu=assume["cpu_ms_a_call"] / 1000,
            request_cpu=assume["cpu_ms_a_storage_request"] / 1000,
        )

    def _settled(self, name: str) -> int:
        if name == "http":
            return math.ceil(self.model.http_instances(peak=True) * self.load.factor)
        return math.ceil(self.model.resolved_instances(peak=True) * self.load.factor) if "resolved" in name else 1

    def rate(self, name: str) -> float:
        """Returns a rate a second, of the load at its peak."""
        return float(self.model.load[f"peak_{name}_a_second"]) * self.load.factor

    def run(self) -> Deployment:
        """Simulates the whole load."""
        env, load, tasks = self.env, self.load, self.rate("tasks")
        for group in (self.front, *self.listeners.values()):
            env.process(group.scale())
        if load.calls:
            reads = float(self.model.load["artifact_reads_a_task"])
            self._arrivals(tasks, self.task)
            self._arrivals(self.rate("status_calls"), lambda: self.client("status", CALLS["status"]))
            self._arrivals(self.rate("other_calls"), lambda: self.client("other", OTHER))
            self._arrivals(tasks * reads, self.read)
            env.process(self._idle_polls())
        else:
            self._arrivals(tasks, lambda: self._message("resolved"))
            self._arrivals(tasks * load.lost, lambda: self._message("claim"))
        self._arrivals(tasks * load.lost, lambda: self._message("deadline"))
        for at in load.kill_at:
            env.process(self._kill(at))
        if load.throttled is not None:
            env.process(self._throttle(*load.throttled))
        env.run(load.seconds)
        return self

    # What clients do

    def client(self, name: str, call: Call, partition: int = 0, cpu: float = 0.0) -> Generator[simpy.Event, None, bool]:
        """Simulates a call, tried again as Taskcluster's client does. Returns False if it failed."""
        began = self.env.now
        self.counts["calls"] += 1
        for attempt in range(CLIENT_RETRIES + 1):
            self.counts["executions"] += 1
            if (yield from self.front.call(call, partition, cpu)):
                self.measured("call", self.env.now - began)
                return True
            if attempt < CLIENT_RETRIES:
                yield self.env.timeout(CLIENT_PAUSE * 2**attempt * (0.75 + self.dice.random() / 2))
        self.counts["failed calls"] += 1
        self.counts[f"failed {name}"] += 1
        return False

    def task(self) -> Process:
        """Simulates a task from its creation to its resolution; its message wakes the follow-up."""
        partition, created = self.dice.randrange(self.load.groups), self.env.now
        if not (yield from self.client("createTask", CALLS["createTask"], partition)):
            return
        self.counts["created"] += 1
        yield self.env.timeout(self.pick_up())
        if not (yield from self.client("claimWork", CALLS["claimWork"], partition)):
            return
        self.measured("start", self.env.now - created)
        if self.dice.random() < self.load.lost:
            yield from self._message("claim", partition)  # its worker is gone; the run that follows is not simulated
            return
        yield self.env.timeout(self.dice.expovariate(2 / self.load.run_seconds))
        yield from self.client("reclaimTask", CALLS["reclaimTask"], partition)
        count = float(self.model.load["relayed_artifacts_a_task"])
        relayed = count / float(self.model.load["artifacts_a_task"])
        for _ in range(self._artifacts()):
            yield from self.client("createArtifact", CALLS["createArtifact"], partition)
            if self.dice.random() < relayed:
                yield from self.client("relay PUT", CALLS["relay PUT"], partition, self.model.relay_cpu() / count)
            else:
                yield from self.account.round_trip(UPLOAD, partition)
        yield self.env.timeout(self.dice.expovariate(2 / self.load.run_seconds))
        if (yield from self.client("reportCompleted", CALLS["reportCompleted"], partition)):
            self.counts["resolved"] += 1
            yield from self._message("resolved", partition)

    def read(self) -> Process:
        """Simulates the reading of an artifact: its address, then its bytes from storage."""
        if (yield from self.client("read", CALLS["status"])):
            yield from self.account.round_trip(READ, 0)

    def pick_up(self) -> float:
        """The seconds until one of the processes in which a worker of the pool waits looks at the queue next."""
        waiting = self.front.held / max(1.0, float(self.model.load["pools_with_waiters"]))
        processes = max(1, min(math.ceil(waiting), len(self.front.instances)))
        return min(self.dice.uniform(0, self.model.assume["idle_poll_seconds"]) for _ in range(processes))

    def _artifacts(self) -> int:
        whole, part = divmod(float(self.model.load["artifacts_a_task"]), 1)
        return int(whole) + (self.dice.random() < part)

    def _message(self, queue: str, partition: int | None = None) -> Process:
        self.listeners[queue].put(self.dice.randrange(self.load.groups) if partition is None else partition)
        yield self.env.timeout(0)

    # What happens besides

    def _arrivals(self, rate: float, start: Callable[[], Generator[simpy.Event, None, Any]]) -> None:
        def arrive() -> Process:
            while True:
                yield self.env.timeout(self.dice.expovariate(rate))
                self.env.process(start())

        self.env.process(arrive())

    def _idle_polls(self) -> Process:
        while True:
            self.account.background("G", self.model.idle_polls(len(self.front.instances)) / 10)
            yield self.env.timeout(0.1)

    def _kill(self, at: float) -> Process:
        yield self.env.timeout(at)
        for group in (self.front, *self.listeners.values()):
            if group.instances:
                group.kill()

    def _throttle(self, begin: float, end: float, rate: float) -> Process:
        usual = self.account.whole.rate
        yield self.env.timeout(begin)
        self.account.whole.change(rate, self.env.now)
        yield self.env.timeout(end - begin)
        self.account.whole.change(usual, self.env.now)

    # What is measured

    def done(self, queue: str, lateness: float) -> None:
        """Counts a message whose work is done, `lateness` seconds after it was due."""
        self.counts[f"handled {queue}"] += 1
        self.measured("follow-up" if queue == "resolved" else "timer", lateness)

    def measured(self, name: str, seconds: float) -> None:
        """Notes a sample, unless the simulation has only just begun."""
        if self.env.now >= self.load.warm:
            self.samples[name].append((self.env.now, seconds))

    def percentile(self, name: str, share: float, since: float = 0, until: float = math.inf) -> float:
        """Returns a percentile of what was measured in that time; 0 if there was nothing."""
        values = sorted(value for at, value in self.samples[name] if since <= at < until)
        return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0

    def dollars_an_hour(self) -> Mapping[str, float]:
        """Returns the cost of what depends on the load, at this rate; blobs' data, logs, Service Bus and alerts are not
        simulated."""
        model, hour = self.model, 3600 / self.load.seconds
        price = model.prices
        sku = model.profile["storageSku"]
        standing = sum(group.size.ready for group in (self.front, *self.listeners.values()))
        seconds = sum(group.seconds() for group in (self.front, *self.listeners.values()))
        ready = min(seconds, standing * self.load.seconds)
        ready_price = price["ready_baseline_gb_second"] + price["ready_execution_gb_second"]
        sent = self.account.sent
        requests = (
            (sent["R"] + sent["W"]) * price["table_per_million"][sku]
            + sum(sent[kind] for kind in "PGUD") * price["queue_per_million"][sku]
            + sent["BW"] * price["blob_write_per_million"][sku]
            + sent["BR"] * price["blob_read_per_million"][sku]
        )
        return {
            "instances": hour
            * model.gigabytes
            * (ready * ready_price + (seconds - ready) * price["functions_gb_second"]),
            "executions": hour * self.counts["executions"] / 1e6 * price["functions_million"],
            "requests": hour * requests / 1e6,
        }
