"""Workers with the public clients' repetitions, and with their own pauses after an answer without work."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shared.app.services import Services
from shared.queue.claims.work import Claim
from shared.queue.tasks.rules import Worker
from tests.promises.simulator.claimer import WAIT
from tests.promises.simulator.world import POOL, World

LATENCY = 0.01


@dataclass(frozen=True)
class Kind:
    """A kind of client: the least and the most seconds before its n-th repetition, the number of repetitions, and the
    pause of its worker after a call by the seconds that the call lasted."""

    delay: Callable[[int], tuple[float, float]]
    pause: Callable[[float], float]
    retries: int = 5


def _python(number: int) -> tuple[float, float]:
    return 0.075 * 2 ** (number - 1), 0.125 * 2 ** (number - 1)


def _go(number: int) -> tuple[float, float]:
    return 0.25 * 1.5 ** (number - 1), 0.75 * 1.5 ** (number - 1)


KINDS = {
    "scriptworker": Kind(_python, lambda lasted: 10),
    "generic-worker": Kind(_go, lambda lasted: max(5 - lasted, 0), retries=100),
    "a client that calls at once": Kind(_python, lambda lasted: 0),
    "a client that does not repeat": Kind(_python, lambda lasted: 10, retries=0),
}


@dataclass
class Client:
    """A worker that calls processes at random."""

    world: World
    kind: Kind
    processes: Sequence[Services]
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    answers: list[str] = field(default_factory=list)
    """The answers to its requests: `claims`, `503`, `empty`."""
    got: dict[str, float] = field(default_factory=dict)
    """When it got each task."""
    longest: int = 0
    """The most answers of 503 to one call of the worker."""

    def __post_init__(self) -> None:
        self.worker = Worker(worker_group="group", worker_id=self.world.slugid())

    async def request(self) -> list[Claim] | None:
        """Makes one request; returns None for an answer of 503."""
        told, services = asyncio.Event(), self.chance.choice(self.processes)
        claims = await services.work.claim_work(POOL, self.worker, 1, WAIT, told=told)
        self.answers.append("503" if told.is_set() else "claims" if claims else "empty")
        await self.world.clock.sleep(LATENCY)
        return None if told.is_set() else claims

    async def call(self) -> list[Claim]:
        """Makes a call with its repetitions. Returns no claim also if all of them fail."""
        for number in range(self.kind.retries + 1):
            if (claims := await self.request()) is not None:
                return claims
            self.longest = max(self.longest, number + 1)
            await self.world.clock.sleep(self.chance.uniform(*self.kind.delay(number + 1)))
        return []

    async def work(self, tasks: int) -> float:
        """Calls until it has had `tasks` tasks; returns when it got the last one."""
        while len(self.got) < tasks:
            began = self.world.clock.elapsed
            claims = await self.call()
            self.got |= {claim.task.task_id: self.world.clock.elapsed for claim in claims}
            if not claims:
                await self.world.clock.sleep(self.kind.pause(self.world.clock.elapsed - began))
        return self.world.clock.elapsed
