"""What tests of the reference worker share: payloads, artifacts of their runs, and waiting for files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.promises.host.service import Refused, Service, eventually, outcome
from tests.promises.host.workers import worker
from tools.local.child import Child

SECONDS = 30
LOG = "public/logs/live.log"
BACKING = "public/logs/live_backing.log"


def shell(script: str, **more: Any) -> dict[str, Any]:
    """Returns a payload."""
    return {"command": ["sh", "-c", script], "maxRunTime": 60, **more}


@contextmanager
def working(service: Service, logs: Path, *more: str, name: str = "one", mode: str = "signed") -> Iterator[Child]:
    """Runs a worker on the test's own pool."""
    stack = service.running.stack
    with worker(stack, service.pool, name, logs=logs, mode=mode, more=more) as child:
        yield child


def run_of(service: Service, task_id: str, run_id: int = 0) -> dict[str, Any]:
    """Returns a run of a task."""
    run: dict[str, Any] = service.status(task_id)["runs"][run_id]
    return run


def wait_for_file(path: Path) -> str:
    """Waits until a task has written something into a file, line by line, and returns it."""
    return eventually(lambda: path.read_text() if path.exists() else None, SECONDS)


def names(service: Service, task_id: str, run_id: int = 0) -> list[str]:
    """Returns the names of the artifacts of a run."""
    return [each["name"] for each in service.queue.listArtifacts(task_id, run_id)["artifacts"]]


def content(service: Service, task_id: str, name: str, run_id: int = 0, **headers: str) -> requests.Response:
    """Returns an artifact as its storage serves it."""
    url = service.queue.getArtifact(task_id, run_id, name)["url"]
    answer = requests.get(url, headers=headers, timeout=30)
    assert answer.ok, answer.text
    return answer


def artifact(service: Service, task_id: str, name: str, run_id: int = 0) -> str:
    """Returns the content of an artifact."""
    return content(service, task_id, name, run_id).text


def log_with(service: Service, task_id: str, text: str, run_id: int = 0) -> str:
    """Returns the log as soon as it has this text."""

    def found() -> str | None:
        answer = outcome(lambda: service.queue.getArtifact(task_id, run_id, LOG))
        if isinstance(answer, Refused):
            assert answer.status == 404, "it is yet to come"
            return None
        log = requests.get(answer["url"], timeout=30).text
        return log if text in log else None

    return eventually(found, SECONDS)
