"""What a running stack leaves in .local/<port>/stack.json, so that `./dev down`, `env` and `logs` find it."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, distinguished from a later one with the same id by the time at which it started."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        """Returns the process that has this id now. Raises ProcessLookupError if there is none."""
        started = _start_time(pid)
        if started is None:
            raise ProcessLookupError(f"there is no process {pid}")
        return cls(pid, started)

    def is_running(self) -> bool:
        """Returns whether this very process still runs."""
        return _start_time(self.pid) == self.started

    def signal(self, number: int) -> bool:
        """Sends a signal to this very process. Returns False if it has gone."""
        if not self.is_running():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


@dataclass(frozen=True)
class StackState:
    """A running stack: its processes, and how to reach it."""

    port: int
    supervisor: ProcessIdentity
    """The process that started the others and ends with them."""
    children: Mapping[str, ProcessIdentity]
    environment: Mapping[str, str] = field(repr=False)
    """The variables that `./dev env` prints. They include the access token, so the file is for its owner only."""

    def save(self) -> None:
        """Writes the file as a whole, or not at all."""
        path = state_path(self.port)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file, indent=2)
        draft.replace(path)

    @classmethod
    def load(cls, port: int) -> "StackState | None":
        """Returns the stack that runs on this port now, or None."""
        try:
            data: dict[str, Any] = json.loads(state_path(port).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        state = cls(
            port=data["port"],
            supervisor=ProcessIdentity(**data["supervisor"]),
            children={name: ProcessIdentity(**child) for name, child in data["children"].items()},
            environment=data["environment"],
        )
        return state if state.supervisor.is_running() else None


def folder(port: int) -> Path:
    """Returns the folder where the stack on this port keeps its data, logs and state."""
    return ROOT / ".local" / str(port)


def state_path(port: int) -> Path:
    """Returns the state file of the stack on this port."""
    return folder(port) / "stack.json"


def running_stacks() -> list[StackState]:
    """Returns every stack of this checkout that runs now."""
    ports = sorted(int(path.parent.name) for path in ROOT.glob(".local/[0-9]*/stack.json"))
    return [stack for stack in map(StackState.load, ports) if stack is not None]


def stack_log(port: int) -> Path:
    """Returns the log of the process that supervises the stack on this port, if it has no terminal."""
    return folder(port) / "stack.log"


def logs_folder(port: int) -> Path:
    """Returns the logs of the stack on this port, a file per process."""
    return folder(port) / "logs"


def _start_time(pid: int) -> str | None:
    """Returns when the process started, as an opaque text; None if there is none, or it is a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, encoding="utf-8", check=False
    )
    status, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if started and not status.startswith("Z") else None
