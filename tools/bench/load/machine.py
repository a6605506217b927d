"""CPU time and memory of processes on this machine, with their children (Linux)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Use:
    """CPU time and memory that a process and its children have used."""

    cpu: float
    """Seconds of CPU time."""
    memory: float
    """Resident memory in MB."""


def use_of(processes: Mapping[str, int]) -> dict[str, Use]:
    """Returns the use of each process by its name, given its id; zeros where there is no /proc."""
    parents: dict[int, list[int]] = {}
    own: dict[int, Use] = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile
        pid = int(entry.name)
        own[pid] = Use(sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE / 1e6)
        parents.setdefault(int(fields[1]), []).append(pid)

    def total(pid: int) -> Use:
        parts = [own.get(pid, Use(0, 0)), *map(total, parents.get(pid, ()))]
        return Use(sum(part.cpu for part in parts), sum(part.memory for part in parts))

    return {name: total(pid) for name, pid in processes.items()}


def cores_in_use() -> float:
    """Returns the CPU seconds that this machine has spent on anything at all."""
    try:
        fields = [int(word) for word in (_PROC / "stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]]
    except OSError:
        return 0.0
    return (sum(fields[:8]) - fields[3] - fields[4]) / _TICKS
