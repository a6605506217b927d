"""`./dev drill`: restores a backup of a deployment into a second stack on this machine, and says whether it works.

Nothing is written to the deployment. The duration of each step is measured: on Azure the copying takes about as long.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import taskcluster
from taskcluster.exceptions import TaskclusterRestFailure

from shared.store import keys
from tools.local import state
from tools.local.child import ChildError
from tools.local.ports import DEFAULT_PORT, SPAN, Ports, PortTakenError
from tools.local.stack import Stack, StackOptions

CONNECTION_STRINGS = ("STORAGE_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING")
SAMPLE = 200
"""Number of tasks whose state is compared."""
POOL = "drill/drill"
"""The task queue of the task that is run at the end."""
OF_THE_DEPLOYMENT = (
    "STORAGE_ACCOUNT_NAME",
    "SERVICEBUS_NAMESPACE",
    "TASKCLUSTER_ROOT_URL",
    "TASKCLUSTER_CLIENT_ID",
    "TASKCLUSTER_ACCESS_TOKEN",
    "TASKCLUSTER_CERTIFICATE",
)
"""Variables that lead to the deployment: the second stack, and the commands on it, must not have them."""


class DrillError(Exception):
    """A step has failed; the message says which."""


_FOLLOW_UP_SECONDS = 60.0
"""How long handlers of the restored stack may take to finish work that was half done at the time of the export."""


@dataclass
class Drill:
    """The result of a drill, as it is printed."""

    seconds: dict[str, float] = field(default_factory=dict)
    entities: dict[str, int] = field(default_factory=dict)
    repaired: int = 0
    compared: int = 0
    differences: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures a step."""
        print(f"{name} …", file=sys.stderr, flush=True)
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)


def admin(environment: Mapping[str, str], *arguments: str) -> Any:
    """Returns the result of an operator's command. Raises DrillError if it fails."""
    command = [sys.executable, "-m", "tools.admin", *arguments]
    done = subprocess.run(command, env=environment, cwd=state.ROOT, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise DrillError(
            f"admin {' '.join(arguments)} ends with {done.returncode}: {done.stderr.strip() or done.stdout}"
        )
    return json.loads(done.stdout)


def run(source: Mapping[str, str], port: int, folder: Path, drill: Drill) -> None:
    """Export, restore, start, check, compare, and run a task. Raises DrillError."""
    options = StackOptions(_free(port), in_memory=True, with_host=False)
    with drill.step("export"):
        drill.entities = admin(source, "backup", "export", str(folder))
    try:
        with Stack.start(options) as stack:
            _restore(stack, folder, drill)
            with drill.step("start"):
                stack.start_host()
            with drill.step("check"):
                _check(stack.environment)
            with drill.step("compare"):
                _compare(source, stack.environment, folder, drill)
            with drill.step("a new task"):
                _run_a_task(stack.environment)
    except (ChildError, PortTakenError) as error:
        raise DrillError(str(error)) from error
    finally:
        shutil.rmtree(state.folder(port), ignore_errors=True)


def _free(port: int) -> Ports:
    """Returns the second stack's ports. Raises DrillError for a taken one, before the export begins."""
    try:
        ports = Ports.derive(port)
        ports.check_free()
    except (PortTakenError, ValueError) as error:
        raise DrillError(f"--into {port}: {error}") from error
    return ports


def _restore(stack: Stack, folder: Path, drill: Drill) -> None:
    target = {**os.environ, **stack.environment}
    with drill.step("restore"):
        restored = admin(target, "backup", "restore", str(folder))
    if restored["entities"] != drill.entities:
        drill.differences.append(f"exported {drill.entities}, restored {restored['entities']}")
    with drill.step("repair"):
        found = admin(target, "task", "check", "--all", "--at-rest", "--repair")
        drill.repaired = sum(map(len, found.values()))


def _check(environment: Mapping[str, str]) -> None:
    """Checks that all rows agree, once the handlers have followed up what was resolved at the moment of the export.

    Raises DrillError with what is still wrong after a while.
    """
    target = {**os.environ, **environment}
    give_up = time.monotonic() + _FOLLOW_UP_SECONDS
    while True:
        try:
            admin(target, "task", "check", "--all", "--at-rest")
            return
        except DrillError:
            if time.monotonic() > give_up:
                raise
        time.sleep(1)


def task_ids(folder: Path) -> list[str]:
    """Returns the ids of the tasks of an export."""
    with gzip.open(folder / f"{keys.TASKS}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        return [row["PartitionKey"] for row in rows if row["RowKey"] == keys.TASK_STATUS]


def _queue(environment: Mapping[str, str]) -> Any:
    credentials = {
        "clientId": environment.get("TASKCLUSTER_CLIENT_ID", ""),
        "accessToken": environment.get("TASKCLUSTER_ACCESS_TOKEN", ""),
    }
    return taskcluster.Queue({"rootUrl": environment["TASKCLUSTER_ROOT_URL"], "credentials": credentials})


def _compare(source: Mapping[str, str], target: Mapping[str, str], folder: Path, drill: Drill) -> None:
    """Compares the definitions and the states of restored tasks with those of the deployment, if it can be asked."""
    known = task_ids(folder)
    sample = random.sample(known, min(SAMPLE, len(known)))
    restored, original = _queue(target), _queue(source) if source.get("TASKCLUSTER_ROOT_URL") else None
    for task_id in sample:
        there = None if original is None else partial(_look, original, task_id)
        drill.differences += differences(task_id, partial(_look, restored, task_id), there)
    drill.compared = len(sample)


def _look(queue: Any, task_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return queue.status(task_id)["status"], queue.task(task_id)


Look = Callable[[], tuple[dict[str, Any], dict[str, Any]]]
"""Returns the status and the definition of a task."""
RESOLVED = {"completed", "failed", "exception"}


def differences(task_id: str, restored: Look, original: Look | None) -> Iterator[str]:
    """Yields what is wrong with a task after the restore. A task that was not resolved may have gone on meanwhile."""
    try:
        status, definition = restored()
    except TaskclusterRestFailure as failure:
        yield f"{task_id}: {failure.status_code} after the restore"
        return
    if original is None:
        return
    try:
        wanted, written = original()
    except TaskclusterRestFailure:
        return  # it has expired meanwhile, or nobody may read it
    if definition != written:
        yield f"{task_id} has another definition"
    if status["state"] in RESOLVED and status != wanted:
        yield f"{task_id} was {wanted['state']}, and is {status['state']} after the restore"


def _run_a_task(environment: Mapping[str, str]) -> None:
    queue, task_id, now = _queue(environment), taskcluster.slugId(), datetime.now(UTC)
    metadata = {"name": "drill", "description": "", "owner": "drill@example.com", "source": "https://example.com"}
    times = {"created": now.isoformat(), "deadline": (now + timedelta(hours=1)).isoformat()}
    queue.createTask(task_id, {"taskQueueId": POOL, **times, "payload": {}, "metadata": metadata})
    (claim,) = queue.claimWork(POOL, {"workerGroup": "drill", "workerId": "drill", "tasks": 1})["tasks"]
    worker = taskcluster.Queue({"rootUrl": environment["TASKCLUSTER_ROOT_URL"], "credentials": claim["credentials"]})
    ended = worker.reportCompleted(task_id, claim["runId"])["status"]["state"]
    if ended != "completed":
        raise DrillError(f"the new task is {ended}")


def main() -> int:
    """Prints the result as JSON; returns 0 only if the backup could be restored and nothing differs."""
    parser = argparse.ArgumentParser(
        prog=os.environ.get("STARTED_AS", "python -m tools.local.drill"), description=__doc__
    )
    parser.add_argument(
        "--into", type=int, default=DEFAULT_PORT + 10 * SPAN, metavar="PORT", help="port of the second stack"
    )
    parser.add_argument("--folder", type=Path, help="keep the export there; it holds scopes and encrypted tokens")
    arguments = parser.parse_args()
    if not any(os.environ.get(name) for name in (*CONNECTION_STRINGS, "STORAGE_ACCOUNT_NAME")):
        print("STORAGE_ACCOUNT_NAME is not set: the storage account of the deployment", file=sys.stderr)
        return 1
    source = {**os.environ}
    for name in OF_THE_DEPLOYMENT:
        os.environ.pop(name, None)
    drill = Drill()
    failed = ""
    with tempfile.TemporaryDirectory() as temporary:
        try:
            run(source, arguments.into, arguments.folder or Path(temporary) / "backup", drill)
        except DrillError as error:
            failed = str(error)
    print(json.dumps(drill.__dict__, indent=2))
    for each in (*drill.differences[:20], *([failed] if failed else [])):
        print(each, file=sys.stderr)
    return 1 if failed or drill.differences else 0


if __name__ == "__main__":
    sys.exit(main())
