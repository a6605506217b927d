"""The local stack: Azurite, the broker and one or more hosts, started together and ended together.

The process that starts it supervises it: a host that ends is started again (as Azure would), anything else that
ends takes the stack down. `.local/<port>/` holds its data, its logs and its state.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobServiceClient, CorsRule
from azure.storage.queue import QueueServiceClient

from shared.auth.clients.rows import ROOT_CLIENT_ID
from shared.queue.events.exchanges import TOPICS
from tools.local import appsettings, handover, state
from tools.local.azurite import Azurite
from tools.local.child import Child, ChildError
from tools.local.entities import QUEUES
from tools.local.ports import Ports
from tools.local.service_bus import ServiceBus
from tools.local.state import ProcessIdentity, StackState

HOST_MODULE = "HOST_MODULE"
"""Variable with the module that serves the app, if it is not `tools.local.host`."""
HOST_READY = r"local host: (\d+) functions on http://\S+ \((.*)\)"
HOST_READY_SECONDS = 60
HOST_STOP_SECONDS = 45
"""Seconds that a host may take to stop: longer than it waits for calls and messages."""
HOST_END_SECONDS = 12
"""Seconds that a host may take to stop when the whole stack ends, and nobody waits for calls and messages."""
WATCH_SECONDS = 0.2
DATA = "data"
"""Name of the folder of Azurite's data, inside the stack's."""


Place = int | str
"""A host: its port or, where hosts are started by group, the name of its function."""


@dataclass(frozen=True)
class App:
    """A function app, and settings that its hosts have besides the stack's."""

    folder: Path
    """Where function_app.py and host.json are."""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StackOptions:
    """Options of a stack."""

    ports: Ports
    azure_paths: bool = True
    """Whether hosts treat paths as deployed Functions do; else they treat them as Core Tools do (design 8)."""
    with_host: bool = True
    """Whether hosts are started, and not only storage and broker for a host that somebody else starts."""
    subscriptions: tuple[str, ...] = ()
    """Match-all subscriptions declared on every topic."""
    in_memory: bool = False
    """Whether no data is kept on disk."""
    storage_apart: bool = False
    """Whether each service of storage has a process of its own even if no data is kept."""
    fresh: bool = False
    """Whether the data of an earlier stack on this port is removed first."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds that replace the platform's times (`tools.local.host.times`)."""
    by_group: bool = False
    """Whether hosts are started as Flex Consumption does: those on the stack's ports serve HTTP alone, and each queue
    function and timer has one of its own, on any port."""
    app_dir: Path = state.ROOT
    """Folder of function_app.py and host.json."""
    host_python: Path = Path(sys.executable)
    """The Python interpreter of the hosts."""
    host_dir: Path = state.ROOT
    """The folder from which hosts import `local`."""
    app_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that win over the environment and over local.settings.json."""
    root_url: str | None = None
    """The URL at which clients find the stack, if something stands in front of its hosts."""
    uploads: bool = False
    """Whether one more host is started: the app that takes relayed uploads (`uploadsApp`)."""


class Stack:
    """A running stack. Made by `Stack.start`; a context manager that stops it."""

    def __init__(
        self,
        options: StackOptions,
        settings: dict[str, str],
        azurite: Azurite,
        service_bus: ServiceBus,
        cleanup: contextlib.ExitStack,
    ) -> None:
        self.options = options
        self.azurite = azurite
        self.service_bus = service_bus
        self._settings = settings
        self._cleanup = cleanup
        self._hosts: dict[Place, Child] = {}
        self._apps: dict[Place, App] = {}
        """By port: the app of a host that does not serve the stack's own app."""
        self._lock = threading.RLock()
        self.restarts = 0
        """How often a host has ended and was started again."""

    @classmethod
    def start(cls, options: StackOptions, say: Callable[[str], None] = lambda _: None) -> Self:
        """Starts everything and waits until the hosts answer.

        Raises PortTakenError, AppSettingsError or ChildError (a part did not start; its last output is in the
        message); nothing is left running then.
        """
        ports = options.ports
        running = StackState.load(ports.api)
        if running is not None:
            raise ChildError(already_runs(options))
        file_values = appsettings.read_settings_file(options.app_dir / appsettings.SETTINGS_FILE)
        ports.check_free(with_host=options.with_host, uploads=options.uploads)
        folder = state.folder(ports.api)
        if options.fresh:
            shutil.rmtree(folder / DATA, ignore_errors=True)
        shutil.rmtree(state.logs_folder(ports.api), ignore_errors=True)
        settings = appsettings.collect(
            generated=appsettings.new_secrets() if options.in_memory else appsettings.stack_secrets(folder),
            file=file_values,
            environment=os.environ,
            decided={**(appsettings.with_uploads(ports) if options.uploads else {}), **options.app_settings},
        )
        with contextlib.ExitStack() as undo:
            undo.callback(state.state_path(ports.api).unlink, missing_ok=True)
            undo.callback(shutil.rmtree, folder / handover.FOLDER, ignore_errors=True)  # no credentials outlive it
            say("starting Azurite (blobs, queues, tables)")
            azurite = undo.enter_context(_start_azurite(options))
            say("starting the Service Bus broker")
            service_bus = undo.enter_context(_start_service_bus(options, settings))
            settings |= appsettings.addresses(ports, azurite.connection_string, service_bus.connection_string)
            if options.root_url is not None:
                settings["TASKCLUSTER_ROOT_URL"] = options.root_url
            stack = cls(options, settings, azurite, service_bus, contextlib.ExitStack())
            undo.callback(stack.stop_hosts)
            if options.with_host:
                say(f"starting the Functions host on port {ports.api}")
                stack._launch_all()
            stack._save_state()
            stack._cleanup = undo.pop_all()
        return stack

    def _own_ports(self) -> Sequence[int]:
        """Returns the ports of all hosts. The one that takes uploads serves the stack's own app with other settings."""
        if not self.options.uploads:
            return self.options.ports.hosts
        settings = appsettings.of_uploads()
        self._apps[self.options.ports.uploads] = App(self.options.app_dir, settings)
        return [*self.options.ports.hosts, self.options.ports.uploads]

    @property
    def environment(self) -> dict[str, str]:
        """Returns what a client of this stack needs in its environment."""
        return {
            "TASKCLUSTER_ROOT_URL": self._settings["TASKCLUSTER_ROOT_URL"],
            "TASKCLUSTER_CLIENT_ID": ROOT_CLIENT_ID,
            "TASKCLUSTER_ACCESS_TOKEN": self._settings["ROOT_ACCESS_TOKEN"],
            "AZURE_STORAGE_CONNECTION_STRING": self.azurite.connection_string,
            "SERVICEBUS_CONNECTION_STRING": self.service_bus.connection_string,
            **({"TOPIC_PREFIX": self.topic_prefix} if self.topic_prefix else {}),
        }

    @property
    def topic_prefix(self) -> str:
        """Prefix of the names of the topics."""
        return _topic_prefix(self._settings)

    @property
    def places(self) -> list[Place]:
        """Returns all hosts."""
        with self._lock:
            return list(self._hosts)

    def host(self, place: Place) -> Child:
        """Returns the process of a host."""
        with self._lock:
            return self._hosts[place]

    def app_pid(self, place: Place | None = None) -> int | None:
        """Returns the id of the process in which a host (default: the API's) runs the app; None if there is none."""
        pid = self.host(self.options.ports.api if place is None else place).pid
        return next((app for forking in _children(pid) for app in _children(forking)), None)

    def start_host(self, place: Place | None = None) -> None:
        """Starts a host (default: that on the API's port) and waits until it answers. Raises ChildError."""
        with self._lock:
            self._launch([self.options.ports.api if place is None else place])
            self._save_state()

    def stop_host(self, place: Place | None = None, *, kill: bool = False, grace: float = HOST_STOP_SECONDS) -> None:
        """Ends a host, in order or at once; unless supervised, it stays away until started again."""
        with self._lock:
            self._hosts.pop(self.options.ports.api if place is None else place).stop(0 if kill else grace)

    def replace_app(self, port: int, app: App, *, kill: bool = False) -> None:
        """Ends the host on this port, and serves this app there from now on. Raises ChildError."""
        with self._lock:
            self.stop_host(port, kill=kill)
            self._apps[port] = app
            self.start_host(port)

    def stop_hosts(self) -> None:
        """Ends all hosts, in order."""
        for child in self._hosts.values():
            child.terminate()
        for place in self.places:
            self.stop_host(place, grace=HOST_END_SECONDS)

    def supervise(self, stop: threading.Event, say: Callable[[str], None]) -> None:
        """Watches over the stack until `stop` is set. Raises ChildError when a part ends that cannot be replaced."""
        while not stop.wait(WATCH_SECONDS):
            for child in (*self.azurite.children.values(), self.service_bus.child):
                if child.poll() is not None:
                    raise ChildError(f"{child.name} ended with exit code {child.poll()}:\n{child.tail()}")
            self._bring_back(say)

    @contextlib.contextmanager
    def supervised(self, say: Callable[[str], None]) -> Iterator[None]:
        """Supervises in a thread until the context ends. Raises at its end what that has failed with."""
        enough = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            supervision = threads.submit(self.supervise, enough, say)
            try:
                yield
            finally:
                enough.set()
            supervision.result()

    def stop(self) -> None:
        """Ends everything, the hosts first, and forgets the state."""
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _bring_back(self, say: Callable[[str], None]) -> None:
        """Starts every host again that has ended, all at once: they may have ended together."""
        with self._lock:
            ended = {place: code for place, child in self._hosts.items() if (code := child.poll()) is not None}
            if not ended:
                return
            for place, code in ended.items():
                say(f"the host {_named(place)} ended (exit code {code}); starting it again")
                self.stop_host(place)
            self._begin(list(ended))
            back = [place for place in ended if self._is_back(self._hosts[place])]
            self._save_state()
        self.restarts += len(ended)
        for place in back:
            say(f"the host {_named(place)} is back")

    def _is_back(self, host: Child) -> bool:
        """Waits until the host responds. Returns False if it ended before: storage may refuse what it asks for.

        Raises ChildError if it cannot start.
        """
        try:
            _wait_for(host)
        except ChildError:
            code = host.poll()
            if code is None or code > 0:
                raise
            return False
        return True

    def _launch(self, places: Sequence[Place]) -> list[str]:
        """Starts hosts side by side and waits for all; a host that fails leaves itself in its log only.

        Returns the names of the app's functions that no HTTP request triggers.
        """
        self._begin(places)
        return [names for place in places for names in _wait_for(self._hosts[place])]

    def _launch_all(self) -> None:
        functions = self._launch(self._own_ports())
        if self.options.by_group:
            self._launch(sorted(set(functions)))

    def _begin(self, places: Sequence[Place]) -> None:
        for place in places:
            app = self._apps.get(place, App(self.options.app_dir))
            group = {}
            if self.options.by_group:
                group = {"FUNCTIONS_TARGET_GROUP": "http" if isinstance(place, int) else f"function:{place}"}
            self._hosts[place] = Child.start(
                f"host-{place}",
                _host_argv(self.options, place if isinstance(place, int) else 0, app.folder),
                log=state.logs_folder(self.options.ports.api) / f"host-{place}.log",
                env={**self._settings, **app.settings, **group},
                cwd=self.options.host_dir,
                stop_signal=signal.SIGINT,  # hosts ignore SIGTERM
            )

    def _save_state(self) -> None:
        children: dict[str, ProcessIdentity] = {}
        for child in (*self.azurite.children.values(), self.service_bus.child, *self._hosts.values()):
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and `supervise` will see it
                children[child.name] = ProcessIdentity.of(child.pid)
        StackState(
            port=self.options.ports.api,
            supervisor=ProcessIdentity.of(os.getpid()),
            children=children,
            environment=self.environment,
        ).save()


def _wait_for(host: Child) -> list[str]:
    """Waits until a host takes requests; returns the functions that no request triggers. Raises ChildError."""
    count, names = host.wait_for(HOST_READY, HOST_READY_SECONDS).groups()
    if int(count) == 0:
        raise ChildError(f"{host.name} serves no function:\n{host.tail()}")
    return str(names).split()


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]


def _named(place: Place) -> str:
    return f"on port {place}" if isinstance(place, int) else f"of function {place}"


def already_runs(options: StackOptions) -> str:
    """Returns why the wanted stack cannot be started beside one on its port, and what to do."""
    port = options.ports.api
    reason = "its data can be forgotten once it has ended" if options.fresh else "end it first"
    return f"a stack already runs on port {port}; {reason}: ./dev down --port {port}"


def _start_azurite(options: StackOptions) -> Azurite:
    folder = state.folder(options.ports.api)
    azurite = Azurite.start(
        in_memory=options.in_memory,
        apart=options.storage_apart,
        data=None if options.in_memory else folder / DATA,
        logs=state.logs_folder(options.ports.api),
        ports=options.ports.storage,
    )
    let_pages_read_artifacts(azurite.connection_string)
    with QueueServiceClient.from_connection_string(azurite.connection_string) as service:
        for queue in QUEUES:  # the infrastructure declares them as well: no host creates the queues of its triggers
            with contextlib.suppress(ResourceExistsError):
                service.create_queue(queue).close()
    return azurite


def let_pages_read_artifacts(connection_string: str) -> None:
    """Allows scripts of any site to read blobs by signed URLs, as the templates do in Azure."""
    shown = ["content-length", "content-range", "content-type", "content-encoding"]
    rule = CorsRule(
        ["*"],
        ["GET", "HEAD", "OPTIONS"],
        allowed_headers=["range"],
        exposed_headers=shown,
        max_age_in_seconds=3600,
    )
    with BlobServiceClient.from_connection_string(connection_string) as blobs:
        blobs.set_service_properties(cors=[rule])


def _start_service_bus(options: StackOptions, settings: Mapping[str, str]) -> ServiceBus:
    """Starts the broker with the topics that the infrastructure declares as well, under the app's prefix."""
    return ServiceBus.start(
        [_topic_prefix(settings) + topic for topic in TOPICS],
        subscriptions=options.subscriptions,
        port=options.ports.amqp,
        logs=state.logs_folder(options.ports.api),
        controlPort=options.ports.broker_control,
    )


def _topic_prefix(settings: Mapping[str, str]) -> str:
    return settings.get("TOPIC_PREFIX", os.environ.get("TOPIC_PREFIX", ""))


def _host_argv(options: StackOptions, port: int, app_dir: Path) -> list[str]:
    module = os.environ.get(HOST_MODULE, "tools.local.host")
    command = [str(options.host_python), "-m", "tools.local.tethered", module, "--port", str(port)]
    command += ["--app-dir", str(app_dir)]
    command += ["--sign-in-codes", str(state.folder(options.ports.api) / handover.FOLDER)]
    if options.times:
        command += ["--times", ",".join(f"{name}={seconds}" for name, seconds in options.times.items())]
    return command if options.azure_paths else [*command, "--core-tools-paths"]
