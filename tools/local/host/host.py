"""The host: what the functions of an app need to be served, started and stopped together."""

import asyncio
import contextlib
import errno
import logging
import random
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from tools.local.host.asgi import BODY_LIMIT, HttpApp, PathMode
from tools.local.host.config import HostConfig
from tools.local.host.connections import Connections
from tools.local.host.errors import HostError
from tools.local.host.functions import HttpTrigger, IndexedFunction, QueueTrigger, TimerTrigger
from tools.local.host.invocation import Invoker
from tools.local.host.ncrontab import parse_schedule
from tools.local.host.queues import TAKE_SECONDS, QueueListener
from tools.local.host.routes import Router, parse_route
from tools.local.host.settings import resolve
from tools.local.host.sign_in import SignInPage
from tools.local.host.timers import TimerListener

_KEEP_ALIVE_SECONDS = 130
"""As Kestrel's."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """How this host runs, beside what the app says. Times in seconds."""

    address: str = "127.0.0.1"
    port: int = 7071
    """0 for any free one."""
    path_mode: PathMode = "azure"
    take_visibility: int = TAKE_SECONDS
    """How long a message is hidden when it is taken; tests of lost hosts shorten it."""
    grace: float = 5.0
    """How long running functions may go on when the host is stopped."""
    sign_in_codes: Path | None = None
    """Folder of the codes that the host's own sign-in page redeems; None: there is no such page."""


class Host:
    """Serves the functions of an app."""

    def __init__(
        self,
        functions: Sequence[IndexedFunction],
        config: HostConfig,
        settings: Mapping[str, str],
        options: HostOptions,
    ) -> None:
        """To be made in the event loop that it will run in. `settings` are the app settings.

        Raises HostError naming the function if a function cannot be served as it is declared and configured.
        """
        self._options = options
        self._invoker = Invoker(
            timeout=config.function_timeout, threads=_positive(settings, "PYTHON_THREADPOOL_THREAD_COUNT")
        )
        self._connections = Connections(settings)
        self._queues: list[QueueListener] = []
        self._timers: list[TimerListener] = []
        routes = []
        for function in functions:
            match function.trigger:
                case HttpTrigger(route=route, methods=methods):
                    route = resolve(route, settings, function.name)
                    routes.append(parse_route(function.name, config.route_prefix, route, methods))
                case QueueTrigger():
                    self._queues.append(self._queue_listener(function, function.trigger, config, settings))
                case TimerTrigger():
                    self._timers.append(self._timer_listener(function, function.trigger, settings))
        app = HttpApp(
            {function.name: function for function in functions},
            Router(routes),
            self._invoker,
            path_mode=options.path_mode,
            body_limit=_positive(settings, "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT") or BODY_LIMIT,
        )
        self._app = app if options.sign_in_codes is None else SignInPage(app, options.sign_in_codes)

    def _queue_listener(
        self, function: IndexedFunction, trigger: QueueTrigger, config: HostConfig, settings: Mapping[str, str]
    ) -> QueueListener:
        return QueueListener(
            function,
            self._connections.queue_service(resolve(trigger.connection, settings, function.name), function.name),
            resolve(trigger.queue, settings, function.name),
            config.queues,
            self._invoker,
            take_visibility=self._options.take_visibility,
            jitter=random.random,
        )

    def _timer_listener(
        self, function: IndexedFunction, trigger: TimerTrigger, settings: Mapping[str, str]
    ) -> TimerListener:
        try:
            schedule = parse_schedule(resolve(trigger.schedule, settings, function.name))
        except ValueError as error:
            raise HostError(f"function {function.name}: its schedule is not valid: {error}") from None
        return TimerListener(function, schedule, self._invoker)

    async def serve(self, stop: asyncio.Event, ready: Callable[[int], None]) -> None:
        """Serve until `stop` is set, then let running functions end. `ready` gets the port once requests are taken.

        Raises HostError if the port is taken.
        """
        listener = listen(self._options.address, self._options.port)
        server = _Server(
            uvicorn.Config(
                self._app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, round(self._options.grace)),
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            listening = asyncio.create_task(server.listening.wait())
            await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
            listening.cancel()
            polling = [asyncio.create_task(queue.run()) for queue in self._queues]
            ticking = [asyncio.create_task(timer.run()) for timer in self._timers]
            ready(listener.getsockname()[1])
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({serving, stopped, *polling, *ticking}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            server.should_exit = True
            await self._stop(serving, polling, ticking)
        finally:
            self._invoker.close()
            await self._connections.close()

    async def _stop(
        self,
        serving: asyncio.Task[None],
        polling: Sequence[asyncio.Task[None]],
        ticking: Sequence[asyncio.Task[None]],
    ) -> None:
        _log.info("Stopping")
        for task in ticking:
            task.cancel()
        grace = self._options.grace
        await asyncio.gather(
            serving, *(queue.stop(grace) for queue in self._queues), *(timer.stop(grace) for timer in self._timers)
        )
        results = await asyncio.gather(*polling, *ticking, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result


class _Server(uvicorn.Server):
    """uvicorn, except that the host handles signals, and that one can wait until it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens there. Raises HostError."""
    try:
        listener = socket.create_server(
            (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=2048
        )
        # Inherited by its connections; asyncio sets it only on those of listeners that it has made itself.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise HostError(f"port {port} on {address} is taken; choose another one with --port") from None
        raise HostError(f"cannot listen on {address}, port {port}: {error.strerror}") from None


def _positive(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name)
    if not text:
        return None
    if not text.isdigit() or int(text) == 0:
        raise HostError(f"the app setting {name} must be a positive whole number")
    return int(text)
