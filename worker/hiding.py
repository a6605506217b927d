"""Keeps the worker's secrets from its tasks, as far as one user can from itself, and from every log."""

from __future__ import annotations

import ctypes
import logging
import re
import sys

PR_SET_DUMPABLE = 4

_USER = re.compile(r"(://)[^\s/?#@'\"<>]*@")
_QUERY = re.compile(r"(://[^\s?'\"<>]*\?|\?(?=[^\s'\"<>]*=))[^\s'\"<>]+")


def hide() -> None:
    """Keeps other processes of the same user, such as tasks, from this one's memory and environment (Linux).

    Memory and environment hold the worker's credentials. A process with the capability CAP_SYS_PTRACE can still read
    them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def without_secrets(text: str) -> str:
    """A text whose URLs have no query, which may be a signature, and no password."""
    return _QUERY.sub(r"\1…", _USER.sub(r"\1", text))


def shown(problem: BaseException) -> str:
    """An error of a client for a log: those of HTTP name the URL, whose query is its signature."""
    return without_secrets(str(problem) or type(problem).__name__)


class Formatter(logging.Formatter):
    """Writes lines of the worker's log, tracebacks included, without secrets, and each message as one line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the class it derives from
        """Names that a task has made may hold line ends."""
        line = super().formatMessage(record)
        return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)

    def format(self, record: logging.LogRecord) -> str:
        """The whole entry."""
        return without_secrets(super().format(record))
