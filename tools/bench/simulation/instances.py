"""Instances of Flex Consumption: one processor of one event loop each, cold starts, scaling by open calls, deaths."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass

import simpy

from tools.bench.simulation.calls import Call
from tools.bench.simulation.storage import Account, Steps


@dataclass(frozen=True)
class Size:
    """Size and start of the instances of a scale group. Times are in seconds."""

    ready: int
    begin: int
    """Instances that run when the simulation begins."""
    most: int
    concurrency: int
    target: float
    """Number of calls an instance that scaling aims at."""
    vcpus: float
    start: float
    """Time that it takes to get a machine and to load the app."""
    look: float
    """Time between two decisions about scaling."""
    call_cpu: float
    request_cpu: float


class Instance:
    """A process. The work on its processor is done in order of arrival; waiting for storage is not work."""

    def __init__(self, env: simpy.Environment, size: Size, account: Account) -> None:
        self.env, self.size, self.account = env, size, account
        self.alive, self.open, self.free_at, self.since = True, 0, env.now, env.now
        self.busy = 0.0

    def compute(self, seconds: float) -> simpy.Timeout:
        """Does `seconds` of work on the processor, after what waits already."""
        took = seconds / self.size.vcpus
        self.busy += took
        self.free_at = max(self.env.now, self.free_at) + took
        return self.env.timeout(self.free_at - self.env.now)

    def run(self, call: Call, partition: int, cpu: float = 0.0) -> Steps:
        """Simulates a call, with `cpu` seconds for its content. Returns False if storage or the instance fails."""
        self.open += 1
        cpu += self.size.call_cpu
        for level in call:
            yield self.compute(cpu + self.size.request_cpu * len(level))
            cpu = 0.0
            if not (self.alive and (yield from self.account.round_trip(level, partition)) and self.alive):
                self.open -= 1
                return False
        self.open -= 1
        return True


class Group(ABC):
    """A scale group: the HTTP functions together, or one function of a queue."""

    def __init__(self, env: simpy.Environment, size: Size, account: Account) -> None:
        self.env, self.size, self.account = env, size, account
        self.instances: list[Instance] = []
        self.starting = 0
        self.held = 0
        """Open long polls: they need a place, and hardly any work."""
        self.gone = 0.0
        """Seconds of instances that are no more."""
        self.peak = size.begin
        for _ in range(size.begin):
            self.joined(Instance(env, size, account))

    def joined(self, instance: Instance) -> None:
        """Notes an instance that can take work now."""
        self.instances.append(instance)
        self.peak = max(self.peak, len(self.instances))

    @abstractmethod
    def wanted(self) -> int:
        """Returns how many instances scaling would have."""

    def scale(self) -> Generator[simpy.Event, None, None]:
        """Starts what is missing at each look. Runs are short: nothing is scaled in."""
        while True:
            self.add()
            yield self.env.timeout(self.size.look)

    def add(self) -> None:
        """Starts what is missing now; Azure adds no more than an instance a second."""
        wanted = min(max(self.wanted(), self.size.ready), self.size.most)
        missing = wanted - len(self.instances) - self.starting
        for _ in range(max(0, min(missing, max(1, int(self.size.look))))):
            self.starting += 1
            self.env.process(self._start())

    def _start(self) -> Generator[simpy.Event, None, None]:
        yield self.env.timeout(self.size.start)
        self.starting -= 1
        self.joined(Instance(self.env, self.size, self.account))

    def kill(self) -> None:
        """Lets the oldest instance die with all that it was doing."""
        dead = self.instances.pop(0)
        dead.alive = False
        self.gone += self.env.now - dead.since

    def seconds(self) -> float:
        """Returns how long instances have run, altogether."""
        return self.gone + sum(self.env.now - instance.since for instance in self.instances)


class Front(Group):
    """The HTTP functions behind the load balancer, which spreads calls over the instances at random."""

    def __init__(self, env: simpy.Environment, size: Size, account: Account) -> None:
        self.waiting: deque[simpy.Event] = deque()
        super().__init__(env, size, account)

    def wanted(self) -> int:
        calls = self.held + len(self.waiting) + sum(instance.open for instance in self.instances)
        return math.ceil(calls / self.size.target)

    def joined(self, instance: Instance) -> None:
        super().joined(instance)
        for _ in range(self.size.concurrency):
            self._next()

    def call(self, call: Call, partition: int, cpu: float = 0.0) -> Steps:
        """Simulates a call of a client: waits for a place, then runs, with `cpu` seconds for its content."""
        while (instance := self._choose()) is None:
            place = self.env.event()
            self.waiting.append(place)
            if not self.instances and not self.starting:
                self.add()
            yield place
        done = yield from instance.run(call, partition, cpu)
        self._next()
        return done

    def _choose(self) -> Instance | None:
        if not self.instances:
            return None
        places = self.size.concurrency - math.ceil(self.held / len(self.instances))
        free = [instance for instance in self.instances if instance.open < places]
        return self.account.dice.choice(free) if free else None

    def _next(self) -> None:
        if self.waiting:
            self.waiting.popleft().succeed()
