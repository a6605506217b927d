"""Child processes of the local stack: started with a log file, watched until ready, ended by pid.

A child must not outlive its parent, however the parent ends. So each child's standard input is a pipe that no one
writes to, and the child ends when it reads the end of it: Azurite through its preload, Python modules through
`tools.local.tethered`. The alternative, PR_SET_PDEATHSIG, is Linux only and fires when the starting *thread* ends.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar, Protocol, Self

POLL_SECONDS = 0.02
"""How often a log is read while waiting for the line that says ready."""


class ChildError(RuntimeError):
    """A child process ended early or did not get ready, with the end of its log; or what it would serve is served."""


class Process(Protocol):
    """The part of `subprocess.Popen` that a child needs."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """The writable end of the pipe to its standard input."""
        ...

    def poll(self) -> int | None:
        """Returns the exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code. Raises subprocess.TimeoutExpired."""
        ...

    def send_signal(self, sig: int) -> None:
        """Sends the signal if the process runs."""
        ...


def spawn(argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None) -> Process:
    """Starts a process in a session of its own, with a pipe as standard input; appends its output to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )


class Child:
    """A running child process whose output goes to a log file."""

    spawn: ClassVar[Callable[[Sequence[str], Path, Mapping[str, str], Path | None], Process]] = staticmethod(spawn)
    """Function that starts a process. Tests replace it: they fork a process that has imported what they need."""

    def __init__(self, name: str, process: Process, log: Path, log_start: int, stop_signal: signal.Signals) -> None:
        self.name = name
        self._stop_signal = stop_signal
        self.log = log
        self._process = process
        self._log_start = log_start
        self._asked_to_end = False

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> Self:
        """Starts `argv` in a session of its own (a Ctrl-C reaches only the parent, which ends it in order).

        `env` is added to this process's environment; the output is appended to `log`.
        Raises OSError if the program cannot be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        log_start = log.stat().st_size if log.exists() else 0
        process = cls.spawn(argv, log, {**os.environ, **(env or {})}, cwd)
        return cls(name, process, log, log_start, stop_signal)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Returns the exit code, or None while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """Returns what this process has printed so far."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """Waits up to `timeout` seconds until the output matches the regular expression.

        Raises ChildError if the process ends first or the time is over; the process is left as it is.
        """
        give_up = time.monotonic() + timeout
        while True:
            code = self.poll()
            match = re.search(pattern, self.output())
            if match:
                return match
            if code is not None:
                raise ChildError(f"{self.name} ended with exit code {code}:\n{self.tail()}")
            if time.monotonic() > give_up:
                raise ChildError(f"{self.name} was not ready after {timeout:.0f} s:\n{self.tail()}")
            time.sleep(POLL_SECONDS)

    def tail(self, lines: int = 20) -> str:
        """Returns the last lines of the output."""
        return "\n".join(self.output().splitlines()[-lines:])

    def wait(self, timeout: float) -> int | None:
        """Returns the exit code, or None if it still runs after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Asks the process to end. A second call sends nothing: many programs exit at once on a second signal."""
        if not self._asked_to_end and self.poll() is None:
            self._asked_to_end = True
            self._process.send_signal(self._stop_signal)

    def tell(self, line: str) -> None:
        """Writes a line to the process's standard input."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Ends the process, and what it started in its group, at once, and waits until it has gone."""
        self.stop(grace=0)

    def stop(self, grace: float = 10) -> None:
        """Asks the process to end; after `grace` seconds, ends it. What it left behind in its group ends with it."""
        if self.poll() is None:
            if grace > 0:
                self.terminate()
                self.wait(grace)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
