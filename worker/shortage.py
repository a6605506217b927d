"""Recognises errors of the system that mean a lack of resources: these are no failures of the task or the worker
(contract 4.3)."""

from __future__ import annotations

import errno

SHORTAGES = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
    }
)


def is_shortage(problem: BaseException) -> bool:
    """Whether an error says that memory, processes, descriptors or the disk have run out."""
    return isinstance(problem, OSError) and problem.errno in SHORTAGES
