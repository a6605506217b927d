"""What tests of the stack share: a tiny app, free ports, and waiting."""

import fcntl
import json
import os
import random
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.local.ports import SPAN, Ports, is_free

_APP = """\
import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route(route="pid", methods=["GET"])
def pid(req: func.HttpRequest) -> func.HttpResponse:
    import json, os

    names = ("TASKCLUSTER_ROOT_URL", "STORAGE_CONNECTION_STRING", "CLAIM_TIMEOUT_SECONDS", "ROOT_ACCESS_TOKEN")
    return func.HttpResponse(json.dumps({"pid": os.getpid(), **{name: os.environ.get(name) for name in names}}))
"""


def tiny_app(folder: Path) -> Path:
    """Returns an app with one function that returns its process id and some settings at /pid."""
    folder.mkdir(exist_ok=True)
    (folder / "function_app.py").write_text(_APP)
    (folder / "host.json").write_text('{"version": "2.0", "extensions": {"http": {"routePrefix": ""}}}')
    return folder


def answer_of(port: int) -> dict[str, Any]:
    """Returns what the tiny app says of its process and its settings."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/pid", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def free_ports(hosts: int = 1) -> Ports:
    """Returns ports of a stack, all free now, below those that the system gives out by itself. No other call returns
    them, in this or another process, until this process has ended: a stack takes seconds to start, and another test
    could choose the same ports meanwhile."""
    chance = random.Random(f"{os.getpid()} {time.time_ns()}")
    while True:
        ports = Ports.derive(chance.randrange(12_000, 32_000, SPAN), hosts)
        if reserve(ports.api) and all(is_free(port) for port in range(ports.api, ports.api + SPAN)):
            return ports


def reserve(port: int) -> bool:
    """Locks the ports from this one on for the rest of the process; False if they are locked already."""
    folder = Path(tempfile.gettempdir()) / f"taskcluster-queue-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR)  # the end of the process closes it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True


def wait(condition: Callable[[], bool], seconds: float = 15) -> None:
    """Waits until the condition holds; fails if it does not in time."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met in time"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """True if there is such a process (a zombie is none)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not (stat.exists() and ") Z " in stat.read_text())
    except (FileNotFoundError, ProcessLookupError):
        return False
