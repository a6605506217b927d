"""How soon tasks are picked up by workers that wait: `python -m tools.bench.pick_up CLIENT [--workers N] [--hosts N]`.

Starts a local stack, workers with a public client and the pauses of the workers that use it, and creates a task now and
then. With several hosts, each request goes to any of them, so repetitions of a call go elsewhere.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import taskcluster

from shared.base.ids import new_slugid
from tools.bench.load.client import Kind
from tools.bench.pick_up.balancer import Balancer
from tools.local import state
from tools.local.ports import Ports
from tools.local.stack import Stack, StackOptions

FOLDER = Path(__file__).parent
POOL = "bench/pick-up"
SETTINGS = {"LONG_POLL_SECONDS": "20", "MAX_LONG_POLLS": "1000", "IDLE_POLL_INTERVAL_SECONDS": "2"}
PROGRAMS = {
    "sync": [sys.executable, "-m", "tools.bench.pick_up.worker", "sync"],
    "async": [sys.executable, "-m", "tools.bench.pick_up.worker", "async"],
    "javascript": ["node", str(FOLDER / "worker.mjs")],
}


class Workers:
    """A process with workers, which tells which tasks they have taken."""

    def __init__(self, command: list[str], options: dict[str, Any]) -> None:
        self.taken: dict[str, tuple[str, float]] = {}
        """The worker that has taken each task, and when."""
        self._process = subprocess.Popen(command, cwd=state.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(options).encode())
        self._process.stdin.close()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            worker_id, task_id, at = line.decode().split()
            self.taken[task_id] = worker_id, float(at)

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def measure(command: list[str], arguments: argparse.Namespace, stack: Stack, answers: Counter[str]) -> None:
    """Prints how soon the tasks were taken."""
    environment = stack.environment
    root = {"clientId": environment["TASKCLUSTER_CLIENT_ID"], "accessToken": environment["TASKCLUSTER_ACCESS_TOKEN"]}
    root_url = environment["TASKCLUSTER_ROOT_URL"]
    queue = taskcluster.Queue({"rootUrl": root_url, "credentials": dict(root)})
    kind = Kind(task_queue_id=POOL, task_group_id=new_slugid())
    queue.createTask(first := new_slugid(), kind.definition())
    workers = Workers(command, {**root, "rootUrl": root_url, "taskQueueId": POOL, "workers": arguments.workers})
    created: dict[str, float] = {}
    try:
        while first not in workers.taken:
            time.sleep(0.1)
        time.sleep(arguments.settle)
        answers.clear()
        for _ in range(arguments.tasks):
            queue.createTask(task_id := new_slugid(), kind.definition())
            created[task_id] = time.time()
            time.sleep(arguments.every * random.uniform(0.5, 1.5))
        until = time.monotonic() + 30
        while created.keys() - workers.taken.keys() and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        workers.end()
    taken = {task_id: each for task_id, each in workers.taken.items() if task_id in created}
    late = sorted(at - created[task_id] for task_id, (_, at) in taken.items())
    busy = Counter(worker_id for worker_id, _ in taken.values())
    print(
        f"{arguments.client}, {arguments.workers} workers, {arguments.hosts} hosts, {len(created)} tasks: "
        f"p50 {statistics.median(late):.2f} s, p95 {late[int(len(late) * 0.95)]:.2f} s, most {late[-1]:.2f} s; "
        f"not taken: {len(created) - len(taken)}; workers without a task: {arguments.workers - len(busy)}, "
        f"the most for one: {max(busy.values())}; answers of claimWork: {dict(answers)}",
        flush=True,
    )


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", help="sync, async, javascript, or a name for --program")
    parser.add_argument("--program", help="a program that reads options from stdin, as worker.py does")
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--every", type=float, default=1.0, help="seconds from one task to the next, on average")
    parser.add_argument("--settle", type=float, default=12.0, help="seconds before the first task")
    parser.add_argument("--port", type=int, default=23_000)
    arguments = parser.parse_args()
    command = [arguments.program] if arguments.program else PROGRAMS[arguments.client]
    ports = Ports.derive(arguments.port, arguments.hosts)
    with socket.create_server(("127.0.0.1", 0)) as free:
        front = free.getsockname()[1]
    options = StackOptions(
        ports, in_memory=True, app_settings=SETTINGS, root_url=f"http://127.0.0.1:{front}", fresh=True
    )
    balancer = Balancer(front, ports.hosts)
    try:
        with Stack.start(options) as stack:
            measure(command, arguments, stack, balancer.answers)
    finally:
        shutil.rmtree(state.folder(ports.api), ignore_errors=True)


if __name__ == "__main__":
    main()
