"""Trying mutants: each in a copy of the checkout, against the tests that reach it, until the first of them fails."""

import hashlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from pathlib import Path

from tools.local.mutation.copies import FOLDER, Copy
from tools.local.mutation.mutants import Mutant
from tools.local.mutation.reached import OUTPUT, Reach, TestsFail
from tools.local.mutation.settings import Settings

KEPT = "killed.json"
SLOWER = 10
"""Tests of a mutant may take this many times longer than without it, since other trials run in parallel."""
AT_LEAST = 60.0
"""Seconds that one test, and all tests of a mutant, may take in any case."""
OF_HOSTS = 600.0
"""Seconds that the tests may take for a file that runs in other processes."""
_NO_SUCH_TEST = "ERROR: not found:"
"""What pytest prints for a requested test that does not exist."""


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNREACHED = "no test reaches it"


class Killed:
    """Mutants that were killed by earlier runs: they need no further trial while their function is the same."""

    def __init__(self, root: Path) -> None:
        self._file = root / FOLDER / KEPT
        self._hashes: set[str] = set(json.loads(self._file.read_text())) if self._file.exists() else set()

    def __contains__(self, mutant: Mutant) -> bool:
        return _hash(mutant) in self._hashes

    def add(self, mutant: Mutant) -> None:
        """Remember it, also if this run is interrupted."""
        self._hashes.add(_hash(mutant))
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(sorted(self._hashes)))
        draft.replace(self._file)


def _hash(mutant: Mutant) -> str:
    return hashlib.sha256(repr((mutant.function, mutant.original, mutant.mutated)).encode()).hexdigest()[:16]


def try_all(
    mutants: Sequence[Mutant],
    copies: Sequence[Copy],
    reached: Reach,
    settings: Settings,
    told: Callable[[Mutant, Fate], None],
) -> None:
    """Try them side by side, one in each copy; `told` what became of each, one at a time. Raises TestsFail."""
    telling = threading.Lock()
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> None:
        copy = free.get()
        try:
            fate = _try(mutant, copy, reached, settings)
        finally:
            free.put(copy)
        with telling:
            told(mutant, fate)

    with ThreadPoolExecutor(len(copies)) as threads:
        trials = [threads.submit(one, mutant) for mutant in mutants]
        try:
            for trial in trials:
                trial.result()
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _try(mutant: Mutant, copy: Copy, reached: Reach, settings: Settings) -> Fate:
    tests, of_hosts = reached.tests(mutant), settings.in_hosts(mutant.path)
    if not tests and not of_hosts:
        return Fate.UNREACHED
    with copy.mutated(mutant):
        durations = [reached.durations[test] for test in tests]
        if tests and _fails(copy, settings, tests, max(durations) * SLOWER, sum(durations) * SLOWER):
            return Fate.KILLED
        if of_hosts and _fails(copy, settings, of_hosts, OF_HOSTS, OF_HOSTS):
            return Fate.KILLED
    return Fate.SURVIVED


def _fails(copy: Copy, settings: Settings, tests: Sequence[str], longest: float, together: float) -> bool:
    """Whether one of the tests fails, or does not end."""
    limit = ["--timeout", str(int(AT_LEAST + longest))]
    chosen = copy.path / ".tests"
    chosen.write_text("\n".join(tests))  # thousands of them do not fit into a command line
    process = copy.start_pytest(
        ["-x", "-q", "-p", "no:xdist", "--no-header", *limit, *settings.options, f"@{chosen}"],
        {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    deadline = time.monotonic() + AT_LEAST + together
    try:
        output, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return True
    finally:
        _end(process)
    if _NO_SUCH_TEST in output:
        raise TestsFail(f"the tests are others than those that were recorded\n{output[-OUTPUT:]}")
    return process.returncode != 0  # a test has failed, or a module cannot be imported


def _end(process: "subprocess.Popen[str]") -> None:
    """End pytest and what it has left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
