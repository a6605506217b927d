"""`./dev workers TASK_QUEUE_ID --max N`: workers that come and go by themselves, as on Azure, until Ctrl-C.

The deployment and the credentials come from the environment; without them, from the local stack.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import taskcluster
from taskcluster.exceptions import TaskclusterConnectionError, TaskclusterFailure

from shared.base.types import TASK_QUEUE_PATTERN
from tools.local.run import end_with_parent
from tools.local.worker_pool import DEFAULTS, Look, PoolOptions, WorkerPool

VARIABLES = {
    "clientId": "TASKCLUSTER_CLIENT_ID",
    "accessToken": "TASKCLUSTER_ACCESS_TOKEN",
    "certificate": "TASKCLUSTER_CERTIFICATE",
}


def load_path(task_queue_id: str) -> str:
    """Returns the path of the API at which the load of a task queue is read."""
    return f"task-queues/{quote(task_queue_id, safe='')}/load"


def reader(task_queue_id: str, say: Callable[[str], None]) -> Callable[[], int | None]:
    """Returns a function that reads the number of unresolved runs, or says why it cannot and returns None."""
    credentials = {field: os.environ[name] for field, name in VARIABLES.items() if os.environ.get(name)}
    options = {"rootUrl": os.environ["TASKCLUSTER_ROOT_URL"], "credentials": credentials, "maxRetries": 0}
    queue = taskcluster.Queue(options)

    def read() -> int | None:
        try:
            return int(queue._makeHttpRequest("get", load_path(task_queue_id), None)["unresolvedTasks"])
        except TaskclusterConnectionError as failure:
            say(f"the load cannot be read: {failure.superExc}")
        except TaskclusterFailure as failure:
            say(f"the load cannot be read: {str(failure).partition(chr(10))[0]}")
        return None

    return read


def run(pool: WorkerPool, read: Callable[[], int | None], say: Callable[[str], None], ended: threading.Event) -> None:
    """Looks at the load every polling interval, until `ended` is set."""
    before, due = (-1, -1), time.monotonic()
    while not ended.wait(max(0.0, due - time.monotonic())):
        look = pool.look(read())
        for text in look.failed:
            say(text)
        now = (look.unresolved or 0, len(pool.workers))
        if look.started or now != before:
            say(describe(look, len(pool.workers)))
        before, due = now, due + pool.options.polling_interval


def describe(look: Look, workers: int) -> str:
    """Returns one line such as `12 unresolved, 3 workers: 2 started`."""
    load = "? unresolved" if look.unresolved is None else f"{look.unresolved} unresolved"
    started = f": {look.started} started" if look.started else ""
    return f"{load}, {workers} {'worker' if workers == 1 else 'workers'}{started}"


def main(arguments: Sequence[str]) -> int:
    """Runs the command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    missing = [name for name in ("TASKCLUSTER_ROOT_URL", *list(VARIABLES.values())[:2]) if not os.environ.get(name)]
    if missing:
        parser.error(f"set {', '.join(missing)}, or start the local stack: ./dev up --detach")
    options = PoolOptions(
        task_queue_id=given.task_queue_id,
        # A new group for each run: ids must be unique in a group, and workers of an earlier run may still be known.
        worker_group=f"local-{secrets.token_hex(4)}",
        maximum=given.max,
        polling_interval=given.polling_interval,
        idle_timeout=given.idle_timeout,
        poll_mode=given.poll_mode,
    )
    end_with_parent()
    with tempfile.TemporaryDirectory(prefix="workers-", ignore_cleanup_errors=True) as folder:
        pool = WorkerPool(options, Path(folder), Path(folder), dict(os.environ))
        _say(
            f"Up to {options.maximum} workers of {options.task_queue_id}, a look every {options.polling_interval:g} s; "
            f"one that is idle for {options.idle_timeout:g} s ends. Ctrl-C ends them all."
        )
        try:
            run(pool, reader(options.task_queue_id, _say), _say, _asked_to_end())
            _say("ending the workers; what they run is pending again")
        finally:
            pool.end()
    return 0


def _asked_to_end() -> threading.Event:
    """Returns an event that the first signal to end sets, so that a worker is never started by half."""
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: asked.set())
    return asked


def _say(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {text}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=os.environ.get("STARTED_AS", "python -m tools.local.workers"),
        description="Start reference workers when tasks wait, by the arithmetic by which Azure starts them. Each ends "
        "when it is idle.",
    )
    parser.add_argument("task_queue_id", metavar="TASK_QUEUE_ID", type=_task_queue)
    defaults = "default %(default)s, as in infra/workers/defaults.json"
    parser.add_argument("--max", type=_count, default=DEFAULTS["maxExecutions"], help=f"workers at a time ({defaults})")
    parser.add_argument(
        "--polling-interval",
        type=_seconds,
        default=DEFAULTS["pollingInterval"],
        help=f"seconds between two looks ({defaults})",
    )
    parser.add_argument(
        "--idle-timeout",
        type=_seconds,
        default=DEFAULTS["idleTimeout"],
        help=f"seconds without a task after which a worker ends ({defaults})",
    )
    parser.add_argument(
        "--poll-mode", choices=("claim-work", "signed"), default="signed", help="how workers wait (default %(default)s)"
    )
    return parser


def _task_queue(text: str) -> str:
    if re.fullmatch(TASK_QUEUE_PATTERN, text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not <provisionerId>/<workerType>")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
