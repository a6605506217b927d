"""Workers that come and go with the load: none too late, none twice, none left (docs/workers-azure.md)."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from local.child import Child
from local.state import ROOT
from local.worker_pool import Look, PoolOptions, WorkerPool
from local.workers import load_path
from tests.host.service import Service, eventually
from tests.local.stacks import is_running

INTERVAL = 2.0
IDLE = 4.0


@dataclass
class Observed:
    """A pool under a load, with everything that it did."""

    service: Service
    pool: WorkerPool
    looks: list[tuple[datetime, Look]] = field(default_factory=list)
    begun: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    """When each worker was started, and its process."""
    ended: dict[str, datetime] = field(default_factory=dict)
    """When a look noticed that a worker had ended."""

    def look(self) -> None:
        before = set(self.pool.workers)
        look = self.pool.look(self.service.call("get", load_path(self.service.pool))["unresolvedTasks"])
        assert look.failed == ()
        self.looks.append((datetime.now(UTC), look))
        self.ended |= dict.fromkeys(before - self.pool.workers.keys(), datetime.now(UTC))

    def wait_for_look(self) -> None:
        """Return after the next look."""
        seen = len(self.looks)
        eventually(lambda: len(self.looks) > seen, 60)

    def start(self, name: str, argv: list[str], **more: Any) -> Child:
        child = Child.start(name, argv, **more)
        self.begun[name] = (datetime.now(UTC), child.pid)
        return child

    def had_room(self, since: datetime, until: datetime) -> bool:
        """Whether every look in that time left room for a worker more."""
        most = self.pool.options.maximum
        return all(look.running + look.started < most for at, look in self.looks if since <= at <= until)

    def patience(self, runs: list[dict[str, Any]]) -> timedelta:
        """How long a run may wait: from one look to the next, and until a new worker has asked for its first task.

        One that got none has asked so long before its end as it was idle then.
        """
        times = [at for at, _ in self.looks]
        gap = max((later - at for at, later in itertools.pairwise(times)), default=timedelta())
        first: dict[str, datetime] = {}
        for run in runs:
            first[run["workerId"]] = min(_time(run["started"]), first.get(run["workerId"], _time(run["started"])))
        asked = {name: at - timedelta(seconds=IDLE) for name, at in self.ended.items()} | first
        return gap + max(at - self.begun[name][0] for name, at in asked.items())


@contextmanager
def scaled(service: Service, folder: Path, maximum: int) -> Iterator[Observed]:
    """A pool on the test's own task queue, looked at every interval in a thread of its own."""
    options = PoolOptions(
        task_queue_id=service.pool, maximum=maximum, polling_interval=INTERVAL, idle_timeout=IDLE, capacity=1
    )
    pool = WorkerPool(options, folder, folder, service.running.stack.environment)
    observed, ended, problems = Observed(service, pool), threading.Event(), list[BaseException]()
    pool.start = observed.start

    def look_again_and_again() -> None:
        due = time.monotonic()
        try:
            while not ended.wait(max(0.0, due - time.monotonic())):
                observed.look()
                due += INTERVAL
        except BaseException as problem:
            problems.append(problem)
            raise

    thread = threading.Thread(target=look_again_and_again)
    thread.start()
    try:
        yield observed
    finally:
        ended.set()
        thread.join()
        pool.end()
    assert problems == []


@pytest.mark.parametrize(
    ("waves", "tasks", "maximum"),
    [pytest.param(1, 4, 5, id="small"), pytest.param(3, 50, 8, id="three of fifty", marks=pytest.mark.large)],
)
@pytest.mark.timeout(600)
def test_workers_follow_a_load_that_rises_and_falls_to_nothing(
    service: Service, tmp_path: Path, waves: int, tasks: int, maximum: int
) -> None:
    folder, ran = tmp_path / "work", tmp_path / "ran"
    folder.mkdir()
    ran.mkdir()
    with scaled(service, folder, maximum) as observed:
        for _ in range(waves):
            ids = _rising(observed, tasks, ran)
            runs = [run for task_id in ids for run in service.wait_for(task_id, "completed", 300)["runs"]]
            assert len(runs) == tasks, "each has one run"
            assert [(ran / task_id).read_text() for task_id in ids] == ["run\n"] * tasks, "and was run once"
            eventually(lambda: not observed.pool.workers, 60)
            _assert_none_waited(observed, runs)
            assert service.call("get", load_path(service.pool))["unresolvedTasks"] == 0
            assert list(folder.iterdir()) == [], "no folder of a run, no log"
        most = max(look.running + look.started for _, look in observed.looks)
        assert 1 < most <= maximum
    assert not [name for name, (_, pid) in observed.begun.items() if is_running(pid)]


def _rising(observed: Observed, tasks: int, ran: Path) -> list[str]:
    """Tasks in ever larger batches, one before each look."""
    ids: list[str] = []
    batch = 1
    while len(ids) < tasks:
        for _ in range(min(batch, tasks - len(ids))):
            script = f"echo run >> {ran}/$TASK_ID; sleep {INTERVAL}"
            ids.append(observed.service.create(payload={"command": ["sh", "-c", script], "maxRunTime": 60}))
        batch *= 2
        observed.wait_for_look()
    return ids


def _assert_none_waited(observed: Observed, runs: list[dict[str, Any]]) -> None:
    patience = observed.patience(runs)
    times = [(_time(run["scheduled"]), _time(run["started"])) for run in runs]
    roomy = [claimed - pending for pending, claimed in times if observed.had_room(pending, claimed)]
    assert roomy
    assert not [wait for wait in roomy if wait > patience], f"{patience} is a look and the start of a worker"
    print(f"{len(roomy)} of {len(runs)} with room: longest wait {max(roomy, default=timedelta())}, allowed {patience}")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@contextmanager
def commanded(service: Service, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`./dev workers` on the test's own task queue."""
    environment = {**os.environ, **service.running.stack.environment, "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "local.workers", service.pool, "--max", "2", *more]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_command_ends_with_its_workers_and_what_they_ran_waits_again(
    service: Service, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    task_id = service.create(payload={"command": ["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 600"]})
    with commanded(service, folder, "--polling-interval", "1", "--idle-timeout", "60") as process:
        task = int(eventually(lambda: (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else None, 60))
        process.send_signal(number)
        shown, _ = process.communicate(timeout=60)
    assert "1 unresolved, 1 worker: 1 started" in shown
    eventually(lambda: not is_running(task), 30)
    eventually(lambda: service.status(task_id)["state"] == "pending", 30)
    assert [run.get("reasonResolved") for run in service.status(task_id)["runs"]] == ["worker-shutdown", None]
    if number is signal.SIGINT:
        assert process.returncode == 0
        assert list(folder.iterdir()) == []


def test_the_command_goes_on_while_the_load_cannot_be_read(service: Service, tmp_path: Path) -> None:
    """By a client that may claim, but not see how much there is to do."""
    made = service.running.deployment.new_client(f"queue:claim-work:{service.pool}")
    environment = {
        **os.environ,
        "TASKCLUSTER_ROOT_URL": service.running.deployment.root_url,
        "TASKCLUSTER_CLIENT_ID": made["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": made["accessToken"],
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "local.workers", service.pool, "--polling-interval", "0.2"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert sum("the load cannot be read" in line for line in lines) >= 2
