"""A local host in a process of its own, serving the sample app, for tests."""

import contextlib
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.local.azurite import Azurite
from tools.local.child import Child

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).parent / "sample_app"
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
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def seen(self, **wanted: Any) -> list[dict[str, Any]]:
        """What the functions noted, if it has all of these fields."""
        lines = self.seen_file.read_text(encoding="utf-8").splitlines() if self.seen_file.exists() else []
        notes: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [note for note in notes if wanted.items() <= note.items()]


@contextlib.contextmanager
def running_host(
    azurite: Azurite, folder: Path, *arguments: str, queue: str | None = None, app: Path = SAMPLE, **settings: str
) -> Iterator[HostProcess]:
    """Run the sample app on any free port; `settings` are further environment variables."""
    name = queue or f"sample-{uuid.uuid4().hex[:12]}"
    seen_file = folder / f"{name}.seen"
    environment = {
        "SampleStorage": azurite.connection_string,
        "SAMPLE_QUEUE": name,
        "SAMPLE_SCHEDULE": "0 */60 * * * *",
        "SEEN_FILE": str(seen_file),
        "PYTHONWARNINGS": "error",
        **settings,
    }
    child = Child.start(
        "host",
        [
            sys.executable,
            "-m",
            "tools.local.tethered",
            "tools.local.host",
            "--app-dir",
            str(app),
            "--port",
            "0",
            *arguments,
        ],
        log=folder / f"{uuid.uuid4().hex}.log",
        env=environment,
        cwd=ROOT,
    )
    try:
        port = int(child.wait_for(READY, READY_SECONDS)[1])
        yield HostProcess(child, port, name, seen_file)
    finally:
        child.stop()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition is true; fails with `what` otherwise."""
    give_up = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.02)
