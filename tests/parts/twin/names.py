"""Checks names of tables, queues and containers, as Azure does."""

from __future__ import annotations

import re

_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9]{2,62}")
_DASHED = re.compile(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")


def check_table(name: str) -> None:
    """Checks the name of a table. Raises ValueError."""
    if not _TABLE.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a table")


def check_dashed(name: str) -> None:
    """Checks the name of a queue or a container. Raises ValueError."""
    if not _DASHED.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a queue or a container")
