"""What a worker must know: from the command line and the environment.

Each option `--some-option` may come from the variable `WORKER_SOME_OPTION` instead, as containers are configured;
`--worker-id` and `--worker-group` from `WORKER_ID` and `WORKER_GROUP`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from worker.payload import schema
from worker.token import VARIABLE as TOKEN
from worker.token import access_token
from worker.users import User, listed

POLL_MODES = ("signed", "claim-work")
MIB = 1 << 20
MOST_AT_ONCE = 32
"""claimWork hands out no more at once (contract 5.1)."""

_ID_LENGTH = 38
_ID = re.compile(r"[a-zA-Z0-9_-]{1,38}")
_TASK_QUEUE = re.compile(r"[a-zA-Z0-9_-]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?")


def default_work_dir() -> Path:
    """A folder of the user's own where the system keeps temporary files."""
    return Path(tempfile.gettempdir()) / f"taskcluster-worker-{os.getuid()}"


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
    """Seconds: the longest pause of an idle worker between two polls of the queues, in signed mode."""
    work_dir: Path = field(default_factory=default_work_dir)
    """Folders of runs, and caches."""
    idle_timeout: float | None = None
    """Seconds without a task after which the worker ends; None: never."""
    max_tasks: int | None = None
    """Runs after which the worker ends; None: without limit."""
    max_run_time: float | None = None
    """Most seconds that a task may ask for, and what it gets if it asks for none; None: until its deadline."""
    grace_seconds: float = 5.0
    """Seconds between SIGTERM and SIGKILL when a task is ended early."""
    watch_seconds: float = 60.0
    """Seconds between two checks whether a task was cancelled."""
    log_seconds: float = 2.0
    """Seconds between two uploads of a growing log."""
    log_limit: int = 100 * MIB
    """Most bytes of a log; the middle of a longer one is left out."""
    keep_free: int = 1024 * MIB
    """Bytes to keep free on the disk: while fewer are free, caches are removed before a task begins."""
    task_users: tuple[User, ...] = ()
    """Users that tasks run as, each for one task at a time. None given: tasks run as the worker's own user."""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """The options. Ends the program with exit code 2 and a clear message when they cannot be used."""
    parser = _parser(environment.get("STARTED_AS", "python -m worker"))
    given = parser.parse_args([*_from_environment(parser, environment), *arguments])
    try:
        token = access_token(environment, is_user_shared="task_users" not in given)
    except ValueError as problem:
        parser.error(str(problem))
    environment = {**environment, TOKEN: token}
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
    options = Options(root_url=root_url, credentials=credentials, **vars(given))
    if options.task_users and os.getuid() != 0:
        parser.error("--task-users needs a worker that runs as root; without them tasks run as the worker's own user")
    if options.task_users and len(options.task_users) < options.capacity:
        parser.error(f"--task-users must name as many users as there are tasks at a time: {options.capacity}")
    return options


_CREDENTIALS = {
    "TASKCLUSTER_CLIENT_ID": "clientId",
    TOKEN: "accessToken",
    "TASKCLUSTER_CERTIFICATE": "certificate",
}
_NEEDED = ("TASKCLUSTER_ROOT_URL", "TASKCLUSTER_CLIENT_ID", TOKEN)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Claims tasks of a task queue and runs their commands. "
        "TASKCLUSTER_ROOT_URL, TASKCLUSTER_CLIENT_ID, TASKCLUSTER_ACCESS_TOKEN (or the name of a file with it, "
        "TASKCLUSTER_ACCESS_TOKEN_FILE) and, for temporary credentials, TASKCLUSTER_CERTIFICATE come from the "
        "environment. --some-option may come from WORKER_SOME_OPTION.",
    )
    add = parser.add_argument
    add("--payload-schema", action=_PrintSchema, help="print the JSON schema of tasks' payloads, and end")
    add("--task-queue-id", required=True, type=_task_queue, help="<provisionerId>/<workerType>")
    add("--worker-group", required=True, type=_id, help="whatever groups workers: a region, a host")
    add("--worker-id", type=_id, default=id_of_host(socket.gethostname()), help="unique in its group at any time")
    add("--capacity", type=_capacity, default=Options.capacity, help="tasks at a time, at most 32")
    add(
        "--poll-mode",
        choices=POLL_MODES,
        default=Options.poll_mode,
        help="signed: poll Azure queues by signed URLs; claim-work: wait in claimWork",
    )
    add("--idle-seconds", type=_seconds, default=Options.idle_seconds, help="longest pause when idle, in signed mode")
    add("--idle-timeout", type=_timeout, help="end after this many seconds without a task; 0: at once")
    add("--max-tasks", type=_count, help="end after this many tasks")
    add("--work-dir", type=_folder, default=default_work_dir(), help="folders of runs, and caches")
    add(
        "--keep-free",
        type=_mib,
        default=f"{Options.keep_free // MIB}",
        metavar="MIB",
        help="remove caches until this much disk is free",
    )
    add("--max-run-time", type=_seconds, help="seconds that a task may ask for, and gets if it asks for none")
    add("--grace-seconds", type=_seconds, default=Options.grace_seconds, help="from SIGTERM to SIGKILL")
    add("--watch-seconds", type=_seconds, default=Options.watch_seconds, help="between looks for a cancellation")
    add("--log-seconds", type=_seconds, default=Options.log_seconds, help="between uploads of a log that grows")
    add(
        "--log-limit",
        type=_mib,
        default=f"{Options.log_limit // MIB}",
        metavar="MIB",
        help="leave out the middle of longer logs",
    )
    users = "users that tasks run as: names or numbers with commas, or 10001-10032; the worker must be root"
    add("--task-users", type=_users, default=argparse.SUPPRESS, help=users)
    return parser


class _PrintSchema(argparse.Action):
    """An option that prints the payload's schema and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(json.dumps(schema(), indent=2))
        parser.exit()


def _from_environment(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> list[str]:
    """The options that variables give, as arguments that precede those of the command line, which therefore win."""
    arguments = []
    for action in parser._actions:  # argparse has no public list of a parser's options
        option = action.option_strings[-1]
        if action.nargs == 0:
            continue
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


def _mib(text: str) -> int:
    return _count(text) * MIB


def _users(text: str) -> tuple[User, ...]:
    try:
        return listed(text)
    except (KeyError, ValueError) as problem:
        _refuse(str(problem.args[0]))


def _folder(text: str) -> Path:
    path = Path(text).resolve()
    return path if path.is_dir() else _refuse(f"{text!r} is not a folder")
