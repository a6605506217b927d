"""Keeps the worker's secrets from its tasks, as far as one user can from itself."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4


def hide() -> None:
    """Keeps other processes of the same user, such as tasks, from this one's memory and environment (Linux).

    They hold the worker's credentials. A process with the capability CAP_SYS_PTRACE can still read them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
