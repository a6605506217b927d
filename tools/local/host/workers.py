"""The app's process as the host sees it: calls go to it, and it is replaced when it has crashed or hangs.

What was running in a process that has crashed fails at once. The third crash, each within half an hour of the one
before, stops the host. A function that overruns functionTimeout takes its process with it: the process is replaced,
and what ran beside it gets no answer before its own time is over.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from azure.functions.meta import Datum

from tools.local.host.context import TraceContext
from tools.local.host.errors import HostError
from tools.local.host.forks import Forks
from tools.local.host.functions import IndexedFunction
from tools.local.host.invocation import InvocationFailed
from tools.local.host.times import Times
from tools.local.host.wire import Wire
from tools.local.host.worker import App, Call, Indexed, Result

_MOST_CRASHES = 3
_END_SECONDS = 1.0

_log = logging.getLogger(__name__)


class AppProcess(Protocol):
    """A process of the app that has been started (`tools.local.host.worker`)."""

    def send(self, call: Call, /) -> None:
        """Asks for a run of a function."""
        ...

    def close(self) -> None:
        """Lets the process end by itself, at once."""
        ...

    def kill(self) -> None:
        """Ends the process; does nothing if it has ended."""
        ...


Launch = Callable[[Callable[[Any], None], Callable[[], None]], Awaitable[AppProcess]]
"""Starts a process. The first argument is called with each message from it, the second when it has ended."""


def forking(forks: Forks) -> Launch:
    """Starts processes by `forks`."""

    async def launch(received: Callable[[Any], None], lost: Callable[[], None]) -> AppProcess:
        connection, pid = forks.start()
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: Wire(received, lost), sock=connection)
        return _Forked(wire, pid)

    return launch


class _Forked:
    def __init__(self, wire: Wire, pid: int) -> None:
        self._wire = wire
        self._pid = pid
        self.send, self.close = wire.send, wire.close

    def kill(self) -> None:
        if not self._wire.is_lost:
            os.kill(self._pid, signal.SIGKILL)


def here(directory: Path, threads: int | None) -> Launch:
    """Returns a launcher that starts no process: the app runs in the host's own, where a debugger sees it."""

    async def launch(received: Callable[[Any], None], lost: Callable[[], None]) -> AppProcess:
        app = App(directory, threads)
        app.send = received
        asyncio.get_running_loop().call_soon(app.announce)
        return _Here(app, lost)

    return launch


class _Here:
    def __init__(self, app: App, lost: Callable[[], None]) -> None:
        self.send, self.close, self.kill = app.begin, lost, lost


class _Process:
    """A process of the app, and the calls that run in it."""

    def __init__(self) -> None:
        self.indexed: asyncio.Future[Indexed] = asyncio.get_running_loop().create_future()
        self.calls: dict[int, asyncio.Future[Result]] = {}
        self.is_replaced = False
        self.gone = asyncio.Event()
        self.app: AppProcess

    def received(self, message: Any) -> None:
        if isinstance(message, Indexed):
            self.indexed.set_result(message)
        elif not self.is_replaced and (call := self.calls.pop(message.number, None)) and not call.done():
            call.set_result(message)


class Workers:
    """Runs functions in the app's process."""

    def __init__(self, launch: Launch, *, timeout: float | None, times: Times, stop: Callable[[str], None]) -> None:
        """Takes functionTimeout in seconds (None: no bound); `stop` is called if the host must end, with the reason."""
        self._launch = launch
        self._timeout = timeout
        self._times = times
        self._stop = stop
        self._current: asyncio.Future[_Process] = asyncio.get_running_loop().create_future()
        self._numbers = itertools.count()
        self._crashes: list[float] = []
        self._next_start = 0.0
        self._is_started = False
        self._alive: set[_Process] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start(self) -> Indexed:
        """Returns the app's functions. Raises HostError if its process ends while it imports the app."""
        indexed = (await self._begin()).indexed.result()
        if indexed.ends:
            raise HostError(indexed.problem)
        self._is_started = True
        return indexed

    async def invoke(
        self,
        function: IndexedFunction,
        payload: Datum,
        metadata: Mapping[str, Datum] | None = None,
        trace: TraceContext | None = None,
    ) -> Datum | None:
        """Runs a function in the app's process as `Invoker.invoke` does. Waits if there is no process just now."""
        process = await asyncio.shield(self._current)
        number = next(self._numbers)
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        process.calls[number] = result
        process.app.send(Call(number, function.name, payload, metadata or {}, trace))
        await asyncio.wait({result}, timeout=self._timeout)
        if not result.done():
            _log.error("Function %s: timeout value of %s s exceeded", function.name, self._timeout)
            await asyncio.wait({result}, timeout=self._times.grace)
            process.calls.pop(number, None)
            if not result.done() and not process.is_replaced:
                await self._replace(process)
            raise InvocationFailed(function.name)
        if result.result().failed:
            raise InvocationFailed(function.name)
        return result.result().answer

    async def close(self) -> None:
        """Ends all processes; what runs in them is told nothing."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        left = list(self._alive)
        for process in left:
            process.app.close()
        if left:
            await asyncio.wait([asyncio.create_task(each.gone.wait()) for each in left], timeout=_END_SECONDS)
        for process in left:
            process.app.kill()

    async def _begin(self) -> _Process:
        process = _Process()
        process.app = await self._launch(process.received, lambda: self._lost(process))
        self._alive.add(process)
        ended = asyncio.create_task(process.gone.wait())
        waiting: set[asyncio.Future[Any]] = {process.indexed, ended}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if process.gone.is_set():
            raise HostError("function_app.py ended its process when it was imported")
        self._current.set_result(process)
        return process

    async def _replace(self, process: _Process) -> None:
        """Starts another process. The old one is killed later, and its answers count no more."""
        process.is_replaced = True
        self._current = asyncio.get_running_loop().create_future()
        self._spawn(self._restart())
        await asyncio.sleep(self._times.kill)
        process.app.kill()

    def _lost(self, process: _Process) -> None:
        process.gone.set()
        self._alive.discard(process)
        if self._is_closed or process.is_replaced or not self._is_started:
            return
        _log.error("The app's process ended with %d calls", len(process.calls))
        for number, call in process.calls.items():
            call.set_result(Result(number, failed=True))
        process.calls.clear()
        now = asyncio.get_running_loop().time()
        if self._crashes and now - self._crashes[-1] > self._times.crashes:
            self._crashes.clear()
        self._crashes.append(now)
        if self._current.done():
            self._current = asyncio.get_running_loop().create_future()
        if len(self._crashes) < _MOST_CRASHES:
            self._spawn(self._restart())
        else:
            self._stop("Exceeded language worker restart retry count. Shutting down and proactively recycling the host")

    async def _restart(self) -> None:
        now = asyncio.get_running_loop().time()
        pause, self._next_start = max(0.0, self._next_start - now), max(self._next_start, now) + self._times.restart
        await asyncio.sleep(pause)
        with contextlib.suppress(HostError):  # it counts as a crash
            await self._begin()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
