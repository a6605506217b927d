"""The access token of the worker's client, by a variable or by a file that is gone afterwards.

Every process of the same user can read the variable, in the environment of the process that has started the worker. So
if tasks run as the worker's own user, the token is out of their reach only in a file that no longer exists, or in a
descriptor that has been read.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "TASKCLUSTER_ACCESS_TOKEN"
FILE_VARIABLE = "TASKCLUSTER_ACCESS_TOKEN_FILE"


def access_token(environment: Mapping[str, str], *, is_user_shared: bool) -> str:
    """The token; empty if there is none. The file is removed, if it is one that has a name.

    `is_user_shared`: tasks run as the worker's own user. Raises ValueError that says what is wrong: also where tasks
    could read the file.
    """
    token, name = environment.get(VARIABLE, ""), environment.get(FILE_VARIABLE, "")
    if not name:
        return token
    if token:
        raise ValueError(f"set {VARIABLE} or {FILE_VARIABLE}, not both")
    path = Path(name)
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{FILE_VARIABLE}: {name} cannot be read: {problem}") from None
    if not token:
        raise ValueError(f"{FILE_VARIABLE}: {name} is empty")
    with contextlib.suppress(OSError):
        path.unlink()
    with contextlib.suppress(OSError):
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and (is_user_shared or found.st_mode & (stat.S_IRGRP | stat.S_IROTH)):
            raise ValueError(f"{FILE_VARIABLE}: {name} cannot be removed, and tasks could read it")
    return token


def shown_by(token: str) -> int | None:
    """The id of a process whose environment shows the token and that has started this one, directly or not; None if
    there is none.

    It looks in /proc (Linux), as a task would.
    """
    pid = os.getppid()
    with contextlib.suppress(OSError, ValueError):
        while pid > 0:
            if token.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return None
