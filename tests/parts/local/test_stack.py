"""The stack as an API: parts that end, ports that are taken, settings and their order."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.local.stacks import answer_of, free_ports, tiny_app
from tools.local import appsettings, state
from tools.local.child import ChildError
from tools.local.ports import Ports, PortTakenError
from tools.local.stack import Stack, StackOptions


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return tiny_app(tmp_path / "app")


@pytest.fixture
def ports() -> Iterator[Ports]:
    ports = free_ports(hosts=2)
    yield ports
    shutil.rmtree(state.folder(ports.api), ignore_errors=True)


@pytest.mark.large
def test_a_host_whose_app_no_longer_starts_takes_the_stack_down(app: Path, ports: Ports) -> None:
    options = StackOptions(Ports.derive(ports.api), in_memory=True, app_dir=app)
    with Stack.start(options) as stack:
        (app / "function_app.py").write_text("raise ValueError('half an edit')")
        os.kill(stack.host(ports.api).pid, 9)
        with pytest.raises(ChildError, match="half an edit"):
            stack.supervise(threading.Event(), _ignore)


@pytest.mark.parametrize("name", ["amqp", "blob", "api"])
def test_a_port_that_is_taken_is_named_and_nothing_is_started(app: Path, ports: Ports, name: str) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", getattr(ports, name)))
        other.listen()
        with pytest.raises(PortTakenError, match=rf"port {getattr(ports, name)} \(for .*\) is taken.*--port"):
            Stack.start(StackOptions(ports, in_memory=True, app_dir=app), _fail)


def _ignore(_: str) -> None:
    """Ignores what is said."""


def _fail(text: str) -> None:
    raise AssertionError(text)


@pytest.mark.large
def test_which_settings_win(app: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment wins over the settings file, and the stack's own addresses win over both."""
    values = {
        "CLAIM_TIMEOUT_SECONDS": "5",
        "ROOT_ACCESS_TOKEN": "from-file",
        "STORAGE_CONNECTION_STRING": "from-file",
        "TASKCLUSTER_ROOT_URL": "http://file",
    }
    (app / "local.settings.json").write_text(json.dumps({"Values": values}))
    monkeypatch.setenv("CLAIM_TIMEOUT_SECONDS", "7")
    monkeypatch.setenv("TASKCLUSTER_ROOT_URL", "http://another-stack")
    with Stack.start(StackOptions(ports, in_memory=True, app_dir=app)) as stack:
        seen = answer_of(ports.api)
        assert seen["CLAIM_TIMEOUT_SECONDS"] == "7"
        assert seen["ROOT_ACCESS_TOKEN"] == stack.environment["TASKCLUSTER_ACCESS_TOKEN"] == "from-file"
        assert seen["STORAGE_CONNECTION_STRING"] == stack.azurite.connection_string
        assert seen["TASKCLUSTER_ROOT_URL"] == f"http://127.0.0.1:{ports.api}"


def test_secrets_are_made_once_and_for_their_owner_only(tmp_path: Path) -> None:
    first = appsettings.stack_secrets(tmp_path / "7071")
    assert appsettings.stack_secrets(tmp_path / "7071") == first
    assert appsettings.stack_secrets(tmp_path / "7171") != first
    assert (tmp_path / "7071" / "secrets.json").stat().st_mode & 0o077 == 0
