"""Whether a worker is alive: it touches a file, and `python -m worker.health` looks how old that is.

`WORKER_HEALTH_FILE` names the file. A worker whose event loop hangs stops touching it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

VARIABLE = "WORKER_HEALTH_FILE"
BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0


async def beat(path: Path, seconds: float = BEAT_SECONDS) -> None:
    """Touches the file again and again, until cancelled."""
    while True:
        await asyncio.to_thread(_touch, path)
        await asyncio.sleep(seconds)


def _touch(path: Path) -> None:
    """Touches the file; if it is a link, its target is not touched."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        os.utime(descriptor)
    finally:
        os.close(descriptor)


def problem(path: Path, now: float) -> str | None:
    """What is wrong with the worker, or None. `now` is the time of the file system's clock."""
    try:
        age = now - path.stat().st_mtime
    except FileNotFoundError:
        return f"there is no {path}: the worker has not started"
    return f"{path} was touched {age:.0f} s ago: the worker hangs" if age > STALE_SECONDS else None


def main() -> None:
    """Exit code 0 if the worker is alive."""
    name = os.environ.get(VARIABLE)
    if not name:
        sys.exit(f"{VARIABLE} is not set: the worker says nothing of its health")
    sys.exit(problem(Path(name), time.time()))


if __name__ == "__main__":
    main()
