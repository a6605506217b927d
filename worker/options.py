"""What a worker must know: from the command line and the environment."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

POLL_MODES = ("signed", "claim-work")
MOST_AT_ONCE = 32
"""claimWork hands out no more at once (contract 5.1)."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,38}")
_TASK_QUEUE = re.compile(r"[a-zA-Z0-9_-]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Options:
    """One worker's options."""

    root_url: str
    credentials: Mapping[str, str] = field(repr=False)
    """clientId, accessToken and perhaps certificate, as the public client takes them."""
    task_queue_id: str
    worker_group: str
    worker_id: str
    capacity: int = 1
    """Tasks at a time."""
    poll_mode: str = "signed"
    idle_seconds: float = 10.0
    """The longest pause between two looks at the queues of an idle worker, in signed mode."""
    work_dir: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    """Each run gets a fresh folder in it."""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """The options. Ends the program with exit code 2 and a clear message when they cannot be used."""
    parser = _parser(environment.get("STARTED_AS", "python -m worker"))
    given = parser.parse_args(arguments)
    missing = [name for name in _NEEDED if not environment.get(name)]
    if missing:
        parser.error(
            f"set {', '.join(missing)} in the environment. "
            'For the local stack: ./dev up --detach, then eval "$(./dev env)".'
        )
    root_url = environment["TASKCLUSTER_ROOT_URL"]
    if not re.match(r"https?://[^/]", root_url):
        parser.error(f"TASKCLUSTER_ROOT_URL must be a URL that begins with https:// (or http://), not {root_url!r}")
    credentials = {
        key: environment[name] for name, key in _CREDENTIALS.items() if environment.get(name)
    }  # fmt: skip
    return Options(
        root_url=root_url,
        credentials=credentials,
        task_queue_id=given.task_queue_id,
        worker_group=given.worker_group,
        worker_id=given.worker_id,
        capacity=given.capacity,
        poll_mode=given.poll_mode,
        idle_seconds=given.idle_seconds,
        work_dir=given.work_dir,
    )


_CREDENTIALS = {
    "TASKCLUSTER_CLIENT_ID": "clientId",
    "TASKCLUSTER_ACCESS_TOKEN": "accessToken",
    "TASKCLUSTER_CERTIFICATE": "certificate",
}
_NEEDED = ("TASKCLUSTER_ROOT_URL", "TASKCLUSTER_CLIENT_ID", "TASKCLUSTER_ACCESS_TOKEN")


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Claims tasks of a task queue and runs their commands. "
        "TASKCLUSTER_ROOT_URL, TASKCLUSTER_CLIENT_ID, TASKCLUSTER_ACCESS_TOKEN and, for temporary credentials, "
        "TASKCLUSTER_CERTIFICATE come from the environment.",
    )
    parser.add_argument("--task-queue-id", required=True, type=_task_queue, help="<provisionerId>/<workerType>")
    parser.add_argument("--worker-group", required=True, type=_id)
    parser.add_argument("--worker-id", required=True, type=_id)
    parser.add_argument("--capacity", type=_capacity, default=1, help="tasks at a time (default 1, at most 32)")
    parser.add_argument(
        "--poll-mode",
        choices=POLL_MODES,
        default=POLL_MODES[0],
        help="signed: poll Azure queues by signed URLs (default); claim-work: wait in claimWork",
    )
    parser.add_argument(
        "--idle-seconds",
        type=_seconds,
        default=10.0,
        help="longest pause of an idle worker in signed mode (default 10)",
    )
    parser.add_argument(
        "--work-dir", type=_folder, default=Path(tempfile.gettempdir()), help="where each run gets a fresh folder"
    )
    return parser


def _refuse(text: str) -> NoReturn:
    raise argparse.ArgumentTypeError(text)


def _task_queue(text: str) -> str:
    return text if _TASK_QUEUE.fullmatch(text) else _refuse(f"{text!r} is not <provisionerId>/<workerType>")


def _id(text: str) -> str:
    return text if _ID.fullmatch(text) else _refuse(f"{text!r} is not 1 to 38 letters, digits, _ or -")


def _capacity(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_AT_ONCE:
        _refuse(f"{text!r} is not a number from 1 to {MOST_AT_ONCE}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        _refuse(f"{text!r} is not a number of seconds")
    return seconds if 0 < seconds <= 3600 else _refuse(f"{text!r} is not between 0 and 3600 seconds")


def _folder(text: str) -> Path:
    path = Path(text).resolve()
    return path if path.is_dir() else _refuse(f"{text!r} is not a folder")
