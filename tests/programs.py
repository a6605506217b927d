"""Programs of this project in processes of their own that import nothing: they are forked from one that has imported.

A new interpreter spends more than a second of CPU on the imports of a command. For each family of commands some test
starts it as people do (tests/admin/test_exit_codes.py), the others as here.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from types import TracebackType

from local.state import ROOT

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["admin.cli"])

Main = Callable[[], object]
"""What `python -m` would call. Its result is not looked at: `sys.exit` gives the exit code."""


class Program:
    """A running program, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, main: Main, arguments: Sequence[str], environment: Mapping[str, str], terminal: str | None = None
    ) -> None:
        """With these variables and no others; `terminal` is the path of one that it reads from and writes to."""
        outputs = [_FORKS.Pipe(duplex=False) for _ in range(2)]
        writers = [writer for _, writer in outputs]
        self._process = _FORKS.Process(target=_run, args=(main, arguments, dict(environment), writers, terminal))
        self._process.start()
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno()), encoding="utf-8") for reader, _ in outputs)
        for reader, writer in outputs:
            reader.close()
            writer.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        self._process.join()
        self.stdout.close()
        self.stderr.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    @property
    def returncode(self) -> int | None:
        """None while it runs; -9 once it was killed."""
        return self._process.exitcode

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """What it still writes, to its end. Raises `subprocess.TimeoutExpired`."""
        with ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            self._process.join(timeout)
            is_late = self._process.is_alive()
            if is_late:
                self.kill()
            output, messages = (each.result() for each in reading)
        if is_late:
            raise subprocess.TimeoutExpired(str(self._process.pid), timeout, output, messages)
        return output, messages


def _run(
    main: Main,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    outputs: Sequence[Connection],
    terminal: str | None,
) -> None:
    """The child: as a new interpreter would begin, but for what is imported."""
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    for number, output in enumerate(outputs, 1):
        os.dup2(output.fileno(), number)
        output.close()
    if terminal is not None:
        opened = os.open(terminal, os.O_RDWR)
        os.dup2(opened, 0)
        os.dup2(opened, 1)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, encoding="utf-8") for number in (1, 2))
    sys.argv = [main.__module__, *arguments]
    main()
