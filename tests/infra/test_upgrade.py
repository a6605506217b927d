"""An upgrade and a rollback under load: the packages of the last release and of now side by side on one storage."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.packages import NEEDS_PYTHON
from tests.infra.upgrading import Relay, Step, Swaps, app_of, git, last_release, tree_of, unpacked_package_of
from tests.local.stacks import free_ports
from tools.local import state
from tools.local.chaos.announced import SUBSCRIPTION
from tools.local.chaos.command import SETTINGS, TAKE_SECONDS
from tools.local.chaos.faults import Disturbance, Fleet
from tools.local.chaos.run import Chaos, ChaosOptions
from tools.local.stack import Stack, StackOptions
from tools.local.state import ROOT

OLD, NEW = "old", "new"
STEPS = (
    Step(0.0, host=1, build=NEW, kill=False),
    Step(0.1, host=0, build=NEW, kill=True),
    Step(0.25, host=1, build=OLD, kill=True),
    Step(0.4, host=0, build=OLD, kill=False),
    Step(0.55, host=0, build=NEW, kill=True),
)
"""From two old hosts to two new ones, back to two old ones, and to one of each, which see all timers to their end."""
OPTIONS = ChaosOptions(tasks=150, workers=3, seed=20, life_seconds=180, settle_seconds=240, orphans=False)
"""The tasks take some 40 s on an idle machine. Orphans take minutes, and ./dev chaos waits for those."""
FRONT = 15
"""The relay's port, relative to that of the first host."""


@pytest.fixture(scope="module")
def old(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the last release."""
    folder = tmp_path_factory.mktemp("old")
    return unpacked_package_of(tree_of(last_release(), folder / "tree"), folder, unpacked)


@pytest.fixture
def relay_and_options(old: Path, interpreter: Path, tmp_path: Path) -> Iterator[tuple[Relay, StackOptions]]:
    """A relay that listens, and a stack of two old hosts behind it that know nothing of this checkout."""
    shutil.copytree(ROOT / "tools" / "local", tmp_path / "tools" / "local")
    ports = free_ports(2)
    front = ports.api + FRONT
    app = app_of(old, OLD)
    options = StackOptions(
        ports,
        subscriptions=(SUBSCRIPTION,),
        in_memory=True,
        take_seconds=TAKE_SECONDS,
        app_dir=app.folder,
        host_python=interpreter,
        host_dir=tmp_path,
        app_settings={**SETTINGS, **app.settings},
        root_url=f"http://127.0.0.1:{front}",
    )
    relay = Relay(ports.hosts)
    try:
        with relay.listening(front):
            yield relay, options
    finally:
        shutil.rmtree(state.folder(ports.api), ignore_errors=True)


@NEEDS_PYTHON
@pytest.mark.large
@pytest.mark.timeout(900)
def test_nothing_is_lost_while_hosts_go_to_the_next_release_and_back(
    relay_and_options: tuple[Relay, StackOptions], old: Path, unpacked: Path
) -> None:
    release = last_release()
    same = "" if release != "HEAD" else "; there is no tag v* yet, so the old package is of the last commit"
    print(f"from {release} ({git('rev-parse', '--short', release)}) to the code of now{same}")
    relay, options = relay_and_options
    apps = {OLD: app_of(old, OLD), NEW: app_of(unpacked, NEW)}
    swaps: list[Swaps] = []

    def upgrading(chaos: Chaos, fleet: Fleet) -> Disturbance:
        swaps.append(Swaps(chaos, apps, STEPS, print))
        return swaps[0]

    with Stack.start(options) as stack:
        assert not (stack.options.host_dir / "shared").exists(), "there is no other copy of the app to import"
        run = Chaos(stack, OPTIONS, print, upgrading)
        assert run.run() == []
    assert len(swaps[0].shares) == len(STEPS)
    assert max(swaps[0].shares) < 1, "there was no load any more when the last step began"
    assert set(relay.given) == set(options.ports.hosts), "both hosts were called"


def test_the_upgrade_begins_with_the_last_release_or_with_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPGRADE_FROM", raising=False)
    assert last_release() == (git("describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^") or "HEAD")
    monkeypatch.setenv("UPGRADE_FROM", "HEAD~1")
    assert last_release() == "HEAD~1"


def test_a_relay_gives_connections_to_hosts_in_turn_and_passes_by_one_that_is_down() -> None:
    ports = free_ports(2)
    first, second, front = *ports.hosts, ports.api + FRONT
    relay = Relay([first, second])

    def say(server: socket.socket, word: bytes) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.sendall(client.recv(10) + word)

    def ask() -> bytes:
        with socket.create_connection(("127.0.0.1", front), timeout=10) as client:
            try:
                client.sendall(b"who? ")
                return client.recv(100)
            except ConnectionError:
                return b""  # it was closed with what had come unread

    servers = {port: socket.create_server(("127.0.0.1", port)) for port in (first, second)}
    threads = [
        threading.Thread(target=say, args=(server, str(port).encode()), daemon=True) for port, server in servers.items()
    ]
    for thread in threads:
        thread.start()
    with relay.listening(front):
        assert {ask() for _ in range(4)} == {b"who? %d" % first, b"who? %d" % second}
        servers[first].shutdown(socket.SHUT_RDWR)
        servers[first].close()
        assert {ask() for _ in range(4)} == {b"who? %d" % second}
        servers[second].shutdown(socket.SHUT_RDWR)
        servers[second].close()
        assert ask() == b"", "nobody accepts"
    for thread in threads:
        thread.join()
