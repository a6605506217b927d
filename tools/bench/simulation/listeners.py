"""The functions that queues wake: how the Functions host polls, takes, renews, repeats and loses messages."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator

import simpy

from tools.bench.simulation.calls import Call
from tools.bench.simulation.instances import Group, Instance, Size
from tools.bench.simulation.storage import Account

FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
"""Seconds between polls of an empty queue: the host's first pause, and maxPollingInterval of host.json."""
FAILED, LOST = 10.0, 600.0
"""Seconds until a message is visible again after its function failed (visibilityTimeout of host.json), and after its
instance died (for which the host hides it)."""


class Listener(Group):
    """A function with its queue. `handled(queue, lateness)` is called when a message's work is done."""

    def __init__(
        self,
        env: simpy.Environment,
        size: Size,
        account: Account,
        queue: str,
        call: Call,
        handled: Callable[[str, float], None],
    ) -> None:
        self.queue, self.call, self.handled = queue, call, handled
        self.messages: list[tuple[float, float, int]] = []
        """When a message is visible, when it was due, and the number of its partition."""
        super().__init__(env, size, account)

    def put(self, partition: int) -> None:
        """Puts a message that is due now."""
        heapq.heappush(self.messages, (self.env.now, self.env.now, partition))

    def wanted(self) -> int:
        now = self.env.now
        return math.ceil(sum(visible <= now for visible, _, _ in self.messages) / self.size.target)

    def joined(self, instance: Instance) -> None:
        super().joined(instance)
        self.env.process(self._listen(instance))

    def _listen(self, instance: Instance) -> Generator[simpy.Event, None, None]:
        pause = FIRST_PAUSE
        batch = self.size.concurrency * 2 // 3  # batchSize; half of it again may be under way before the next get
        while instance.alive:
            if instance.open > batch // 2:
                yield self.env.timeout(FIRST_PAUSE)
                continue
            taken: list[tuple[float, float, int]] = []
            if (yield from self.account.round_trip((f"G {self.queue}",), 0)):
                while self.messages and len(taken) < batch and self.messages[0][0] <= self.env.now:
                    taken.append(heapq.heappop(self.messages))
            for _, due, partition in taken:
                self.env.process(self._handle(instance, due, partition))
            pause = FIRST_PAUSE if taken else min(pause * 2, LAST_PAUSE)
            yield self.env.timeout(pause * (0.8 + 0.4 * self.account.dice.random()))

    def _handle(self, instance: Instance, due: float, partition: int) -> Generator[simpy.Event, None, None]:
        taken = self.env.now
        if (yield from instance.run(self.call, partition)):
            self.handled(self.queue, self.env.now - due)
            yield from self.account.round_trip((f"D {self.queue}",), 0)
            return
        visible = self.env.now + FAILED if instance.alive else taken + LOST
        heapq.heappush(self.messages, (visible, due, partition))
