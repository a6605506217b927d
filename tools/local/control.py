"""What `./dev` does with a stack that runs elsewhere: end it, show its logs, restart its hosts."""

import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from tools.local import state
from tools.local.output import harmless
from tools.local.ports import DEFAULT_PORT
from tools.local.state import StackState

STOP_SECONDS = 40
RESTART_SECONDS = 90
WATCH_SECONDS = 0.1
ENDED = "The stack has ended."
"""Last log line of a stack that ended in order."""


def say(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """Ends the program with a message."""
    say(f"./dev: {text}")
    sys.exit(1)


def down(port: int) -> None:
    """Ends the stack on this port by the ids of its own processes, checked by their start times."""
    running = StackState.load(port)
    if running is None:
        say(f"No stack runs on port {port}{_ended_by_itself(port)}.")
        return
    running.supervisor.signal(signal.SIGTERM)
    if not _wait_until_gone(running, STOP_SECONDS):
        for process in (running.supervisor, *running.children.values()):
            process.signal(signal.SIGKILL)
        if not _wait_until_gone(running, 5):
            fail(f"the stack on port {port} could not be ended (process {running.supervisor.pid})")
    say(f"The stack on port {port} has ended.")


def restart_host(port: int) -> None:
    """Ends each host; its supervisor starts it again. Returns when all are back."""
    before = running(port)
    hosts = {name: process for name, process in before.children.items() if name.startswith("host-")}
    if not hosts:
        fail(f"the stack on port {port} was started without a host")
    for process in hosts.values():
        process.signal(signal.SIGINT)
    give_up = time.monotonic() + RESTART_SECONDS
    while time.monotonic() < give_up:
        now = running(port).children
        if all(now.get(name, old) != old and now[name].is_running() for name, old in hosts.items()):
            say(f"The host on port {port} runs again." if len(hosts) == 1 else f"All {len(hosts)} hosts run again.")
            return
        time.sleep(WATCH_SECONDS)
    fail(f"the host on port {port} did not come back; see {hint('logs', port)}")


def running(port: int) -> StackState:
    """Returns the stack on this port; ends the program with a message if there is none."""
    stack = StackState.load(port)
    if stack is None:
        fail(f"no stack runs on port {port}{_ended_by_itself(port)}; start one with: {hint('up', port)} --detach")
    return stack


def logs(port: int, *, follow: bool, lines: int) -> None:
    """Prints the last lines of each log, and with `follow` what is added, until Ctrl-C."""
    files = _log_files(port)
    if not files:
        fail(f"there are no logs of a stack on port {port}")
    width = max(len(file.stem) for file in files)
    position: dict[Path, int] = {}
    for file in files:
        content = file.read_bytes()
        position[file] = len(content)
        for line in content.decode(errors="replace").splitlines()[-lines:] if lines else ():
            print(f"{file.stem:{width}} | {harmless(line)}")
    with contextlib.suppress(KeyboardInterrupt):
        while follow:
            for file in _log_files(port):
                start = position.get(file, 0)
                added = file.read_bytes()[start:]
                whole = added[: added.rfind(b"\n") + 1]
                position[file] = start + len(whole)
                for line in whole.decode(errors="replace").splitlines():
                    print(f"{file.stem:{width}} | {harmless(line)}", flush=True)
            time.sleep(WATCH_SECONDS)


def _log_files(port: int) -> list[Path]:
    supervisor = state.stack_log(port)
    return [*([supervisor] if supervisor.exists() else []), *sorted(state.logs_folder(port).glob("*.log"))]


def _ended_by_itself(port: int) -> str:
    """Returns a hint at the log if a detached stack on this port has ended by itself, not by a command; else
    nothing."""
    log = state.stack_log(port)
    if not log.exists() or log.read_text(errors="replace", encoding="utf-8").rstrip().endswith(ENDED):
        return ""
    return f" (the last one ended by itself: see {log.relative_to(state.ROOT)})"


def _wait_until_gone(stack: StackState, seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while any(process.is_running() for process in (stack.supervisor, *stack.children.values())):
        if time.monotonic() > give_up:
            return False
        time.sleep(WATCH_SECONDS)
    return True


def hint(command: str, port: int) -> str:
    """Returns the command line for the stack on this port."""
    return f"./dev {command}" + (f" --port {port}" if port != DEFAULT_PORT else "")
