"""The files for VS Code name what is there, and its debugger meets a stack without a host."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.local.stacks import free_ports, tiny_app, wait
from tools.local import state
from tools.local.control import restart_host
from tools.local.ports import DEFAULT_PORT, Ports, PortTakenError
from tools.local.stack import Stack, StackOptions
from tools.local.state import StackState

FOLDER = state.ROOT / ".vscode"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def test_what_is_launched_has_its_tasks_and_modules() -> None:
    labels = {task["label"] for task in read("tasks.json")["tasks"]}
    for configuration in read("launch.json")["configurations"]:
        assert configuration["preLaunchTask"] in labels
        if "module" in configuration:
            assert (state.ROOT / configuration["module"].replace(".", "/") / "__main__.py").exists()
            assert str(DEFAULT_PORT) in configuration["args"]
    for task in read("tasks.json")["tasks"]:
        assert task.get("dependsOn", task["label"]) in labels
    assert read("settings.json")["azureFunctions.projectLanguageModel"] == 2


def test_the_example_settings_are_those_of_a_stack_on_the_default_port() -> None:
    values = json.loads((state.ROOT / "local.settings.example.json").read_text())["Values"]
    ports = Ports.derive(DEFAULT_PORT)
    for name in ("AzureWebJobsStorage", "STORAGE_CONNECTION_STRING"):
        assert all(f":{port}/" in values[name] for port in (ports.blob, ports.queue, ports.table))
    assert f":{ports.amqp};" in values["SERVICEBUS_CONNECTION_STRING"]


@pytest.mark.large
def test_a_stack_without_a_host_serves_one_that_somebody_else_starts(tmp_path: Path) -> None:
    ports = free_ports()
    app = tiny_app(tmp_path / "app")
    with Stack.start(StackOptions(ports, in_memory=True, with_host=False, app_dir=app)) as stack:
        running = StackState.load(ports.api)
        assert running is not None
        assert not any(name.startswith("host-") for name in running.children)
        with pytest.raises(SystemExit):
            restart_host(ports.api)
        host = subprocess.Popen(
            [sys.executable, "-m", "tools.local.host", "--port", str(ports.api), "--app-dir", str(app)],
            cwd=state.ROOT,
            env={**os.environ, **stack.environment, "AzureWebJobsStorage": stack.azurite.connection_string},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait(lambda: answers(ports.api), 30)
        finally:
            host.send_signal(signal.SIGINT)
            host.wait(20)


def test_a_stack_without_a_host_may_start_after_the_host(tmp_path: Path) -> None:
    """The API's port is not its own."""
    ports = free_ports()
    with socket.socket() as host:
        host.bind(("127.0.0.1", ports.api))
        host.listen()
        with pytest.raises(PortTakenError):
            Stack.start(StackOptions(ports, in_memory=True, app_dir=tmp_path))
        Stack.start(StackOptions(ports, in_memory=True, with_host=False, app_dir=tmp_path)).stop()


def answers(port: int) -> bool:
    """Whether a host serves the tiny app there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/pid", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
