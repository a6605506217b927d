"""The examples of docs/events.md as programs, one of them started as a reader does: they work, and end in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.base.ids import new_slugid
from tests.host.service import Service
from tools.local.child import Child
from tools.local.state import ROOT, logs_folder

PATIENCE = 60


class Program:
    """A running example, and what it prints."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._read = 0

    def says(self, text: str) -> str:
        """The next line that has this text in it. Fails if there is none."""
        found = self.child.wait_for(rf"(?s)^.{{{self._read}}}.*?([^\n]*{re.escape(text)}[^\n]*)\n", PATIENCE)
        self._read = found.end()
        return found[1]

    def ends(self, code: int = 0) -> None:
        assert self.child.wait(PATIENCE) == code
        assert "Traceback" not in self.child.output()


def as_typed(service: Service, name: str, *arguments: str) -> Child:
    """An example as a reader starts it."""
    port = str(service.running.stack.options.ports.api)
    command = [sys.executable, "-m", "tools.local.cli", "example", "--port", port, name, *arguments]
    return Child.start("example", command, log=_log(service), cwd=ROOT)


def forked(service: Service, name: str, *arguments: str) -> Child:
    """The same without two new interpreters."""
    command = [sys.executable, "-m", "tools.local.tethered", f"docs.examples.{name.replace('-', '_')}", *arguments]
    return Child.start("example", command, log=_log(service), env=service.running.stack.environment, cwd=ROOT)


def _log(service: Service) -> Path:
    return logs_folder(service.running.stack.options.ports.api) / f"example-{new_slugid()}.log"


@contextmanager
def listening(child: Child) -> Iterator[Program]:
    """An example that listens already."""
    program = Program(child)
    try:
        program.says("listening to")
        yield program
    finally:
        child.stop(grace=0)


def test_the_monitor_prints_how_runs_end(service: Service) -> None:
    with listening(as_typed(service, "statistics-monitor")) as program:
        service.completed()
        assert "1 completed" in program.says(service.pool)
        os.kill(program.child.pid, signal.SIGINT)
        program.ends()


def test_the_provisioner_counts_what_was_pending_before_too(service: Service) -> None:
    service.create()
    with listening(forked(service, "observing-provisioner", service.pool)) as program:
        program.says(": 1 pending")
        service.create()
        program.says(": 2 pending")
        service.claim()
        program.says(": 1 pending")
        os.kill(program.child.pid, signal.SIGTERM)
        program.ends()


def test_the_woken_worker_completes_what_comes(service: Service) -> None:
    with listening(forked(service, "woken-worker", service.pool)) as program:
        task_id = service.create()
        program.says(f"completed {task_id}")
        assert service.status(task_id)["state"] == "completed"
        os.kill(program.child.pid, signal.SIGINT)
        program.ends()


def test_the_worker_stops_a_task_that_is_cancelled(service: Service) -> None:
    task_id = service.create()
    with listening(forked(service, "cancelled-task", service.pool, "--seconds", "600")) as program:
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
    with listening(forked(service, "dependent-scheduler", scheduler, str(graph))) as program:
        (claim,) = service.claim()
        assert service.status(waiting)["state"] == "unscheduled"
        service.worker(claim).reportCompleted(needed[1], 0)
        program.says(f"scheduled {waiting}")
        program.ends()
    assert service.status(waiting)["state"] == "pending"


def test_the_function_is_tried_without_functions(service: Service) -> None:
    with listening(forked(service, "notify")) as program:
        task_id = service.create(routes=["notify.email.me@example.com.on-failed"])
        (claim,) = service.claim()
        service.worker(claim).reportFailed(task_id, 0)
        program.says(f"email me@example.com: Task {task_id} has failed")
        os.kill(program.child.pid, signal.SIGINT)
        program.ends()


def test_the_bridge_says_what_it_cannot_reach(service: Service) -> None:
    bridge = forked(service, "pulse-bridge", "amqp://guest:guest@127.0.0.1:1/%2F", "mine", "task-completed")
    assert bridge.wait(PATIENCE) == 1
    assert bridge.output().splitlines()[-1].startswith("RabbitMQ:")
    assert "Traceback" not in bridge.output()
    bridge.stop()


def test_an_unknown_example_is_answered_with_the_names() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.local.cli", "example", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "statistics-monitor" in done.stderr
