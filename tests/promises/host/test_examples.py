"""The examples of docs/events.md work as programs and end in order; one is started as a reader does."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.base.ids import new_slugid
from tests.promises.host.service import Service
from tools.local.child import Child
from tools.local.state import ROOT, logs_folder

PATIENCE = 60


class Program:
    """A running example, and what it prints."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._read = 0

    def says(self, text: str) -> str:
        """Waits for the next line that has this text in it, and returns it. Fails if there is none."""
        found = self.child.wait_for(rf"(?s)^.{{{self._read}}}.*?([^\n]*{re.escape(text)}[^\n]*)\n", PATIENCE)
        self._read = found.end()
        return found[1]

    def ends(self, code: int = 0) -> None:
        assert self.child.wait(PATIENCE) == code
        assert "Traceback" not in self.child.output()


def forked(service: Service, name: str, *arguments: str) -> Child:
    """Starts an example without two new interpreters."""
    command = [sys.executable, "-m", "tools.local.tethered", f"docs.examples.{name.replace('-', '_')}", *arguments]
    return Child.start("example", command, log=_log(service), env=service.running.stack.environment, cwd=ROOT)


def _log(service: Service) -> Path:
    return logs_folder(service.running.stack.options.ports.api) / f"example-{new_slugid()}.log"


@contextmanager
def listening(child: Child) -> Iterator[Program]:
    """Yields an example that listens already."""
    program = Program(child)
    try:
        program.says("listening to")
        yield program
    finally:
        child.stop(grace=0)


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
