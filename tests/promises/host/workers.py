"""Reference workers as processes, beside a stack."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.local import state
from tools.local.child import Child
from tools.local.stack import Stack

MODES = ("signed", "claim-work")


def start_worker(
    stack: Stack,
    pool: str,
    name: str,
    *,
    logs: Path,
    mode: str = "signed",
    environment: Mapping[str, str] | None = None,
    more: Sequence[str] = (),
) -> Child:
    """Starts a worker `g/<name>` that looks for work every half second at least. It ends with this process."""
    work = logs / f"work-{name}"
    work.mkdir(exist_ok=True)
    arguments = ["--task-queue-id", pool, "--worker-group", "g", "--worker-id", name, "--poll-mode", mode]
    arguments += ["--idle-seconds", "0.5", "--work-dir", str(work), *more]
    return Child.start(
        name,
        [sys.executable, "-m", "tools.local.tethered", "worker", *arguments],
        log=logs / f"{name}.log",
        env={**stack.environment, **(environment or {})},
        cwd=state.ROOT,
    )


@contextmanager
def worker(stack: Stack, pool: str, name: str, **options: Any) -> Iterator[Child]:
    """Runs a worker for the time of a test, with the options of `start_worker`."""
    child = start_worker(stack, pool, name, **options)
    try:
        yield child
    finally:
        child.stop()
