"""One-time codes by which `./dev ui` hands credentials to the browser, through the stack's folder (`.local/<port>/`).

A code is worth its credentials once, within a minute. The folder has a file for each, for its owner alone, named after
the code's hash: who takes the file away has redeemed the code, whichever of the stack's hosts that is.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

LIFE = timedelta(minutes=1)
FOLDER = "sign-in"
"""Name of the folder of codes inside the stack's folder."""
PAGE = "/local/sign-in"
"""Path at which a local host redeems codes."""


def hand_over(folder: Path, credentials: Mapping[str, str], now: datetime) -> str:
    """Keeps credentials for whoever brings the returned code, and removes those whose code was not redeemed in time."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.stat().st_mtime < (now - LIFE).timestamp():
            path.unlink(missing_ok=True)
    code = secrets.token_urlsafe(32)
    record = {"until": (now + LIFE).timestamp(), "credentials": dict(credentials)}
    with os.fdopen(os.open(_path(folder, code), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(record, file)
    return code


def redeem(folder: Path, code: str, now: datetime) -> dict[str, str] | None:
    """Returns the credentials that were left for a code; None if it is unknown, was redeemed, or has expired."""
    path = _path(folder, code)
    taken = path.with_suffix(".taken")
    try:
        path.rename(taken)  # of two who try, one finds the file
    except FileNotFoundError:
        return None
    record: dict[str, Any] = json.loads(taken.read_text(encoding="utf-8"))
    taken.unlink()
    credentials: dict[str, str] = record["credentials"]
    return credentials if now.timestamp() < record["until"] else None


def _path(folder: Path, code: str) -> Path:
    return folder / hashlib.sha256(code.encode(errors="replace")).hexdigest()
