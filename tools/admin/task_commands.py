"""Commands on tasks, through the API: `task show|log|rerun|cancel|schedule|priority|retrigger|create`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import requests
import taskcluster
import typer

from tools.admin.connection import queue_api
from tools.admin.output import fail, say, show
from tools.admin.storage_commands import tasks as tasks  # with the commands of this module
from tools.admin.tables import FINAL, ago, facts, painted, printed, table
from tools.admin.terminal import Harmless
from tools.admin.work import UNSUCCESSFUL, Json, TaskId, Watch, changes
from tools.local.output import as_json as json_of

LOG = "public/logs/live.log"
FOLLOW_SECONDS = 2.0
_TIMES = ("created", "deadline", "expires")

Priority = Annotated[str, typer.Argument(metavar="PRIORITY", help="From lowest, very-low … to highest.")]
Run = Annotated[int | None, typer.Option("--run", help="The run; default: the last one.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on while the run does; exit code 3 if it fails.")]
Tail = Annotated[int, typer.Option("--tail", min=0, help="Only the last so many bytes; 0: all.", show_default=False)]
Artifact = Annotated[str, typer.Option("--artifact", help="The name of the log.")]
File = Annotated[
    Path, typer.Option("--file", "-f", help="The definition as JSON; - for standard input.", allow_dash=True)
]


@tasks.command("show")
def show_task(task_id: TaskId, watch: Watch = False, as_json: Json = False) -> None:
    """Show a task: its state, its runs and what it is for.

    With --watch, to its end: says what becomes of it. Exit code 3 if it did not complete.
    """
    with queue_api() as queue:
        if not watch:
            found = {"status": queue.status(task_id)["status"], "task": queue.task(task_id)}
            printed(found, as_json=as_json, otherwise=_show)
            return
        for state, said in changes(lambda: _look(queue, task_id, as_json=as_json)):
            typer.echo(said)
            if state in FINAL:
                break
    if state != "completed":
        if not as_json:
            say(f"what it printed: task log {task_id}")
        raise typer.Exit(UNSUCCESSFUL)


def _look(queue: Any, task_id: str, *, as_json: bool) -> tuple[str, str]:
    """The state of a task, and what is said of it: what stays the same while claims are renewed."""
    status = queue.status(task_id)["status"]
    for each in status["runs"]:
        each.pop("takenUntil", None)
    if as_json:
        return status["state"], json_of(status)
    words = [painted(status["state"])]
    if status["runs"]:
        last = status["runs"][-1]
        words.append(f"run {last['runId']}")
        if "workerId" in last:
            words.append(f"on {last['workerGroup']}/{last['workerId']}")
        if last["state"] == "exception":
            words.append(f"({last['reasonResolved']})")
    return status["state"], " ".join(words)


@tasks.command("log")
def log(task_id: TaskId, follow: Follow = False, run: Run = None, artifact: Artifact = LOG, tail: Tail = 0) -> None:
    """Print the log of a run: into a file or a program as it is, in a terminal without what that would obey."""
    with queue_api() as queue:
        status = queue.status(task_id)["status"]
        if not status["runs"]:
            fail(f"{task_id} has no run yet: it is {status['state']}")
        run_id = status["runs"][-1]["runId"] if run is None else run
        printed_bytes, write = max(0, _length(queue, task_id, run_id, artifact) - tail) if tail else 0, _writer()
        while True:
            state = _state_of_run(queue.status(task_id)["status"], run_id)
            printed_bytes += _print_from(
                queue, task_id, run_id, artifact, printed_bytes, write, wait=follow and state == "running"
            )
            if not follow or state not in ("pending", "running"):
                break
            time.sleep(FOLLOW_SECONDS)
    if follow and state != "completed":
        raise typer.Exit(UNSUCCESSFUL)


@tasks.command("rerun")
def rerun(task_id: TaskId) -> None:
    """Run a resolved task again."""
    _act(lambda queue: queue.rerunTask(task_id))


@tasks.command("cancel")
def cancel(task_id: TaskId) -> None:
    """Cancel a task that is not resolved."""
    _act(lambda queue: queue.cancelTask(task_id))


@tasks.command("schedule")
def schedule(task_id: TaskId) -> None:
    """Schedule a task whatever its dependencies."""
    _act(lambda queue: queue.scheduleTask(task_id))


@tasks.command("priority")
def priority(task_id: TaskId, new: Priority) -> None:
    """Change the priority of a task that is not resolved."""
    _act(lambda queue: queue.changeTaskPriority(task_id, {"newPriority": new}))


@tasks.command("retrigger")
def retrigger(task_id: TaskId) -> None:
    """Create a copy of a task in its group, with times that count from now and no retries. Prints the new task's id."""
    with queue_api() as queue:
        definition = queue.task(task_id)
        now, created = datetime.now(UTC), datetime.fromisoformat(definition["created"])
        for name in _TIMES:
            definition[name] = _text(now + (datetime.fromisoformat(definition[name]) - created))
        _create(queue, {**definition, "retries": 0})


@tasks.command("create")
def create(file: File) -> None:
    """Create a task from a file. Times may be left out: created now, due in a day. Prints the new task's id."""
    try:
        definition = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{file} cannot be read: {error}")
    if not isinstance(definition, dict):
        fail(f"{file} does not hold a definition: that is a JSON object")
    now = datetime.now(UTC)
    with queue_api() as queue:
        _create(queue, {"created": _text(now), "deadline": _text(now + timedelta(days=1)), **definition})


def _create(queue: Any, definition: dict[str, Any]) -> None:
    task_id = str(taskcluster.slugId())
    queue.createTask(task_id, definition)
    typer.echo(task_id)


def _act(action: Callable[[Any], Any]) -> None:
    with queue_api() as queue:
        show(action(queue)["status"])


def _state_of_run(status: Any, run_id: int) -> str:
    runs = [one["state"] for one in status["runs"] if one["runId"] == run_id]
    if not runs:
        fail(f"there is no run {run_id}: the last one is {len(status['runs']) - 1}")
    return str(runs[0])


def _writer() -> Callable[[bytes], None]:
    """Writes to standard output; a terminal gets text and colours alone."""
    harmless = Harmless() if sys.stdout.isatty() else None

    def write(piece: bytes) -> None:
        if harmless is None:
            sys.stdout.buffer.write(piece)
        else:
            sys.stdout.write(harmless.feed(piece))
        sys.stdout.flush()

    return write


def _length(queue: Any, task_id: str, run_id: int, name: str) -> int:
    """Bytes of an artifact: Azure has no range that counts from the end. 0 where parts of it cannot be read, such as of
    one that is stored compressed."""
    url = queue.buildSignedUrl("getArtifact", task_id, str(run_id), name)
    with requests.get(url, headers={"range": "bytes=0-0"}, stream=True, timeout=60) as answer:
        if answer.status_code != HTTPStatus.PARTIAL_CONTENT or "content-encoding" in answer.headers:
            return 0
        return int(answer.headers["content-range"].rpartition("/")[2])


def _print_from(
    queue: Any, task_id: str, run_id: int, name: str, start: int, write: Callable[[bytes], None], *, wait: bool
) -> int:
    """Print an artifact from a byte on; how many bytes that was. A log that is yet to come is no error if `wait`."""
    url = queue.buildSignedUrl("getArtifact", task_id, str(run_id), name)
    with requests.get(url, headers={"range": f"bytes={start}-"} if start else {}, stream=True, timeout=60) as answer:
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return 0
        if answer.status_code == HTTPStatus.NOT_FOUND and wait:
            return 0
        if not answer.ok:
            fail(f"{name} of run {run_id} cannot be read: {_reason(answer)}")
        skip = start if answer.status_code == HTTPStatus.OK else 0
        count = 0
        for chunk in answer.iter_content(65536):
            fresh, skip = chunk[skip:], max(0, skip - len(chunk))
            write(fresh)
            count += len(fresh)
        return count


def _reason(answer: requests.Response) -> str:
    try:
        return str(answer.json()["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return f"its storage answered {answer.status_code}"


def _show(found: dict[str, Any]) -> None:
    status, definition = found["status"], found["task"]
    facts(
        {
            "task": status["taskId"],
            "name": definition["metadata"]["name"],
            "state": status["state"],
            "task group": status["taskGroupId"],
            "task queue": status["taskQueueId"],
            "priority": status["priority"],
            "owner": definition["metadata"]["owner"],
            "created": ago(definition["created"]),
            "deadline": ago(status["deadline"]),
            "retries left": status["retriesLeft"],
            "waits for": " ".join(definition["dependencies"]) or None,
        }
    )
    if not status["runs"]:
        say("It has no run yet: it is scheduled when its dependencies are resolved, or by hand.")
        return
    typer.echo()
    table(
        ("RUN", "STATE", "REASON", "STARTED", "RESOLVED", "WORKER"),
        [
            (
                run["runId"],
                run["state"],
                run.get("reasonResolved", run["reasonCreated"]),
                ago(run.get("started")),
                ago(run.get("resolved")),
                f"{run['workerGroup']}/{run['workerId']}" if "workerId" in run else None,
            )
            for run in status["runs"]
        ],
    )


def _text(time_: datetime) -> str:
    return time_.isoformat(timespec="milliseconds").replace("+00:00", "Z")
