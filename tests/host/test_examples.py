"""The examples of docs/events.md as programs, started as a reader does: they work, and end without a traceback."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local.state import ROOT
from shared.base.ids import new_slugid
from tests.host.service import Service

PATIENCE = 60


class Program:
    """A running example, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip())

    def says(self, text: str) -> str:
        """The next line that has this text in it. Fails the test if there is none."""
        seen = []
        try:
            while text not in (line := self.lines.get(timeout=PATIENCE)):
                seen.append(line)
        except queue.Empty:
            pytest.fail(f"{text!r} was not printed, but {seen}")
        return line

    def ends(self, code: int = 0) -> None:
        assert self.process.wait(PATIENCE) == code
        self._reader.join(PATIENCE)
        assert not [line for line in self.lines.queue if "Traceback" in line]


@contextmanager
def example(service: Service, name: str, *arguments: str) -> Iterator[Program]:
    """An example that listens already."""
    port = str(service.running.stack.options.ports.api)
    command = [sys.executable, "-m", "local.cli", "example", "--port", port, name, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            program = Program(process)
            program.says("listening to")
            yield program
        finally:
            process.kill()


def test_the_monitor_prints_how_runs_end(service: Service) -> None:
    with example(service, "statistics-monitor") as program:
        service.completed()
        assert "1 completed" in program.says(service.pool)
        program.process.send_signal(signal.SIGINT)
        program.ends()


def test_the_provisioner_counts_what_was_pending_before_too(service: Service) -> None:
    service.create()
    with example(service, "observing-provisioner", service.pool) as program:
        program.says(": 1 pending")
        service.create()
        program.says(": 2 pending")
        service.claim()
        program.says(": 1 pending")
        program.process.send_signal(signal.SIGTERM)
        program.ends()


def test_the_woken_worker_completes_what_comes(service: Service) -> None:
    with example(service, "woken-worker", service.pool) as program:
        task_id = service.create()
        program.says(f"completed {task_id}")
        assert service.status(task_id)["state"] == "completed"
        program.process.send_signal(signal.SIGINT)
        program.ends()


def test_the_worker_stops_a_task_that_is_cancelled(service: Service) -> None:
    task_id = service.create()
    with example(service, "cancelled-task", service.pool, "--seconds", "600") as program:
        program.says(f"running {task_id}")
        service.queue.cancelTask(task_id)
        program.says(f"stopped {task_id}")
        program.ends()


def test_the_scheduler_ends_when_all_is_scheduled(service: Service, tmp_path: Path) -> None:
    """One of the needed tasks has completed before it starts, the other one completes while it runs."""
    scheduler = new_slugid()
    needed = [service.completed(schedulerId=scheduler), service.create(schedulerId=scheduler)]
    waiting = service.create(schedulerId=scheduler, dependencies=[service.create(taskQueueId="test/never-claimed")])
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps({waiting: needed}))
    with example(service, "dependent-scheduler", scheduler, str(graph)) as program:
        (claim,) = service.claim()
        assert service.status(waiting)["state"] == "unscheduled"
        service.worker(claim).reportCompleted(needed[1], 0)
        program.says(f"scheduled {waiting}")
        program.ends()
    assert service.status(waiting)["state"] == "pending"


def test_the_function_is_tried_without_functions(service: Service) -> None:
    with example(service, "notify") as program:
        task_id = service.create(routes=["notify.email.me@example.com.on-failed"])
        (claim,) = service.claim()
        service.worker(claim).reportFailed(task_id, 0)
        program.says(f"email me@example.com: Task {task_id} has failed")
        program.process.send_signal(signal.SIGINT)
        program.ends()


def test_the_bridge_says_what_it_cannot_reach(service: Service) -> None:
    port = str(service.running.stack.options.ports.api)
    words = ("pulse-bridge", "amqp://guest:guest@127.0.0.1:1/%2F", "mine", "task-completed")
    done = subprocess.run(
        [sys.executable, "-m", "local.cli", "example", "--port", port, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1][:9]) == (1, "RabbitMQ:")
    assert "Traceback" not in done.stderr


def test_an_unknown_example_is_answered_with_the_names() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "local.cli", "example", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "statistics-monitor" in done.stderr
