"""What `./dev up` does: run a stack in the foreground, or start one apart."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from tools.local import state
from tools.local.appsettings import AppSettingsError
from tools.local.child import ChildError
from tools.local.control import ENDED, fail, hint, say
from tools.local.ports import Ports, PortTakenError
from tools.local.stack import Stack, StackOptions, already_runs
from tools.local.state import StackState

START_SECONDS = 150
WATCH_SECONDS = 0.1


def options(port: int, *, hosts: int = 1, **more: Any) -> StackOptions:
    """Options of the wanted stack (`more` are fields of StackOptions). Ends the program with a message if the ports are
    impossible."""
    try:
        ports = Ports.derive(port, hosts)
    except ValueError as error:
        fail(str(error))
    return StackOptions(ports, **more)


def up(wanted: StackOptions, *, with_parent: bool = True) -> None:
    """Runs a stack until a signal comes, the process that started this one has gone, or a part fails."""
    port = wanted.ports.api
    if with_parent:
        end_with_parent()
    try:
        with interruptible(), Stack.start(wanted, say) as stack:
            if with_parent:
                state.stack_log(port).unlink(missing_ok=True)  # of an earlier stack that was detached
            say(_where(wanted, stack.environment))
            say(f"Logs: {hint('logs', port)}. Ctrl-C ends the stack.")
            stack.supervise(threading.Event(), say)
    except KeyboardInterrupt:
        say(ENDED)
    except (ChildError, PortTakenError, AppSettingsError) as error:
        fail(str(error))


def up_detached(wanted: StackOptions) -> None:
    """Starts a stack in a process of its own and returns when it is ready."""
    port = wanted.ports.api
    if StackState.load(port) is not None:
        fail(already_runs(wanted))
    try:
        wanted.ports.check_free(with_host=wanted.with_host, uploads=wanted.uploads)
    except PortTakenError as error:
        fail(str(error))
    log = state.stack_log(port)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tools.local.cli", "up", "--port", str(port), "--apart"]
    command += ["--hosts", str(len(wanted.ports.hosts)), "--app-dir", str(wanted.app_dir)]
    command += [word for name in wanted.subscriptions for word in ("--subscription", name)]
    command += ["--core-tools-paths"] * (not wanted.azure_paths) + ["--fresh"] * wanted.fresh
    command += ["--no-host"] * (not wanted.with_host) + ["--uploads"] * wanted.uploads
    command += ["--by-group"] * wanted.by_group
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=state.ROOT,
            start_new_session=True,
        )
    give_up = time.monotonic() + START_SECONDS
    while True:
        running = StackState.load(port)
        if running is not None and running.supervisor.pid == process.pid:
            break
        if process.poll() is not None:
            said = log.read_text(encoding="utf-8")
            fail(f"the stack did not start: {(said.partition('./dev: ')[2] or said).rstrip()}")
        if time.monotonic() > give_up:
            process.terminate()
            fail(f"the stack was not ready after {START_SECONDS} s; see {log}")
        time.sleep(WATCH_SECONDS)
    process.returncode = 0  # it goes on by itself
    say(_where(wanted, running.environment))
    say(f"Logs: {hint('logs', port)}. It ends with: {hint('down', port)}")


def _where(wanted: StackOptions, environment: Mapping[str, str]) -> str:
    """Returns where the stack is, and what clients, or a host that somebody else starts, need."""
    port = wanted.ports.api
    if wanted.with_host:
        root_url = environment["TASKCLUSTER_ROOT_URL"]
        return (
            f"The API is at {root_url}; for clients: {hint('env', port)}\n"
            f"The console is at {root_url}/; signed in: {hint('ui', port)}"
        )
    host = f"func start --port {port}, or .venv/bin/python -m tools.local.host --port {port}"
    return f"Storage and Service Bus run, without a host. With local.settings.json: {host}"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt; later ones don't disturb the orderly end."""
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def end_with_parent() -> None:
    """Ends this process in order when its parent ends: the process that started it cannot end it any more."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
