"""The faults of a chaos run: processes killed and frozen, connections cut, at random times from a kept seed."""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tools.local import state
from tools.local.azurite import Fault
from tools.local.chaos.graphs import TASK_QUEUE_ID
from tools.local.child import Child
from tools.local.stack import Stack

MODES = ("signed", "claim-work")
PAUSE = (0.5, 2.0)
"""Seconds between two faults."""
FREEZE = (0.5, 6.0)
"""Seconds for which storage, the broker or a host does not respond: shorter and longer than a storage request waits."""
FAILURE = (1.0, 6.0)
"""Seconds for which a service of storage fails: shorter and longer than a host bears it (`command.TIMES`)."""
STORAGE_FAULTS: Mapping[str, tuple[Any, ...]] = {
    "queues refuse": ("queue", "refuse", 403, "AuthorizationFailure"),
    "queues are busy": ("queue", "refuse", 503, "ServerBusy"),
    "tables are busy": ("table", "refuse", 503, "ServerBusy"),
    "blobs refuse": ("blob", "refuse", 403, "AuthorizationFailure"),
    "connections to queues are cut": ("queue", "cut"),
    "connections to tables are cut": ("table", "cut"),
    "answers of queues are lost": ("queue", "lose"),
    "answers of tables are lost": ("table", "lose"),
}


class Fleet:
    """Reference workers, half of them on signed URLs. A worker that is lost is replaced at once."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._started = 0
        self._workers: list[Child] = []
        self._lock = threading.Lock()

    def grow(self, count: int) -> None:
        """Starts so many workers."""
        with self._lock:
            for _ in range(count):
                self._start()

    def lose_one(self, chance: random.Random, *, kill: bool) -> None:
        """Kills a worker, or asks it to end; another one replaces it. Does nothing before the first worker."""
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
        """Ends all workers in order."""
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


class Faults(threading.Thread):
    """Applies faults until it is stopped. `counts` says how often each kind of fault was applied."""

    def __init__(self, stack: Stack, fleet: Fleet, chance: random.Random) -> None:
        super().__init__(name="faults")
        self._stack = stack
        self._fleet = fleet
        self._chance = chance
        self._enough = threading.Event()
        self._failures: list[Exception] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Applies one fault after the other, until `stop`."""
        strikes: dict[str, Callable[[], object]] = {
            "worker killed": lambda: self._fleet.lose_one(self._chance, kill=True),
            "worker ended": lambda: self._fleet.lose_one(self._chance, kill=False),
            "host killed": lambda: self._host().kill(),
            "host's app killed": self._kill_app,
            "host frozen": lambda: self._freeze(self._host()),
            "storage frozen": lambda: self._freeze(self._chance.choice(list(self._stack.azurite.children.values()))),
            **{f"storage: {name}": partial(self._fail_storage, *fault) for name, fault in STORAGE_FAULTS.items()},
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
            self._failures.append(error)

    def stop(self) -> None:
        """Ends the faults. Raises what a fault has failed with."""
        self._enough.set()
        if self.ident is not None:
            self.join()
        if self._failures:
            raise self._failures[0]

    def _host(self) -> Child:
        return self._stack.host(self._chance.choice(self._stack.places))

    def _kill_app(self) -> None:
        """Ends the process in which a host's app runs, as its own code or a lack of memory may. The host goes on."""
        pid = self._stack.app_pid(self._chance.choice(self._stack.places))
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)

    def _freeze(self, child: Child) -> None:
        with contextlib.suppress(ProcessLookupError):  # a host may have ended
            os.killpg(child.pid, signal.SIGSTOP)
            try:
                time.sleep(self._chance.uniform(*FREEZE))
            finally:
                os.killpg(child.pid, signal.SIGCONT)

    def _fail_storage(self, service: str, kind: Fault, status: int = 0, code: str = "") -> None:
        self._stack.azurite.fail(service, kind, status, code)
        try:
            time.sleep(self._chance.uniform(*FAILURE))
        finally:
            self._stack.azurite.heal(service)

    def _freeze_broker(self) -> None:
        self._stack.service_bus.pause()
        try:
            time.sleep(self._chance.uniform(*FREEZE))
        finally:
            self._stack.service_bus.resume()
