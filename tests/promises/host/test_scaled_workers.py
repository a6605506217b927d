"""Workers come and go with the load: one for each task, none twice, none left (docs/workers-azure.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local.stacks import is_running
from tests.promises.host.service import Service, eventually
from tools.local.child import Child
from tools.local.state import ROOT
from tools.local.worker_pool import Look, PoolOptions, WorkerPool
from tools.local.workers import load_path
from tools.local.workers import run as look_after

INTERVAL = 2.0
IDLE = 4.0


@dataclass
class Observed(WorkerPool):
    """A pool that notes everything that it does."""

    looks: list[Look] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    """The process ids of the workers that were started."""

    def __post_init__(self) -> None:
        self.start = self._start_and_note

    def look(self, unresolved: int | None) -> Look:
        look = super().look(unresolved)
        assert look.failed == ()
        self.looks.append(look)
        return look

    def wait_for_look(self) -> None:
        """Returns after the next look."""
        seen = len(self.looks)
        eventually(lambda: len(self.looks) > seen, 60)

    def _start_and_note(self, name: str, argv: list[str], **more: Any) -> Child:
        child = Child.start(name, argv, **more)
        self.begun.append(child.pid)
        return child


@contextmanager
def scaled(service: Service, folder: Path, maximum: int) -> Iterator[Observed]:
    """Runs what `./dev workers` runs, on the test's own task queue, with the looks at the load in a thread."""
    options = PoolOptions(task_queue_id=service.pool, maximum=maximum, polling_interval=INTERVAL, idle_timeout=IDLE)
    environment = {**service.running.stack.environment, "TMPDIR": str(folder)}
    pool = Observed(options, folder, folder, environment)

    def read() -> int:
        return int(service.call("get", load_path(service.pool))["unresolvedTasks"])

    ended = threading.Event()
    try:
        with ThreadPoolExecutor(1) as executor:
            looking = executor.submit(look_after, pool, read, print, ended)
            try:
                yield pool
            finally:
                ended.set()
        looking.result()
    finally:
        pool.end()


@pytest.mark.timeout(600)
def test_workers_follow_a_load_that_rises_and_falls_to_nothing(service: Service, tmp_path: Path) -> None:
    with scaled(service, _made(tmp_path / "work"), 5) as pool:
        _wave(service, pool, 4, _made(tmp_path / "ran"))
    _assert_none_is_left(pool)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _wave(service: Service, pool: Observed, tasks: int, ran: Path) -> list[str]:
    """Lets a load rise to this number of tasks, which are worked off and leave nothing; returns the tasks."""
    ids = _rising(service, pool, tasks, ran)
    runs = [run for task_id in ids for run in service.wait_for(task_id, "completed", 300)["runs"]]
    assert len(runs) == tasks, "each has one run"
    assert [(ran / task_id).read_text() for task_id in ids] == ["run\n"] * tasks, "and was run once"
    eventually(lambda: not pool.workers, 120)
    _assert_each_has_a_worker(pool)
    assert service.call("get", load_path(service.pool))["unresolvedTasks"] == 0
    assert list(pool.folder.iterdir()) == [], "no folder of a run, no log, no temporary file"
    return ids


def _rising(service: Service, pool: Observed, tasks: int, ran: Path) -> list[str]:
    """Creates tasks in ever larger batches, one before each look; returns their ids."""
    ids: list[str] = []
    batch = 1
    while len(ids) < tasks:
        for _ in range(min(batch, tasks - len(ids))):
            script = f"echo run >> {ran}/$TASK_ID; sleep {INTERVAL}"
            ids.append(service.create(payload={"command": ["sh", "-c", script], "maxRunTime": 60}))
        batch *= 2
        pool.wait_for_look()
    return ids


def _assert_each_has_a_worker(pool: Observed) -> None:
    """Checks that after each look there are as many workers as there is work, up to the most that may run. How long a
    worker takes to start, and to ask, is measured in tools/bench/."""
    for look in pool.looks:
        assert look.unresolved is not None
        assert look.running + look.started >= min(look.unresolved, pool.options.maximum)


def _assert_none_is_left(pool: Observed) -> None:
    assert 1 < max(look.running + look.started for look in pool.looks) <= pool.options.maximum
    assert not [pid for pid in pool.begun if is_running(pid)]


@contextmanager
def commanded(service: Service, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Runs `./dev workers` on the test's own task queue."""
    environment = {**os.environ, **service.running.stack.environment, "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "tools.local.workers", service.pool, "--max", "2", *more]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.large)])
def test_the_command_ends_with_its_workers_and_what_they_ran_waits_again(
    service: Service, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    payload = {"command": ["sh", "-c", f"echo $$ > {tmp_path}/pid-$TASK_ID; sleep 600"]}

    def begun(task_id: str) -> int:
        path = tmp_path / f"pid-{task_id}"
        return int(eventually(lambda: path.read_text() if path.exists() else None, 60))

    first = service.create(payload=payload)
    with commanded(service, folder, "--polling-interval", "1", "--idle-timeout", "60") as process:
        ran = {first: begun(first)}
        second = service.create(payload=payload)
        ran[second] = begun(second)
        process.send_signal(number)
        shown, _ = process.communicate(timeout=60)
    assert "1 unresolved, 1 worker: 1 started" in shown
    assert "2 unresolved, 2 workers: 1 started" in shown, "one that is busy counts on both sides"
    eventually(lambda: not any(map(is_running, ran.values())), 30)
    eventually(lambda: {service.status(task_id)["state"] for task_id in ran} == {"pending"}, 30)
    for task_id in ran:
        assert [each.get("reasonResolved") for each in service.status(task_id)["runs"]] == ["worker-shutdown", None]
    if number is signal.SIGINT:
        assert process.returncode == 0
        assert list(folder.iterdir()) == []


def test_the_command_goes_on_while_the_load_cannot_be_read(service: Service, tmp_path: Path) -> None:
    """The command goes on while it cannot read the load, with a client that may claim but not read counts."""
    made = service.running.deployment.new_client(f"queue:claim-work:{service.pool}")
    environment = {
        **os.environ,
        "TASKCLUSTER_ROOT_URL": service.running.deployment.root_url,
        "TASKCLUSTER_CLIENT_ID": made["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": made["accessToken"],
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "tools.local.workers", service.pool, "--polling-interval", "0.2"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert sum("the load cannot be read" in line for line in lines) >= 2
