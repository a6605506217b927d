"""`./dev test`: the checks of the repository, in the order in which they fail fastest, long ones beside all others."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from tools.local.appsettings import ADDRESS_SETTINGS
from tools.local.check_module import INTERRUPTED
from tools.local.state import ROOT

COVERED = ("coverage", "run", "-m")
STACK_VARIABLES = (
    "TASKCLUSTER_CLIENT_ID",
    "TASKCLUSTER_ACCESS_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "TOPIC_PREFIX",
)

PROCESSES = 4
"""Processes of the tests: twice the cores of a small machine, as many tests wait. Each of them imports all modules."""

QUICK_PROCESSES = 2
"""Processes of a quick run, in which few tests wait. Each further process would import all modules again."""

LONG = ("--timeout", "1800", "--no-loadscope-reorder")
"""Options of pytest with large tests: pytest-xdist would begin those last that take half an hour."""

ALL_TESTS = "ALL_TESTS"
"""Variable that tells tests/selection.py that random choices may differ from run to run."""

BESIDE = {"Types", "Console"}
"""Checks that keep one processor busy for long. They run in parallel with the others, and are reported after them."""

GRACE_SECONDS = 60.0
"""Time that an interrupted check has to end."""

_LOOK_SECONDS = 0.5
"""Interval of the checks whether one of them has failed."""

REPAIRS = {"Lint": ".venv/bin/ruff check --fix .", "Format": ".venv/bin/ruff format ."}
"""For each check, the command that repairs what it finds, as far as a program can."""


def steps(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Title and command of each check. `--all` among the arguments adds the large tests; the rest is pytest's.

    `--quick` is an option of tests/selection.py, which names what such a run leaves out. `--coverage` measures
    lines and branches of the app in all processes of the tests, and adds a check of the floor (pyproject.toml).
    """
    everything, measured = "--all" in arguments, "--coverage" in arguments
    given = [argument for argument in arguments if argument not in ("--all", "--coverage")]
    processes = QUICK_PROCESSES if "--quick" in given else PROCESSES
    pytest = ["pytest", *([] if _names(given, "-n") else ["-n", str(processes)])]
    pytest += [*(LONG if everything else ()), *([] if _names(given, "--dist") else ["--dist", "loadgroup"]), *given]
    if not everything and not _names(given, "-m"):
        pytest += ["-m", "not large"]
    checks = [
        ("Lint", ["ruff", "check"]),
        ("Encodings", ["ruff", "check", "--preview", "--select", "PLW1514"]),  # files open alike in every locale
        ("Format", ["ruff", "format", "--check"]),
        ("Types", ["mypy"]),
        ("Imports", ["tools.local.check_imports"]),
        ("Console", ["tools.local.check_console"]),
        ("Tests, large ones included" if everything else "Tests", [*(COVERED if measured else ()), *pytest]),
    ]
    if measured:
        part = ["--fail-under", "0"] if given else []
        checks += [
            ("Coverage of all processes", ["coverage", "combine", "--quiet"]),
            ("Coverage in .local/coverage/html", ["coverage", "html", "--quiet", "--fail-under", "0"]),
            ("Coverage", ["coverage", "report", *part]),
        ]
    return checks


def main(arguments: Sequence[str]) -> int:
    """Runs the checks, each as a module of this Python. Returns the exit code of the first that fails, or 0. A check of
    `BESIDE` that fails ends the others."""
    environment = clean_environment() | ({ALL_TESTS: "1"} if "--all" in arguments else {})
    checks = steps(arguments)
    with ExitStack() as stack:
        beside = [
            stack.enter_context(_beside(title, command, environment)) for title, command in checks if title in BESIDE
        ]
        for title, command in checks:
            if title in BESIDE:
                continue
            print(f"── {title}: {' '.join(command)}", flush=True)
            started = time.monotonic()
            code = _run(command, environment, beside)
            if code == INTERRUPTED:
                return code
            if code is None:
                break
            if code != 0:
                return _failed(title, code)
            print(f"── {title}: passed in {time.monotonic() - started:.0f} s", flush=True)
        return next((code for each in beside if (code := each.ended()) != 0), 0)


def _failed(title: str, code: int) -> int:
    repair = f"; repair it: {REPAIRS[title]}" if title in REPAIRS else ""
    print(f"── {title} failed (exit code {code}){repair}", file=sys.stderr, flush=True)
    return code


@dataclass(frozen=True)
class _Beside:
    """A check that runs in parallel with others. What it prints is shown when it and the others have ended."""

    title: str
    command: Sequence[str]
    process: subprocess.Popen[str]
    output: IO[str]

    @property
    def has_failed(self) -> bool:
        """Whether the check has ended with a failure, so that the others need not go on."""
        return self.process.poll() not in (None, 0)

    def ended(self) -> int:
        """Waits for the end of the check and says what came of it; returns its exit code."""
        code = self.process.wait()
        self.output.seek(0)
        print(f"── {self.title}: {' '.join(self.command)}\n{self.output.read()}", end="", flush=True)
        if code != 0:
            return _failed(self.title, code)
        print(f"── {self.title}: passed, beside the others", flush=True)
        return code


@contextmanager
def _beside(title: str, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[_Beside]:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, _start(command, environment, output) as process:
        try:
            yield _Beside(title, command, process, output)
        finally:
            process.terminate()


def clean_environment() -> dict[str, str]:
    """Returns the environment without what would make tests talk to a stack that is running."""
    without = (*ADDRESS_SETTINGS, *STACK_VARIABLES)
    return {name: value for name, value in os.environ.items() if name not in without}


def _start(
    command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None = None
) -> subprocess.Popen[str]:
    whole = [sys.executable, "-m", "tools.local.check_module", *command]
    return subprocess.Popen(whole, cwd=ROOT, env=environment, stdout=output, stderr=output, encoding="utf-8")


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Interrupts a process as Ctrl-C would, so that it prints its last lines and ends what its tests have started. If
    it does not end in time, it is terminated."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def _run(command: Sequence[str], environment: Mapping[str, str], beside: Sequence[_Beside] = ()) -> int | None:
    """Runs a command and returns its exit code, or None if a check beside it has failed meanwhile: then the command is
    ended. A Ctrl-C reaches the command as well, which ends in its own time and prints its own last lines."""
    with _start(command, environment) as process:
        interrupted = False
        while True:
            try:
                code = process.wait(_LOOK_SECONDS if beside else None)
            except KeyboardInterrupt:
                interrupted = True
            except subprocess.TimeoutExpired:
                if any(each.has_failed for each in beside):
                    _interrupt(process)
                    return None
            else:
                return INTERRUPTED if interrupted else code


def _names(arguments: Sequence[str], option: str) -> bool:
    return any(argument == option or argument.startswith(option) for argument in arguments)
