"""The faults of a chaos run: processes killed and frozen, connections cut, at random times from a kept seed."""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

from tools.local import state
from tools.local.chaos.graphs import TASK_QUEUE_ID
from tools.local.child import Child
from tools.local.stack import Stack

MODES = ("signed", "claim-work")
PAUSE = (0.5, 2.0)
"""Seconds between two faults."""
FREEZE = (0.5, 6.0)
"""Seconds for which storage, the broker or a host does not respond: shorter and longer than a storage request waits."""


class Fleet:
    """Reference workers, half of them on signed URLs. A worker that is lost is replaced at once."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._started = 0
        self._workers: list[Child] = []
        self._lock = threading.Lock()

    def grow(self, count: int) -> None:
        """Start so many workers."""
        with self._lock:
            for _ in range(count):
                self._start()

    def lose_one(self, chance: random.Random, *, kill: bool) -> None:
        """A worker is killed, or is asked to end; another takes its place. Nothing happens before the first one."""
        with self._lock:
            if not self._workers:
                return
            worker = self._workers.pop(chance.randrange(len(self._workers)))
            if kill:
                worker.kill()
            else:
                worker.stop()
            self._start()

    def stop(self) -> None:
        """End all workers in order."""
        with self._lock:
            for worker in self._workers:
                worker.terminate()
            for worker in self._workers:
                worker.stop()
            self._workers.clear()

    def _start(self) -> None:
        self._started += 1
        name = f"w{self._started}"
        arguments = ["--task-queue-id", TASK_QUEUE_ID, "--worker-group", "chaos", "--worker-id", name]
        work = self._folder / name
        work.mkdir()
        arguments += ["--poll-mode", MODES[self._started % 2], "--idle-seconds", "0.5", "--work-dir", str(work)]
        self._workers.append(
            Child.start(
                name,
                [sys.executable, "-m", "tools.local.tethered", "worker", *arguments],
                log=state.logs_folder(self._stack.options.ports.api) / f"{name}.log",
                env=self._stack.environment,
                cwd=state.ROOT,
            )
        )


class Disturbance(Protocol):
    """What goes on beside the tasks of a run."""

    counts: Counter[str]
    """How often each kind of thing was done."""

    def start(self) -> None:
        """Begin, in a thread."""

    def stop(self) -> None:
        """End; everything runs again afterwards. Raises what it has failed with."""


class Faults(threading.Thread):
    """Applies faults until it is stopped. `counts` says how often each kind of fault was applied."""

    def __init__(self, stack: Stack, fleet: Fleet, chance: random.Random) -> None:
        super().__init__(name="faults")
        self._stack = stack
        self._fleet = fleet
        self._chance = chance
        self._enough = threading.Event()
        self._failure: Exception | None = None
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Apply one fault after the other, until `stop`."""
        strikes = {
            "worker killed": lambda: self._fleet.lose_one(self._chance, kill=True),
            "worker ended": lambda: self._fleet.lose_one(self._chance, kill=False),
            "host killed": self._kill_host,
            "host frozen": self._freeze_host,
            "storage frozen": self._freeze_storage,
            "broker frozen": self._freeze_broker,
            "connections to the broker cut": self._stack.service_bus.close_connections,
        }
        try:
            kinds: list[str] = []
            while not self._enough.wait(self._chance.uniform(*PAUSE)):
                kinds = kinds or self._chance.sample(list(strikes), len(strikes))  # a short run meets every kind
                kind = kinds.pop()
                strikes[kind]()
                self.counts[kind] += 1
        except Exception as error:  # raised again by `stop`, in the caller's thread
            self._failure = error

    def stop(self) -> None:
        """End the faults; everything runs again afterwards. Raises what a fault has failed with."""
        self._enough.set()
        if self.ident is not None:
            self.join()
        if self._failure is not None:
            raise self._failure

    def _kill_host(self) -> None:
        port = self._chance.choice(self._stack.options.ports.hosts)
        self._stack.stop_host(port, kill=True)
        self._stack.start_host(port)

    def _freeze_host(self) -> None:
        self._freeze(self._stack.host(self._chance.choice(self._stack.options.ports.hosts)))

    def _freeze_storage(self) -> None:
        self._freeze(self._chance.choice(list(self._stack.azurite.children.values())))

    def _freeze(self, child: Child) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        try:
            time.sleep(self._chance.uniform(*FREEZE))
        finally:
            os.kill(child.pid, signal.SIGCONT)

    def _freeze_broker(self) -> None:
        self._stack.service_bus.pause()
        try:
            time.sleep(self._chance.uniform(*FREEZE))
        finally:
            self._stack.service_bus.resume()
