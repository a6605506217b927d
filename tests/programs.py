"""Programs of this project in processes of their own that import nothing: they are forked from one that has imported.

A new interpreter spends more than a second of CPU on the imports of a command or a host. For each kind of program some
test starts it as people do, such as test_dev.py, the others as here.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from shared.overview import endpoints
from shared.store import wire
from tools.local import child, tethered
from tools.local.child import Process
from tools.local.state import ROOT

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.preloaded"])


def start_server() -> None:
    """Starts the process that the others are forked from."""
    forkserver.ensure_running()


def share_server() -> None:
    """Lets this forked process use the server that its parent started, which is no child of it to be waited for."""
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]


Main = Callable[[], object]
"""Function that `python -m` would call. Its result is ignored: `sys.exit` gives the exit code."""


class Program:
    """A running program, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, main: Main, arguments: Sequence[str], environment: Mapping[str, str], terminal: str | None = None
    ) -> None:
        """Starts the program with these variables alone; `terminal` is the path of its terminal."""
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
        """Ends the program at once."""
        self._process.kill()

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the program runs; -9 once it was killed."""
        return self._process.exitcode

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """Returns what it still writes, up to its end. Raises `subprocess.TimeoutExpired`."""
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


class Tethered:
    """A module that runs under `tools.local.tethered`, with what tools/local/child.py needs of `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """`arguments` are those of `python -m tools.local.tethered`."""
        log.touch()
        reader, writer = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(
            target=_tether, args=(list(arguments), dict(environment), log, reader), daemon=True
        )
        self._process.start()
        reader.close()
        self.stdin = os.fdopen(os.dup(writer.fileno()), "wb")
        writer.close()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Returns the exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code. Raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            assert timeout is not None, "without a limit it has ended"
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, sig: int) -> None:
        """Sends the signal, if the program runs."""
        if self.poll() is None:
            os.kill(self.pid, sig)


def spawn(argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None) -> Process:
    """Forks a process as `tools.local.child.spawn` starts one, if `tools.local.tethered` runs our module."""
    if cwd == ROOT and list(argv[:3]) == [sys.executable, "-m", "tools.local.tethered"]:
        return Tethered(argv[3:], env, log)
    return child.spawn(argv, log, env, cwd)


def _run(
    main: Main,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    outputs: Sequence[Connection],
    terminal: str | None,
) -> None:
    """Runs in the child, which begins as a new interpreter would, except for what is imported."""
    streams = [0, *(output.fileno() for output in outputs)]
    if terminal is not None:
        opened = os.open(terminal, os.O_RDWR)
        streams[:2] = [opened, opened]
    begin(ROOT, environment, streams, buffering=1)
    for output in outputs:
        output.close()
    sys.argv = [main.__module__, *arguments]
    main()


def _tether(arguments: Sequence[str], environment: Mapping[str, str], log: Path, reader: Connection) -> None:
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    begin(ROOT, environment, [reader.fileno(), output, output])
    reader.close()
    os.close(output)
    if environment.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    sys.path.insert(0, str(ROOT))
    sys.argv = [tethered.__file__, *arguments]
    try:
        tethered.main()
    finally:
        atexit._run_exitfuncs()


def begin_as_new() -> None:
    """Makes anew, in a forked process, what a process makes for itself while it imports."""
    wire._PROCESS = uuid.uuid4().hex[: len(wire._PROCESS)]
    endpoints._started = time.monotonic()


def begin(folder: Path, environment: Mapping[str, str], streams: Sequence[int], buffering: int = -1) -> None:
    """Begins in this folder, with these variables alone, and these files as standard streams."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, opened in enumerate(streams):
        os.dup2(opened, number)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", buffering=buffering, encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8")
