"""The app's process: imports function_app.py, and runs its functions when the host's process asks for it.

In the platform's words it is the language worker. It ends at once when the host has: what runs is told nothing.
"""

import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from azure.functions.meta import Datum

from tools.local.host.context import TraceContext
from tools.local.host.errors import HostError
from tools.local.host.functions import IndexedFunction, index
from tools.local.host.invocation import InvocationFailed, Invoker
from tools.local.host.loading import AppEnds, load_app
from tools.local.host.wire import Wire


@dataclass(frozen=True)
class Indexed:
    """The first message of a process: its functions, and why there are none if the app could not be imported."""

    functions: list[IndexedFunction]
    problem: str = ""
    ends: bool = False
    """Whether the app has asked for the end of its process."""


@dataclass(frozen=True)
class Call:
    """A request of the host for a run of a function."""

    number: int
    function: str
    payload: Datum
    metadata: Mapping[str, Datum]
    trace: TraceContext | None


@dataclass(frozen=True)
class Result:
    """The outcome of a call: its encoded return value, unless it failed."""

    number: int
    failed: bool = False
    answer: Datum | None = None


class App:
    """The app of a folder, which runs the functions that the host asks for, and sends their outcomes."""

    def __init__(self, directory: Path, threads: int | None) -> None:
        """Imports the app. `threads` is the number of threads for synchronous functions (None: Python's default)."""
        self._indexed = _load(directory)
        self._functions = {function.name: function for function in self._indexed.functions}
        self._invoker = Invoker(threads=threads)
        self._running: set[asyncio.Task[None]] = set()
        self.send: Callable[[object], None]
        """Sends a message to the host; to be set before the first call."""

    def announce(self) -> None:
        """Reports to the host which functions there are."""
        described = [replace(function, call=_elsewhere) for function in self._indexed.functions]
        self.send(replace(self._indexed, functions=described))

    def begin(self, call: Call) -> None:
        """Begins to run a function, beside others."""
        task = asyncio.create_task(self._run(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, call: Call) -> None:
        try:
            function = self._functions[call.function]
            answer = await self._invoker.invoke(function, call.payload, call.metadata, call.trace)
        except InvocationFailed:
            self.send(Result(call.number, failed=True))
        else:
            self.send(Result(call.number, answer=answer))


def work(connection: socket.socket, directory: Path, threads: int | None) -> None:
    """Serves the host's process at the other end of the connection, until that end is closed."""
    asyncio.run(_serve(connection, App(directory, threads)))


async def _serve(connection: socket.socket, app: App) -> NoReturn:
    _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(app.begin, _end), sock=connection)
    app.send = wire.send
    app.announce()
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def _load(directory: Path) -> Indexed:
    try:
        return Indexed(index(load_app(directory)))
    except HostError as error:
        return Indexed([], str(error), ends=isinstance(error, AppEnds))
    except Exception:
        return Indexed([], traceback.format_exc().rstrip())


def _elsewhere(*_: Any, **__: Any) -> NoReturn:
    """Stands for the function itself in the host's process, where it must not be called."""
    raise AssertionError("functions run in the app's process")


def _end() -> NoReturn:
    sys.stdout.flush()
    os._exit(0)
