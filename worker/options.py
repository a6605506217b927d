"""What a worker must know: from the command line and the environment.

Each option `--some-option` may come from the variable `WORKER_SOME_OPTION` instead, as containers are configured;
`--worker-id` and `--worker-group` from `WORKER_ID` and `WORKER_GROUP`.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

POLL_MODES = ("signed", "claim-work")
MOST_AT_ONCE = 32
"""claimWork hands out no more at once (contract 5.1)."""

_ID_LENGTH = 38
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
    idle_timeout: float | None = None
    """Seconds without a task after which the worker ends; None: never."""
    max_tasks: int | None = None
    """Runs after which the worker ends; None: without limit."""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """The options. Ends the program with exit code 2 and a clear message when they cannot be used."""
    parser = _parser(environment.get("STARTED_AS", "python -m worker"))
    given = parser.parse_args([*_from_environment(parser, environment), *arguments])
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
        **vars(given),
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
    parser.add_argument(
        "--worker-id",
        type=_id,
        default=id_of_host(socket.gethostname()),
        help="unique in its group at any time (default: from the name of the host)",
    )
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
    parser.add_argument(
        "--idle-timeout",
        type=_timeout,
        help="end when there was no task for so many seconds; 0: at the first look that finds none (default: never)",
    )
    parser.add_argument("--max-tasks", type=_count, help="end after so many tasks (default: without limit)")
    return parser


def _from_environment(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> list[str]:
    """The options that variables give, as arguments that precede those of the command line, which therefore win."""
    arguments = []
    for action in parser._actions:  # argparse has no public list of a parser's options
        option = action.option_strings[-1]
        name = option.removeprefix("--").removeprefix("worker-").replace("-", "_").upper()
        if value := environment.get(f"WORKER_{name}"):
            arguments.append(f"{option}={value}")
    return arguments


def id_of_host(name: str) -> str:
    """A worker's id from the name of its host, e.g. of a container: short, without dots, and as unique as the name."""
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "-", name) or "worker"
    if len(plain) <= _ID_LENGTH:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _ID_LENGTH - 9]}-{digest}"


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


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and int(text) > 0 else _refuse(f"{text!r} is not a number above 0")


def _timeout(text: str) -> float:
    return 0.0 if text == "0" else _seconds(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        _refuse(f"{text!r} is not a number of seconds")
    return seconds if 0 < seconds <= 3600 else _refuse(f"{text!r} is not between 0 and 3600 seconds")


def _folder(text: str) -> Path:
    path = Path(text).resolve()
    return path if path.is_dir() else _refuse(f"{text!r} is not a folder")
