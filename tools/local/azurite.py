"""Azurite, the storage emulator from npm: a process each for blobs, queues and tables, or one for all.

There are three processes where data is kept or speed is measured: Azurite is single-threaded, so a busy table would
slow the queues down. A single process takes a third of the CPU and memory before its first request. All are started
with telemetry off, and with `azurite-preload.cjs`; its comments say what it works around. With `STOCK_AZURITE`, a
folder in which npm has installed Azurite, that one runs as it comes: slower, and without faults.
"""

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from tools.local.child import Child

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The well-known key of the emulator's account: public, protects nothing."""

Fault = Literal["refuse", "cut", "lose", "none"]
SERVICES = ("blob", "queue", "table")
READY_SECONDS = 60

_TOOLS = Path(__file__).resolve().parents[1]
_STOCK = os.environ.get("STOCK_AZURITE")
_LISTENING = r"listening at \S+:(\d+)" if _STOCK else r"listening on port (\d+)"
_PRELOAD = Path(__file__).resolve().parent / "azurite-preload.cjs"


class Azurite:
    """A running Azurite. Use `Azurite.start` in a `with` statement, or call `stop`."""

    def __init__(self, children: Mapping[str, Child], ports: Mapping[str, int], cleanup: contextlib.ExitStack) -> None:
        self._children = children
        self.ports = dict(ports)
        """Port of each of `SERVICES`."""
        self._cleanup = cleanup

    @classmethod
    def start(
        cls,
        *,
        in_memory: bool = False,
        apart: bool = False,
        data: Path | None = None,
        logs: Path | None = None,
        ports: Mapping[str, int] | None = None,
        arguments: Sequence[str] = (),
        preloads: Sequence[Path] = (),
        accounts: Sequence[str] = (),
    ) -> Self:
        """Starts it and waits until it listens.

        `in_memory` keeps nothing on disk, and is one process, unless the services are to be `apart`; otherwise the
        data lies in the folder `data` and is there again at the next start. `logs` is a folder (default: a temporary
        one). `ports` names a port for each of `SERVICES` (default: any free ones). `arguments` are further ones of
        Azurite's own; `preloads` are further modules for node to load first; `accounts` are further
        accounts, of the same key.
        Raises ValueError if neither or both of `in_memory` and `data` are given, ChildError if a process fails.
        """
        if in_memory == (data is not None):
            raise ValueError("Azurite needs either in_memory=True or a data folder")
        known = ";".join(f"{name}:{ACCOUNT_KEY}" for name in (ACCOUNT, *accounts))
        processes: dict[str, Sequence[str]] = {"azurite": SERVICES}
        if not in_memory or apart:
            processes = {f"azurite-{service}": (service,) for service in SERVICES}
        with contextlib.ExitStack() as undo:
            scratch = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="azurite-")))
            started: dict[Sequence[str], Child] = {}
            for name, services in processes.items():
                location = (data or scratch) / "-".join(services)
                location.mkdir(parents=True, exist_ok=True)
                started[services] = Child.start(
                    name,
                    [
                        "node",
                        *(
                            word
                            for module in (*([] if _STOCK else [_PRELOAD]), *preloads)
                            for word in ("-r", str(module))
                        ),
                        *_argv(services, location, in_memory, ports or {}),
                        *arguments,
                    ],
                    log=(logs or scratch) / f"{name}.log",
                    env={"AZURITE_FOLLOWS_STDIN": "1", "AZURITE_ACCOUNTS": known},
                    cwd=location,
                )
                undo.callback(started[services].stop, grace=5)
            children: dict[str, Child] = {}
            listening: dict[str, int] = {}
            for services, child in started.items():
                ready = child.wait_for("(?s)" + ".*?".join([_LISTENING] * len(services)), READY_SECONDS)
                listening |= {service: int(port) for service, port in zip(services, ready.groups(), strict=True)}
                children |= dict.fromkeys(services, child)
            return cls(children, listening, undo.pop_all())

    @property
    def connection_string(self) -> str:
        """Connection string with the endpoints of all three services, for any of the storage SDKs."""
        return storage_connection_string(self.ports)

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each of `SERVICES`, which may be the same."""
        return {service: child.pid for service, child in self._children.items()}

    @property
    def children(self) -> dict[str, Child]:
        """The process of each of `SERVICES`, which may be the same."""
        return dict(self._children)

    def fail(self, service: str, kind: Fault, status: int = 0, code: str = "") -> None:
        """Lets one of `SERVICES` fail until `heal`: it refuses all requests with a status and an error code, cuts their
        connections, or carries them out and loses the answers."""
        fault = {"port": self.ports[service], "kind": kind, "status": status, "code": code}
        self._children[service].tell(json.dumps(fault))

    def heal(self, service: str) -> None:
        """Ends the failure of a service."""
        self.fail(service, "none")

    def stop(self) -> None:
        """Ends the processes, and waits until they have gone; data in a folder is written out."""
        for child in self._children.values():
            child.terminate()
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def storage_connection_string(ports: Mapping[str, int], account: str = ACCOUNT) -> str:
    """Returns the connection string of an account of an Azurite on this machine whose services listen on `ports`."""
    endpoints = "".join(
        f"{service.capitalize()}Endpoint=http://127.0.0.1:{ports[service]}/{account};" for service in SERVICES
    )
    return f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={ACCOUNT_KEY};{endpoints}"


def _argv(services: Sequence[str], location: Path, in_memory: bool, ports: Mapping[str, int]) -> list[str]:
    scripts = Path(_STOCK or _TOOLS) / "node_modules" / "azurite" / "dist" / "src"
    script = scripts / services[0] / "main.js" if len(services) == 1 else scripts / "azurite.js"
    if not script.exists():
        raise FileNotFoundError(f"{script} is not there: run `npm ci` (or any ./dev command) first")
    addresses = [
        word
        for service in services
        for word in (f"--{service}Host", "127.0.0.1", f"--{service}Port", str(ports.get(service) or _any_port()))
    ]
    return [
        str(script),
        *addresses,
        *(["--inMemoryPersistence"] if in_memory else ["--location", str(location)]),
        "--disableTelemetry",
        "--skipApiVersionCheck",
        "--silent",
    ]


def _any_port() -> int:
    """Returns any port; for Azurite as it comes a free one, since it does not say which one it got."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1]) if _STOCK else 0
