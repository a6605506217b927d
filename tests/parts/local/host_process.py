"""A local host in a process of its own, serving the sample app, for tests."""

import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.local.azurite import Azurite
from tools.local.child import Child
from tools.local.stack import HOST_MODULE

ROOT = Path(__file__).resolve().parents[3]
ECHO = Path(__file__).parent / "echo_app"
READY = r"local host: \d+ functions on http://127\.0\.0\.1:(\d+)"
READY_SECONDS = 30
WAIT_SECONDS = 30


@dataclass(frozen=True)
class HostProcess:
    """A running host."""

    child: Child
    port: int
    queue: str
    """Name of the sample app's queue; the queue of its synchronous function has `-sync` after it."""
    seen_file: Path

    @property
    def url(self) -> str:
        """The address at which the host listens."""
        return f"http://127.0.0.1:{self.port}"

    def seen(self, **wanted: Any) -> list[dict[str, Any]]:
        """Returns what the functions noted, if it has all of these fields."""
        lines = self.seen_file.read_text(encoding="utf-8").splitlines() if self.seen_file.exists() else []
        notes: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [note for note in notes if wanted.items() <= note.items()]


@contextlib.contextmanager
def running_host(
    azurite: Azurite, folder: Path, *arguments: str, queue: str | None = None, app: Path = ECHO, **settings: str
) -> Iterator[HostProcess]:
    """Runs an app on any free port; `settings` are further environment variables."""
    name = queue or f"sample-{uuid.uuid4().hex[:12]}"
    with launched(azurite, folder, *arguments, queue=name, app=app, **settings) as child:
        port = int(child.wait_for(READY, READY_SECONDS)[1])
        yield HostProcess(child, port, name, folder / f"{name}.seen")


@contextlib.contextmanager
def launched(
    azurite: Azurite, folder: Path, *arguments: str, queue: str = "nowhere", app: Path = ECHO, **settings: str
) -> Iterator[Child]:
    """Starts a host, which may fail to start."""
    environment = {
        "AzureWebJobsStorage": azurite.connection_string,
        "AzureWebJobsSampleStorage": azurite.connection_string,
        "AzureFunctionsWebHost__hostid": queue,
        "SAMPLE_QUEUE": queue,
        "SAMPLE_SCHEDULE": "0 */60 * * * *",
        "SEEN_FILE": str(folder / f"{queue}.seen"),
        "PYTHONWARNINGS": "error",
        **settings,
    }
    child = Child.start(
        "host",
        [
            sys.executable,
            "-m",
            "tools.local.tethered",
            os.environ.get(HOST_MODULE, "tools.local.host"),
            "--app-dir",
            str(app),
            "--port",
            "0",
            *arguments,
        ],
        log=folder / f"{uuid.uuid4().hex}.log",
        env=environment,
        cwd=ROOT,
        stop_signal=signal.SIGINT,
    )
    try:
        yield child
    finally:
        child.stop(grace=2)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Waits until the condition is true; fails with `what` otherwise."""
    give_up = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.02)
