"""The host: what the functions of an app need to be served, started and stopped together.

At its start it first starts the listeners, then tries to take the locks of timers, and opens its port when each has
been tried once. It stops on a signal, and when a listener asks for it: it refuses connections at once, lets calls and
then messages end for a while, and leaves the rest to be delivered again.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.local.host.asgi import BODY_LIMIT, HttpApp, PathMode
from tools.local.host.blobs import TimerBlobs
from tools.local.host.config import HostConfig
from tools.local.host.connections import HOST_STORAGE, Connections
from tools.local.host.errors import HostError
from tools.local.host.functions import HttpTrigger, IndexedFunction, QueueTrigger, TimerTrigger
from tools.local.host.ncrontab import parse_schedule
from tools.local.host.queues import QueueListener
from tools.local.host.routes import Router, parse_route
from tools.local.host.serving import HttpServer, bind
from tools.local.host.settings import positive, resolve
from tools.local.host.sign_in import SignInPage
from tools.local.host.timers import TimerListener
from tools.local.host.times import Times
from tools.local.host.workers import Launch, Workers

_HOST_ID = ("AzureFunctionsWebHost__hostid", "local")
"""The app setting that names the app whose hosts share the locks of its timers, and its default."""
_GROUP = "FUNCTIONS_TARGET_GROUP"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Options of a host, besides the configuration of the app."""

    address: str = "127.0.0.1"
    port: int = 7071
    """The port to listen on; 0 takes any free one."""
    path_mode: PathMode = "azure"
    times: Times = field(default_factory=Times)
    sign_in_codes: Path | None = None
    """Folder of the codes that the host's own sign-in page redeems; None: there is no such page."""


@dataclass(frozen=True)
class Started:
    """What a host reports when it takes requests."""

    port: int
    functions: Sequence[IndexedFunction]
    problem: str
    """Why there are no functions, if the app could not be imported."""


class Host:
    """Serves the functions of an app."""

    def __init__(self, launch: Launch, config: HostConfig, settings: Mapping[str, str], options: HostOptions) -> None:
        """Must be called in the event loop that the host will run in. `launch` starts the app's process, `settings` are
        the app settings. Raises HostError if one of these is wrong."""
        self._config = config
        self._settings = settings
        self._options = options
        self._stopping = asyncio.Event()
        times = options.times
        self._workers = Workers(launch, timeout=config.function_timeout, times=times, stop=self._shut_down)
        self._connections = Connections(settings, times)
        self._body_limit = positive(settings, "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT") or BODY_LIMIT
        self._listeners: list[QueueListener | TimerListener] = []

    def stop(self) -> None:
        """Ends the host in order."""
        self._stopping.set()

    async def serve(self, ready: Callable[[Started], None]) -> None:
        """Serves until `stop` is called or something ends the host. `ready` is called once requests are taken. Raises
        HostError if the port is taken, or a function cannot be served as it is declared and configured."""
        listener = bind(self._options.address, self._options.port)
        listening: list[asyncio.Task[None]] = []
        try:
            starting = asyncio.create_task(self._workers.start())
            if not await self._unless_stopped(starting):
                return
            indexed = starting.result()
            server = HttpServer(self._app(indexed.functions), listener)
            self._make_listeners(indexed.functions)
            listening = [asyncio.create_task(each.run()) for each in self._listeners]
            if await self._unless_stopped(asyncio.gather(*(timer.tried.wait() for timer in self._timers()))):
                await server.open()
                ready(Started(listener.getsockname()[1], indexed.functions, indexed.problem))
                await self._stopping.wait()
            _log.info("Stopping")
            await server.close(self._options.times.calls)
            await self._end_messages(self._options.times.messages)
        finally:
            for task in listening:
                task.cancel()
            results = await asyncio.gather(*listening, return_exceptions=True)
            await self._workers.close()
            await asyncio.gather(*(timer.release() for timer in self._timers()))
            await self._connections.close()
            listener.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _app(self, functions: Sequence[IndexedFunction]) -> HttpApp | SignInPage:
        routes = []
        for function in functions:
            if isinstance(function.trigger, HttpTrigger):
                route = resolve(function.trigger.route, self._settings, function.name)
                routes.append(parse_route(function.name, self._config.route_prefix, route, function.trigger.methods))
        app = HttpApp(
            {function.name: function for function in functions},
            Router(routes),
            self._workers,
            path_mode=self._options.path_mode,
            body_limit=self._body_limit,
        )
        return app if self._options.sign_in_codes is None else SignInPage(app, self._options.sign_in_codes)

    def _timers(self) -> list[TimerListener]:
        return [each for each in self._listeners if isinstance(each, TimerListener)]

    def _make_listeners(self, functions: Sequence[IndexedFunction]) -> None:
        """Makes the listeners of all functions, or of those that FUNCTIONS_TARGET_GROUP names."""
        group = self._settings.get(_GROUP, "")
        for function in functions:
            made = self._listener(function)
            if made is not None and (not group or group == f"function:{function.name}"):
                self._listeners.append(made)

    def _listener(self, function: IndexedFunction) -> QueueListener | TimerListener | None:
        match function.trigger:
            case QueueTrigger(queue=queue, connection=connection):
                return QueueListener(
                    function,
                    self._connections.queue_service(resolve(connection, self._settings, function.name), function.name),
                    resolve(queue, self._settings, function.name),
                    self._config.queues,
                    self._workers,
                    take=self._options.times.take,
                    jitter=random.random,
                    stop=self._shut_down,
                )
            case TimerTrigger(schedule=schedule):
                try:
                    parsed = parse_schedule(resolve(schedule, self._settings, function.name))
                except ValueError as error:
                    raise HostError(f"function {function.name}: its schedule is not valid: {error}") from None
                blobs = self._connections.blob_service(HOST_STORAGE, function.name)
                return TimerListener(
                    function,
                    parsed,
                    self._workers,
                    TimerBlobs(blobs, self._settings.get(*_HOST_ID)),
                    lease=self._options.times.lease,
                    jitter=random.random,
                    stop=self._shut_down,
                )
            case HttpTrigger():
                return None

    def _shut_down(self, why: str) -> None:
        """Ends the host because a listener or the app's process asks for it."""
        _log.critical("An unhandled exception has occurred. Host is shutting down. %s", why)
        self.stop()

    async def _unless_stopped(self, work: asyncio.Future[Any]) -> bool:
        """Waits for the work. If the host is stopped before it is done, cancels it and returns False."""
        stopped: asyncio.Future[Any] = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        (work if self._stopping.is_set() else stopped).cancel()
        return not self._stopping.is_set()

    async def _end_messages(self, seconds: float) -> None:
        """Waits until no queue function and no timer runs, at most `seconds`. Messages are still taken meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while running := {task for each in self._listeners for task in each.running}:
            if loop.time() >= until:
                _log.warning("%d messages are left to be delivered again", len(running))
                return
            await asyncio.wait(running, timeout=until - loop.time())
