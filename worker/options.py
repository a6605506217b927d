"""What a worker must know: from the command line and the environment.

Each option `--some-option` may come from the variable `WORKER_SOME_OPTION` instead, as containers are configured;
`--worker-id` and `--worker-group` from `WORKER_ID` and `WORKER_GROUP`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from worker.users import User

TOKEN, TOKEN_FILE = "TASKCLUSTER_ACCESS_TOKEN", "TASKCLUSTER_ACCESS_TOKEN_FILE"

_ID_LENGTH = 38
_CREDENTIALS = {"clientId": "TASKCLUSTER_CLIENT_ID", "accessToken": TOKEN, "certificate": "TASKCLUSTER_CERTIFICATE"}
_DESCRIPTION = f"""Claims tasks of a task queue and runs their commands, one task at a time. TASKCLUSTER_ROOT_URL,
TASKCLUSTER_CLIENT_ID, {TOKEN} (or the name of a file with it, {TOKEN_FILE}) and, for temporary credentials,
TASKCLUSTER_CERTIFICATE come from the environment. --some-option may come from WORKER_SOME_OPTION."""


def id_of_host(name: str) -> str:
    """Returns a worker's id from the name of its host or container: short, without dots, and as unique as the name."""
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "-", name) or "worker"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return plain if len(plain) <= _ID_LENGTH else f"{plain[: _ID_LENGTH - 9]}-{digest}"


def _matching(pattern: str, what: str, made: Callable[[str], Any] = str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if re.fullmatch(pattern, text):
            return made(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")

    return parse


_id = _matching(r"[a-zA-Z0-9_-]{1,38}", "1 to 38 letters, digits, _ or -")
_task_queue = _matching(r"[a-zA-Z0-9_-]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?", "<provisionerId>/<workerType>")
_root_url = _matching(r"https?://[^/].*", "a URL that begins with https:// (or http://)")
_count = _matching("0*[1-9][0-9]*", "a number above 0", int)
_seconds = _matching(r"(?=.*[1-9])[0-9]{1,4}(\.[0-9]+)?", "seconds, above 0 and below 10000", float)
_seconds_or_0 = _matching(r"[0-9]{1,4}(\.[0-9]+)?", "seconds, below 10000", float)
_poll_mode = _matching("signed|claim-work", "signed or claim-work")


def _folder(text: str) -> Path:
    if (path := Path(text).resolve()).is_dir():
        return path
    raise argparse.ArgumentTypeError(f"{text!r} is not a folder")


def _option(parse: Callable[[str], Any], help: str, default: Any = None, **more: Any) -> Any:
    """Returns a field that is an option of the command line."""
    return field(default=default, metadata={"type": parse, "help": help, **more})


@dataclass(frozen=True, kw_only=True)
class Options:
    """One worker's options. Times are in seconds, sizes in MiB."""

    root_url: str
    credentials: Mapping[str, str] = field(repr=False)
    """clientId, accessToken and perhaps certificate, as the public client takes them."""
    task_queue_id: str = _option(_task_queue, "<provisionerId>/<workerType>", required=True)
    worker_group: str = _option(_id, "whatever groups workers: a region, a host", required=True)
    worker_id: str = _option(_id, "unique in its group at any time", id_of_host(socket.gethostname()))
    poll_mode: str = _option(_poll_mode, "poll by signed URLs, or wait in claimWork", "signed")
    idle_seconds: float = _option(_seconds, "longest pause when idle, in signed mode", 10.0)
    idle_timeout: float | None = _option(_seconds_or_0, "end after this many seconds without a task; 0: at once")
    max_tasks: int | None = _option(_count, "end after this many tasks")
    work_dir: Path = _option(  # noqa: RUF009 - a field, though it does not look like one
        _folder, "the folder of a run, and caches; of this worker alone (default: one for temporary files)", Path()
    )
    keep_free: int = _option(_count, "remove caches until this many MiB of the disk are free", 1024)
    max_run_time: int | None = _option(_count, "seconds that a task may ask for, and gets if it asks for none")
    grace_seconds: float = _option(_seconds, "from SIGTERM to SIGKILL", 5.0)
    watch_seconds: float = _option(_seconds, "between looks for a cancellation", 60.0)
    log_seconds: float = _option(_seconds, "between uploads of a log that grows", 2.0)
    log_limit: int = _option(_count, "MiB; leave out the middle of longer logs", 100)
    task_user: User | None = _option(  # noqa: RUF009 - as above
        str, "whom tasks run as, and nobody else: a name or a number; the worker must be root"
    )


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Returns the options. Ends the program with exit code 2 and a clear message when they cannot be used."""
    parser = argparse.ArgumentParser(prog=environment.get("STARTED_AS", "python -m worker"), description=_DESCRIPTION)
    for each in fields(Options):
        if each.metadata:
            default: Any = each.default
            told = each.metadata["help"] + (f" (default: {default})" if isinstance(default, str | int | float) else "")
            option = parser.add_argument(f"--{each.name.replace('_', '-')}", **{**each.metadata, "help": told})
            variable = environment.get(f"WORKER_{each.name.removeprefix('worker_').upper()}")
            option.default, option.required = variable or default, option.required and not variable
    given = parser.parse_args(arguments)
    try:
        environment = {**environment, TOKEN: access_token(environment, is_user_shared=given.task_user is None)}
        for name in ("TASKCLUSTER_ROOT_URL", "TASKCLUSTER_CLIENT_ID", TOKEN):
            if not environment.get(name):
                local = 'For the local stack: ./dev up --detach, then eval "$(./dev env)".'
                raise ValueError(f"set {name} in the environment. {local}")
        root_url = _root_url(environment["TASKCLUSTER_ROOT_URL"])
        given.task_user = None if given.task_user is None else User.of(given.task_user)
    except (ValueError, argparse.ArgumentTypeError) as problem:
        parser.error(str(problem))
    if given.task_user is not None and (os.getuid() != 0 or sys.platform != "linux"):
        parser.error("--task-user needs a worker that is root, on Linux; without it tasks run as the worker's own user")
    if given.work_dir == Path():
        name = f"taskcluster-worker-{os.getuid()}-{given.worker_group}-{given.worker_id}"
        given.work_dir = Path(tempfile.gettempdir()) / name
    credentials = {key: environment[name] for key, name in _CREDENTIALS.items() if environment.get(name)}
    return Options(root_url=root_url, credentials=credentials, **vars(given))


def access_token(environment: Mapping[str, str], *, is_user_shared: bool) -> str:
    """Returns the access token of the worker's client, empty if there is none. Raises ValueError with what is wrong.

    Every process of the same user can read the variable, in the environment of the process that has started the worker.
    So if tasks run as the worker's own user (`is_user_shared`), the token is out of their reach only in a file that is
    removed here, or in a descriptor that has been read.
    """
    token, path = environment.get(TOKEN, ""), Path(environment.get(TOKEN_FILE, ""))
    if path == Path():
        return token
    if token:
        raise ValueError(f"set {TOKEN} or {TOKEN_FILE}, not both")
    try:
        if not (token := path.read_text(encoding="utf-8").strip()):
            raise ValueError("it is empty")
    except (OSError, ValueError) as problem:
        raise ValueError(f"{TOKEN_FILE}: {path} cannot be used: {problem}") from None
    with contextlib.suppress(OSError):
        path.unlink()
    if path.is_file() and (is_user_shared or path.stat().st_mode & 0o044):
        raise ValueError(f"{TOKEN_FILE}: {path} cannot be removed, and tasks could read it")
    return token
