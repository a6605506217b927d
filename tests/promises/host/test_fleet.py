"""While workers of both kinds and the service are killed, every task is done, by one worker at a time."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shared.base.priority import PRIORITIES
from tests.parts.local.stacks import free_ports
from tests.promises.host.conftest import QUICK
from tests.promises.host.service import Running, Service, eventually
from tests.promises.host.workers import MODES, start_worker
from tools.local import state
from tools.local.child import Child
from tools.local.stack import Stack, StackOptions

WORKERS = 20
SETTINGS = {**QUICK, "CLAIM_TIMEOUT_SECONDS": "8"}
TIMES = {"take": 5, "lease": 15}
"""Seconds after which messages and locks of a killed host are free again; the platform's times are longer."""
RETRIES = 20
"""Number of retries: more than one task can lose by the kills."""
COUNT = 1000
APART = 10
"""Number of tasks that are begun between two kills: by the clock alone, a slow machine could start none."""
STUCK = 300.0
"""Seconds without a begun task after which the test fails."""


@pytest.fixture
def stack() -> Iterator[Stack]:
    """A stack with two hosts of the test's own, since they are killed."""
    options = StackOptions(free_ports(2), in_memory=True, times=TIMES, app_settings=SETTINGS)
    try:
        with Stack.start(options) as running:
            yield running
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


class Fleet:
    """Workers; a dead one is replaced."""

    def __init__(self, stack: Stack, pool: str, logs: Path) -> None:
        self._stack = stack
        self._pool = pool
        self._logs = logs
        self._started = 0
        self._workers: list[Child] = []

    def start_one(self) -> None:
        """Starts another worker; every other one polls signed URLs."""
        self._started += 1
        number = self._started
        mode, name = MODES[number % 2], f"w{number}"
        self._workers.append(start_worker(self._stack, self._pool, name, logs=self._logs, mode=mode))

    def lose_one(self, chance: random.Random, *, kill: bool) -> None:
        """Kills a worker, or asks it to end, and starts another one in its place."""
        worker = self._workers.pop(chance.randrange(len(self._workers)))
        if kill:
            worker.kill()
        else:
            worker.stop()
        self.start_one()

    def stop(self) -> None:
        """Ends all workers."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.stop()


class Chaos(threading.Thread):
    """Kills workers and hosts until it is stopped, as long as tasks are begun."""

    def __init__(self, stack: Stack, fleet: Fleet, seed: int) -> None:
        super().__init__(name="chaos")
        self._stack = stack
        self._fleet = fleet
        self._chance = random.Random(seed)
        self._enough = threading.Event()
        self.failure: Exception | None = None
        self.kills = 0
        self.begun = 0
        """How many tasks a worker has begun, as far as the test has seen."""

    def run(self) -> None:
        next_at = 0
        try:
            while not self._enough.wait(self._chance.uniform(0.4, 1.2)):
                if self.begun >= next_at:
                    self._strike()
                    next_at = self.begun + APART
        except Exception as error:  # reported in the test's own thread
            self.failure = error

    def _strike(self) -> None:
        if self.kills % 6 == 3:
            port = self._chance.choice(self._stack.options.ports.hosts)
            self._stack.stop_host(port, kill=True)
            self._enough.wait(self._chance.uniform(0, 1))
            self._stack.start_host(port)
        else:
            self._fleet.lose_one(self._chance, kill=self.kills % 3 != 2)
        self.kills += 1

    def stop(self) -> None:
        self._enough.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def create_all(service: Service, count: int, notes: Path) -> list[str]:
    """Creates tasks of all priorities that write down at each step which run they are."""
    script = f'for step in 1 2 3 4 5; do echo "$RUN_ID" >> {notes}/$TASK_ID; sleep 0.1; done'
    payload = {"command": ["sh", "-c", script], "maxRunTime": 60}

    def create(number: int) -> str:
        return service.create(priority=PRIORITIES[number % len(PRIORITIES)], payload=payload, retries=RETRIES)

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(create, range(count)))


def counts(service: Service) -> tuple[int, int]:
    """Returns how many tasks are pending, and how many are claimed."""
    answer = service.queue.taskQueueCounts(service.pool)
    return answer["pendingTasks"], answer["claimedTasks"]


def resolved(service: Service, ids: list[str]) -> list[dict[str, Any]] | None:
    """Returns the statuses of all tasks once all of them are resolved; None before."""
    found = service.statuses(ids)
    return found if all(status["state"] in ("completed", "failed", "exception") for status in found) else None


@pytest.mark.timeout(2400)
@pytest.mark.large
def test_every_task_is_done_by_one_worker_at_a_time(stack: Stack, tmp_path: Path) -> None:
    notes, logs = tmp_path / "notes", tmp_path / "logs"
    notes.mkdir()
    running = Running.of(stack)
    service = Service(running)
    fleet = Fleet(stack, service.pool, logs)
    seed = random.randrange(1_000_000)
    chaos = Chaos(stack, fleet, seed)
    logs.mkdir()
    try:
        ids = create_all(service, COUNT, notes)
        for _ in range(WORKERS):
            fleet.start_one()
        chaos.start()
        seen = time.monotonic()
        while chaos.begun < COUNT:
            begun = len(list(notes.iterdir()))  # costs the service nothing
            if begun > chaos.begun:
                chaos.begun, seen = begun, time.monotonic()
            assert time.monotonic() < seen + STUCK, f"seed {seed}: {begun} of {COUNT} tasks, and no more"
            if begun > COUNT * 2 / 3:
                chaos.stop()
            time.sleep(0.3)
        eventually(lambda: counts(service) == (0, 0), STUCK, lambda: f"seed {seed}: left are {counts(service)}")
        # A claim that has expired counts no more, and its retry not yet: the counts may be those of such a moment.
        ended = eventually(lambda: resolved(service, ids), STUCK, lambda: f"seed {seed}: {service.statuses(ids)}")
        for status in ended:
            states = [run["state"] for run in status["runs"]]
            assert states == ["exception"] * (len(states) - 1) + ["completed"], status
            steps = [int(line) for line in (notes / status["taskId"]).read_text().split()]
            assert steps == sorted(steps), f"seed {seed}: two runs of {status['taskId']} at the same time: {steps}"
            assert steps.count(len(states) - 1) == 5, f"seed {seed}: {status}"
        assert chaos.kills >= 4, "workers and a host were killed"
    finally:
        if chaos.ident is not None:
            chaos.stop()
        fleet.stop()
        running.close()
    assert running.spread.defects == []
