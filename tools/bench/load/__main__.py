"""Load a deployment and measure it: throughput, latency, CPU, memory, storage requests, growth.

    ./dev bench [--quick] [--out FOLDER]               on a local stack of its own
    ./dev bench --root-url URL [--out FOLDER]          any deployment, with the credentials of TASKCLUSTER_CLIENT_ID …
    ./dev bench compare FOLDER FOLDER                  two runs side by side
    ./dev bench document FOLDER                        put a run's tables into docs/performance.md

A deployment that is not local is seen from outside: without CPU, memory and requests to storage. The
credentials need the scopes to create, claim and list in the task queues `bench/*` of the scheduler `bench`. The tasks
expire after a day.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from azure.storage.queue import QueueServiceClient

from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from tools.bench.load.bench import FULL, QUICK, Bench, Preset
from tools.bench.load.client import Target
from tools.bench.load.compare import compare
from tools.bench.load.crowd import Crowd
from tools.bench.load.hostlog import HostLogs
from tools.bench.load.meter import Meter
from tools.bench.load.report import markdown, write
from tools.bench.load.result import Result
from tools.local import state
from tools.local.bootstrap import python_build
from tools.local.child import ChildError
from tools.local.ports import Ports, PortTakenError
from tools.local.stack import Stack, StackOptions
from tools.local.state import StackState

DOCUMENT = state.ROOT / "docs" / "performance.md"
MARKS = ("<!-- made by ./dev bench document -->", "<!-- end of the measurement -->")
PORT = 7991


def main(arguments: Sequence[str]) -> None:
    """Ends the program with a message if the run cannot be made."""
    if arguments[:1] == ["compare"]:
        given = _parser("compare", runs=2).parse_args(arguments[1:])
        print(compare(*map(_load, given.runs)))
    elif arguments[:1] == ["document"]:
        given = _parser("document", runs=1).parse_args(arguments[1:])
        document(_load(given.runs[0]))
    else:
        _run(run_parser().parse_args(arguments))


def document(result: Result, path: Path = DOCUMENT) -> None:
    """Puts the tables of a run into the page, between its marks."""
    made = f"{MARKS[0]}\n\n{markdown(result)}\n{MARKS[1]}"
    pattern = f"{re.escape(MARKS[0])}.*?{re.escape(MARKS[1])}"
    path.write_text(
        re.sub(pattern, lambda _: made, path.read_text(encoding="utf-8"), flags=re.DOTALL), encoding="utf-8"
    )


def _run(given: argparse.Namespace) -> None:
    preset = QUICK if given.quick else FULL
    out = given.out or Path("bench-results") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if given.root_url:
        try:
            target = Target.of({**os.environ, "TASKCLUSTER_ROOT_URL": given.root_url})
        except KeyError as missing:
            sys.exit(f"./dev bench: set {missing.args[0]}: the credentials to load {given.root_url} with.")
        result = _measure(target, preset, given.clients, None)
    else:
        try:
            with _own_stack(given.port, given.hosts) as stack:
                result = _measure(Target.of(stack.environment), preset, given.clients, stack)
        except (ChildError, PortTakenError) as error:
            sys.exit(f"./dev bench: {error}")
    tables = write(result, out)
    print(markdown(result))
    print(f"In {tables.parent}: {', '.join(sorted(path.name for path in tables.parent.iterdir()))}")


def _measure(target: Target, preset: Preset, clients: int, stack: Stack | None) -> Result:
    machine = {"cores": os.cpu_count(), "processor": _processor(), "python": python_build()} if stack else {}
    result = Result(
        started=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        commit=_commit() if stack else "unknown",
        preset=preset.name,
        target="a local stack of its own" if stack else target.root_url,
        clients=clients,
        machine=machine,
    )
    with Crowd(target, clients) as crowd:
        meter = Meter(result, _say)
        bench = Bench(target, crowd, preset, meter)
        if stack is not None:
            port = stack.options.ports.api
            running = StackState.load(port)
            children = running.children if running is not None else {}
            meter.processes = {name: child.pid for name, child in children.items()}
            meter.logs = HostLogs(sorted(state.logs_folder(port).glob("host-*.log")))
            queues = QueueServiceClient.from_connection_string(stack.azurite.connection_string)
            meter.unsettled = lambda: int(
                queues.get_queue_client(RESOLVED_QUEUE).get_queue_properties().approximate_message_count or 0
            )
        bench.run()
    return result


@contextlib.contextmanager
def _own_stack(port: int, hosts: int) -> Iterator[Stack]:
    ports = Ports.derive(port, hosts)
    try:
        with Stack.start(StackOptions(ports, in_memory=True, storage_apart=True, fresh=True), _say) as stack:
            yield stack
    finally:
        shutil.rmtree(state.folder(port), ignore_errors=True)


def _load(folder: Path) -> Result:
    try:
        return Result.load(folder)
    except (OSError, ValueError) as error:
        sys.exit(f"./dev bench: {error}")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=state.ROOT, capture_output=True, encoding="utf-8", check=False
    )
    return found.stdout.strip() or "unknown"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def run_parser() -> argparse.ArgumentParser:
    """Returns the options of a run."""
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: about a minute on a machine that is idle")
    parser.add_argument("--root-url", help="a deployment; a local stack of its own if not given")
    parser.add_argument("--clients", type=int, default=4, help="client processes (4)")
    parser.add_argument("--hosts", type=int, default=1, help="hosts of the local stack (1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port of the local stack ({PORT})")
    parser.add_argument("--out", type=Path, help="folder for the tables and figures")
    return parser


def _parser(command: str, runs: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"./dev bench {command}")
    parser.add_argument("runs", nargs=runs, type=Path, metavar="FOLDER", help="where a run was saved")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
