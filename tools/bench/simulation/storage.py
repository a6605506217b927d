"""A storage account: how long its requests take, and whom it refuses beyond its documented limits."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

import simpy

from shared.store.wire import Patience
from tools.bench.cost_model.limits import PARTITION_LIMIT, QUEUE_LIMIT, TABLE_LIMIT
from tools.bench.simulation.calls import RoundTrip

Steps = Generator[simpy.Event, None, bool]
"""A part of a simulated process, which returns whether it succeeded."""

ROWS: dict[str, float] = {"W Groups": 3.0, "R Groups": 1.0, "W Pools": 2.0}
"""Rows that a request touches in the partition of a group or a pool, as in the cost model."""


@dataclass
class Allowance:
    """A limit as a token bucket: `rate` a second, and `burst` seconds' worth at once."""

    rate: float
    burst: float = 0.5
    left: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.rate * self.burst

    def change(self, rate: float, now: float) -> None:
        """Changes the rate from now on."""
        self.take(now, 0)
        self.rate = rate
        self.left = min(self.left, rate * self.burst)

    def take(self, now: float, number: float) -> bool:
        """Takes `number` tokens, or none if there are not as many. Returns whether it has."""
        self.left = min(self.rate * self.burst, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left < number:
            return False
        self.left -= number
        return True


@dataclass(frozen=True)
class Latency:
    """The latency of a request in seconds: log-normal, given its median and its 99th percentile."""

    median: float
    p99: float

    def draw(self, dice: random.Random) -> float:
        """Returns the latency of one request."""
        sigma = math.log(self.p99 / self.median) / 2.326
        return dice.lognormvariate(math.log(self.median), sigma)


class Account:
    """One storage account. Requests of a round trip that are refused are sent again as the product does."""

    def __init__(self, env: simpy.Environment, dice: random.Random, latency: Latency) -> None:
        self.env, self.dice, self.latency = env, dice, latency
        self.patience = Patience()
        self.whole = Allowance(TABLE_LIMIT)
        self.parts: dict[str, Allowance] = {}
        self.sent: Counter[str] = Counter()
        """Requests by the letter of their kind, refused ones included: they are paid for too."""
        self.refused: Counter[str] = Counter()
        """Refusals by the limit that was reached."""

    def round_trip(self, requests: RoundTrip, partition: int) -> Steps:
        """Sends the requests together, to partitions of this number. Returns False if one never succeeded."""
        retries = self.patience.retries
        for attempt in range(retries.tries):
            requests = tuple(request for request in requests if not self._accepts(request, partition))
            yield self.env.timeout(self.latency.draw(self.dice))
            if not requests:
                return True
            if attempt < retries.tries - 1:
                yield self.env.timeout(retries.pause(attempt, self.dice.random()))
        return False

    def background(self, kind: str, number: float) -> None:
        """Counts requests that only use up the account's allowance."""
        self.sent[kind] += round(number)
        self.whole.take(self.env.now, min(number, max(self.whole.left, 0)))

    def _accepts(self, request: str, partition: int) -> bool:
        kind, _, resource = request.partition(" ")
        self.sent[kind] += 1
        now = self.env.now
        if not self.whole.take(now, 1):
            self.refused["account"] += 1
            return False
        if resource in {"Tasks", "Expiry", "blobs"}:
            return True  # spread over as many partitions as there are tasks, days and blobs
        single = resource in {"claim", "deadline", "resolved"}
        name = resource if single else f"{resource} {partition}"
        part = self.parts.get(name)
        if part is None:
            part = self.parts[name] = Allowance(QUEUE_LIMIT if kind in "PGUD" else PARTITION_LIMIT)
        if part.take(now, ROWS.get(request, 1.0)):
            return True
        self.refused[resource] += 1
        return False
