"""Works on the files of a task's folder with the rights of the task's user, in a process of its own.

The worker may be root, and what is in the folder is the task's: its archives, its links, its pipes. So the worker has
them unpacked, listed and opened by this process, which gives up all other rights before it looks at any of them, and
which has no secret. It asks by messages on standard input, a socket (messages.py); `{"user": …}` comes first:

* `way`: makes the directories above a path, where nothing may be yet;
* `write`, `unpack`: the content of the descriptor that comes along, as a file or a directory;
* `list`: the files below a directory;
* `open`: the answer brings the file's descriptor.

Paths are those in the folder. An answer is `{"done": …}`, or which of the errors below it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from worker.archives import BadContent, decompress, unpack
from worker.descriptors import is_there, opened, walked
from worker.files import Unusable, files_below
from worker.files import opened as opened_file
from worker.messages import Message, receive, send

PR_SET_PDEATHSIG = 1
MEMORY = 1 << 30
"""Bytes: an archive may ask for any amount to be unpacked."""

"".encode("cp437")  # loads the codec of names in zip files now: the task's user may not be allowed to read it


def main() -> None:
    """Answers until standard input ends."""
    with socket.socket(fileno=os.dup(0)) as asked:
        first = receive(asked)
        if first is None:
            return
        _become(first[0]["user"])
        folder = Path(first[0]["folder"])
        while (received := receive(asked)) is not None:
            request, file = received
            try:
                _answer(asked, folder, request, file)
            finally:
                if file is not None:
                    os.close(file)


def _become(user: Mapping[str, Any] | None) -> None:
    """Gives up the rights of the process for good, and has the system kill it when its worker ends."""
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # not known everywhere
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if user is not None:
        os.setgroups(user["extra_groups"])
        os.setregid(user["group"], user["group"])
        os.setreuid(user["user"], user["user"])
    if sys.platform == "linux":  # after the change of user, which would undo it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _answer(asked: socket.socket, folder: Path, request: Message, file: int | None) -> None:
    try:
        if request["do"] == "open":
            with opened_file(folder, request["path"]) as found:
                send(asked, {"done": None}, found.fileno())
            return
        done = _done(folder, request, file)
    except BadContent as problem:
        send(asked, {"bad": str(problem)})
    except Unusable as problem:
        send(asked, {"unusable": [problem.reason, str(problem)]})
    except MemoryError:
        send(asked, {"bad": "it takes too much memory"})
    except OSError as problem:
        send(asked, {"errno": problem.errno, "problem": problem.strerror or str(problem)})
    else:
        send(asked, {"done": done})


def _done(folder: Path, request: Message, file: int | None) -> list[str] | None:
    if request["do"] == "list":
        return files_below(folder, request["path"])
    path = PurePosixPath(request["path"])
    with opened(folder) as top, walked(top, path.parent, make=True) as parent:
        # Make it the working directory: a path that is relative to it cannot be led elsewhere by a link.
        os.fchdir(parent)
        if request["do"] == "unpack":
            assert file is not None, "there is something to unpack"
            unpack(file, request["archive"], Path(path.name))
        elif request["do"] == "write":
            assert file is not None, "there is something to write"
            decompress(file, request["compression"], Path(path.name))
        elif is_there(parent, path.name):
            raise FileExistsError(errno.EEXIST, "there is something already", str(path))
    return None
