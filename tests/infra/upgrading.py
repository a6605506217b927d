"""An upgrade on a stack under load: two packages of the app, a relay in front of the hosts, and hosts that change."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import requests

from tools.local import console_vendor, package
from tools.local.chaos.run import Chaos
from tools.local.stack import App
from tools.local.state import ROOT

VARIABLE = "UPGRADE_FROM"
"""The revision that the upgrade begins with, in place of the last release."""
_CHUNK = 1 << 16
_WATCH_SECONDS = 0.1


def git(*arguments: str) -> str:
    """The output of a git command in this checkout; empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def last_release() -> str:
    """The last tag of a release before this commit; this commit where there is none yet."""
    return os.environ.get(VARIABLE) or git("describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^") or "HEAD"


def tree_of(revision: str, folder: Path) -> Path:
    """A copy of the repository as it was then, in a new folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def unpacked_package_of(tree: Path, folder: Path, other: Path) -> Path:
    """The package as that tree's own command makes it, in an empty folder.

    If it locks the dependencies of another unpacked package, it shares those: to install them takes longest.
    """
    if not (tree / console_vendor.FOLDER).exists():
        # As ./dev does when it sets up a checkout; the console is of no account here, so that of today's npm packages.
        (tree / "tools" / "node_modules").symlink_to(ROOT / "tools" / "node_modules")
        _run("tools.local.console_vendor", cwd=tree)
    shared = (tree / "requirements.txt").read_bytes() == (other / "requirements.txt").read_bytes()
    _run("tools.local.cli", "package", "--output", str(folder / "made"), *(["--sources"] if shared else []), cwd=tree)
    package.unpack(folder / "made" / package.PACKAGE, folder / "app")
    if shared:
        installed = package.SITE_PACKAGES.parts[0]
        (folder / "app" / installed).symlink_to(other / installed)
    return folder / "app"


def _run(*module: str, cwd: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", *module]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def app_of(folder: Path, build: str) -> App:
    """What a host serves that is to say that it is this build."""
    return App(folder, {"PYTHONPATH": str(folder / package.SITE_PACKAGES), "APP_VERSION": build})


class Relay:
    """Gives each connection to the next host that accepts it, as the platform's front end does."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turn = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.given: Counter[int] = Counter()
        """Connections by the port of the host that got them."""

    @contextmanager
    def listening(self, port: int) -> Iterator[None]:
        """Accepts connections meanwhile."""
        server = socket.create_server(("127.0.0.1", port), backlog=128)
        thread = threading.Thread(target=self._accept, args=(server,), name="relay", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()
            with self._lock:
                for one in self._open:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return  # it was closed
            host = self._host()
            if host is None:
                client.close()
                continue
            for source, target in ((client, host), (host, client)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _host(self) -> socket.socket | None:
        for _ in self._ports:
            port = self._ports[self._turn % len(self._ports)]
            self._turn += 1
            with suppress(OSError):
                host = socket.create_connection(("127.0.0.1", port), timeout=5)
                host.settimeout(None)
                self.given[port] += 1
                return host
        return None

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        """Everything that comes; when it ends, the other side ends as well."""
        with self._lock:
            self._open.add(source)
        with suppress(OSError):
            while content := source.recv(_CHUNK):
                target.sendall(content)
        with self._lock:
            self._open.discard(source)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()


@dataclass(frozen=True)
class Step:
    """A host gets another app once this share of the tasks is resolved."""

    share: float
    host: int
    build: str
    kill: bool
    """Without a chance to finish what it is at, as when the platform replaces an instance at once."""


class Swaps(threading.Thread):
    """An upgrade in steps, while a chaos run goes on."""

    def __init__(self, chaos: Chaos, apps: dict[str, App], steps: Sequence[Step], say: Callable[[str], None]) -> None:
        super().__init__(name="swaps")
        self._chaos = chaos
        self._apps = apps
        self._steps = steps
        self._say = say
        self._enough = threading.Event()
        self._failure: Exception | None = None
        self.counts: Counter[str] = Counter()
        self.shares: list[float] = []
        """The share of the tasks that were resolved when each step began."""

    def run(self) -> None:
        """All steps, each as soon as the run has got so far."""
        try:
            for step in self._steps:
                while self._chaos.progress < step.share:
                    if self._enough.wait(_WATCH_SECONDS):
                        return
                self._take(step)
        except Exception as error:  # raised again by `stop`, in the caller's thread
            self._failure = error

    def stop(self) -> None:
        """Waits for the step that is being taken. Raises what one has failed with."""
        self._enough.set()
        if self.ident is not None:
            self.join()
        if self._failure is not None:
            raise self._failure

    def _take(self, step: Step) -> None:
        self.shares.append(self._chaos.progress)
        port = self._chaos.stack.options.ports.hosts[step.host]
        self._chaos.stack.replace_app(port, self._apps[step.build], kill=step.kill)
        answer = requests.get(f"http://127.0.0.1:{port}/api/queue/v1/__version__", timeout=30).json()
        assert answer["build"] == step.build, f"the host on port {port} is {answer}"
        self.counts[f"host {step.host} to {step.build}"] += 1
        self._say(f"host {step.host} serves the {step.build} package, at {self._chaos.progress:.0%} of the tasks")
