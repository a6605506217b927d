"""The workers of a task queue on this machine, started and counted as a Container Apps job starts and counts them.

Each look at the load starts as many workers as KEDA would, and each worker ends by itself
when it has been idle for a while. The defaults are those of the job's template, infra/workers/defaults.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.local import state
from tools.local.child import Child

IDLE_SECONDS = 1.0
"""The longest pause of an idle worker between two polls, in signed mode. On one machine polls cost nothing."""
GRACE_SECONDS = 30.0
"""Time that workers have to end: they stop their tasks first, and report that."""
DEFAULTS: Mapping[str, Any] = json.loads(
    (state.ROOT / "infra" / "workers" / "defaults.json").read_text(encoding="utf-8")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolOptions:
    """Options of a pool."""

    task_queue_id: str
    worker_group: str = "local"
    maximum: int = DEFAULTS["maxExecutions"]
    polling_interval: float = DEFAULTS["pollingInterval"]
    """Seconds between two looks at the load."""
    idle_timeout: float = DEFAULTS["idleTimeout"]
    """Seconds without a task after which a worker ends."""
    poll_mode: str = "signed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One reading of the load: what was read, and which workers were started or have failed."""

    unresolved: int | None
    """Number of runs that are pending or claimed; None if the load could not be read."""
    running: int
    """Number of workers that were running before."""
    started: int
    failed: tuple[str, ...]
    """The last lines of the logs of workers that have failed since the last look."""


@dataclass
class WorkerPool:
    """Worker processes. They end with this process, however it ends."""

    options: PoolOptions
    folder: Path
    """Folder in which each worker gets a folder for its tasks and caches. That is removed when the worker has ended."""
    logs: Path
    """Folder of the workers' logs. If it equals `folder`, logs of workers that ended in order are removed."""
    environment: Mapping[str, str] = field(repr=False)
    """Root URL and credentials of the workers."""
    start: Callable[..., Child] = Child.start
    workers: dict[str, Child] = field(default_factory=dict)
    """Environment variables with the root URL and the credentials of the workers."""
    started: int = 0
    """Workers that have not ended, by id."""
    most: int = 0
    """The most workers that ran at the same time."""

    def look(self, unresolved: int | None) -> Look:
        """Starts workers for the runs that are pending or claimed, less the workers that are running, as KEDA does with
        its strategy `default`. If it counted pending runs alone, none would start while as many workers are busy."""
        failed = self._forget_ended()
        running = len(self.workers)
        number = max(0, min(unresolved or 0, self.options.maximum) - running)
        for _ in range(number):
            self._start()
        return Look(unresolved=unresolved, running=running, started=number, failed=failed)

    def end(self) -> None:
        """Ends the workers; the runs that they hold are pending again."""
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            worker.stop(GRACE_SECONDS)
        for name in self.workers:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.workers.clear()

    def _forget_ended(self) -> tuple[str, ...]:
        failed = []
        for name, worker in list(self.workers.items()):
            code = worker.poll()
            if code is None:
                continue
            worker.stop()
            shutil.rmtree(self.folder / name, ignore_errors=True)
            del self.workers[name]
            if code == 0 and self.logs == self.folder:
                worker.log.unlink(missing_ok=True)
            if code != 0:
                failed.append(f"{name} ended with exit code {code}:\n{worker.tail()}")
        return tuple(failed)

    def _start(self) -> None:
        self.started += 1
        options, name = self.options, f"worker-{self.started}"
        arguments = ["--task-queue-id", options.task_queue_id, "--worker-group", options.worker_group]
        arguments += ["--worker-id", name, "--poll-mode", options.poll_mode]
        arguments += ["--idle-timeout", str(options.idle_timeout), "--idle-seconds", str(IDLE_SECONDS)]
        (self.folder / name).mkdir()
        arguments += ["--work-dir", str(self.folder / name)]
        self.workers[name] = self.start(
            name,
            [sys.executable, "-m", "tools.local.tethered", "worker", *arguments],
            log=self.logs / f"{name}.log",
            env=self.environment,
            cwd=state.ROOT,
        )
        self.most = max(self.most, len(self.workers))
