"""CPU of the app for each call, without a host: `python -m tools.bench.calls_cpu [--against CHECKOUT] [--rounds N]`.

The functions are called in process, against an Azurite and a broker of their own. With another checkout (a `git
worktree` of an older commit), the two go in turns, and what counts is the median of the rounds' ratios: others may use
the machine as well. What the local host adds (its HTTP server, 0.4 ms a call; its queue listener, 2 ms a message) is in
`./dev bench` alone, and is never paid in Azure; what Microsoft's worker adds there is in neither.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from shared.queue.events.exchanges import TOPICS
from tools.local import settings_docs, state
from tools.local.azurite import Azurite
from tools.local.bootstrap import python_build
from tools.local.service_bus import ServiceBus

COUNTS = {"create": 80, "dependent": 80, "status": 300, "cycle": 40}
WARM_UP = {"create": 60, "dependent": 40, "status": 60, "cycle": 12}


class Checkout:
    """A process that calls the functions of one checkout, with the packages of its own `.venv` if it has one."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        own = folder / ".venv" / "bin" / "python"
        self._process = subprocess.Popen(
            [str(own) if own.exists() else sys.executable, str(state.ROOT / "tools" / "bench" / "calls_inside.py")],
            cwd=folder,
            env={**os.environ, **environment, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )
        self._read()

    def measure(self, name: str, count: int) -> float:
        """Returns the milliseconds of CPU of each call."""
        return float(self.ask(name, count))

    def ask(self, name: str, count: int) -> Any:
        """Sends a command and returns its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {count}\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            self._log.seek(0)
            raise SystemExit(f"a checkout's process has died:\n{self._log.read()[-2000:].decode(errors='replace')}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def measure(ours: Checkout, other: Checkout, rounds: int) -> dict[str, tuple[float, float, float]]:
    """Returns for each kind of call our milliseconds, the other checkout's, and the ratio."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in COUNTS}
    for name, count in WARM_UP.items():
        ours.measure(name, count)
        other.measure(name, count)
    for number in range(rounds):
        for name, count in COUNTS.items():
            order = (ours, other) if number % 2 else (other, ours)
            spent = {checkout: checkout.measure(name, count) for checkout in order}
            found[name].append((spent[ours], spent[other]))
    return {
        name: (
            statistics.median(mine for mine, _ in pairs),
            statistics.median(theirs for _, theirs in pairs),
            statistics.median(mine / theirs for mine, theirs in pairs),
        )
        for name, pairs in found.items()
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, default=state.ROOT, help="another checkout (default: this one again)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: 7)")
    given = parser.parse_args()
    with Azurite.start(in_memory=True) as azurite, ServiceBus.start(list(TOPICS)) as broker:
        environment = {
            **settings_docs.EXAMPLE_VALUES,
            "STORAGE_CONNECTION_STRING": azurite.connection_string,
            "SERVICEBUS_CONNECTION_STRING": broker.connection_string,
        }
        with Checkout(state.ROOT, environment) as ours, Checkout(given.against.resolve(), environment) as other:
            measured = measure(ours, other, given.rounds)
    print(f"Python {python_build()}")
    for name, (mine, theirs, ratio) in measured.items():
        print(f"{name:10} {mine:6.2f} ms, against {theirs:6.2f} ms: {ratio:.2f}")


if __name__ == "__main__":
    main()
