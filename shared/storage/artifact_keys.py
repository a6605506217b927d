"""Row keys and blob paths of artifacts (design 3). Names hold what keys forbid, and are longer than keys may be.

A key holds the name escaped so that keys sort as names do, cut where it gets too long, and a hash of the whole name.
Names that agree in their first some 230 to 460 characters are listed in the order of their hashes.
"""

from __future__ import annotations

from shared.domain.artifacts import PUBLIC_PREFIX, digest

PRIVATE = "artifacts"
PUBLIC = "public-artifacts"
"""Containers. What is `public/` lies apart, so that its container can be made public as a whole."""

_LONGEST = 460
"""Characters of an escaped name in a key; a key has 512."""

# A character that keys forbid, or that is known for trouble in them, becomes its neighbour and a digit; so does the
# neighbour. The space is escaped since it ends the name: it is lower than everything else that may follow.
_ESCAPES = str.maketrans(
    {
        " ": "!0",
        "!": "!1",
        '"': '"0',
        "#": '"1',
        "$": "$0",
        "%": "$1",
        "*": "*0",
        "+": "*1",
        ".": ".0",
        "/": ".1",
        ">": ">0",
        "?": ">1",
        "[": "[0",
        "\\": "[1",
    }
)


def artifact(run_id: int, name: str) -> str:
    """Row of an artifact. `name` is printable ASCII."""
    return f"artifact~{run_id:04d}~{name.translate(_ESCAPES)[:_LONGEST]} {digest(name)}"


def artifacts(run_id: int) -> tuple[str, str]:
    """The range of a run's artifacts."""
    prefix = f"artifact~{run_id:04d}"
    return f"{prefix}~", f"{prefix}\x7f"


ARTIFACTS = ("artifact~", "artifact\x7f")
"""The range of all runs' artifacts."""


STRAYS = "artifact.strays"
"""Row that says that the task may have blobs that no row names: left by a call or job that died while it replaced or
deleted the content of an artifact."""


def direct(run_id: int, name: str) -> str:
    """Row of an upload whose block is to be committed."""
    return f"direct~{run_id:04d}~{digest(name)}"


EDGES_AND_UPLOADS = ("dependent~", "direct\x7f")
"""One range: the edges of a task, then its uploads to commit. What a resolution has to look at."""
IS_UPLOAD = "direct~"


def container(name: str) -> str:
    """The container of an artifact's blob."""
    return PUBLIC if name.startswith(PUBLIC_PREFIX) else PRIVATE


def path(task_id: str, run_id: int, name: str, version: str = "") -> str:
    """The path of the blob of an artifact's version; without one, what all their paths begin with."""
    return f"{task_id}/{run_id}/{digest(name)}.{version}"


def paths(task_id: str) -> str:
    """What the paths of all blobs of a task begin with."""
    return f"{task_id}/"
