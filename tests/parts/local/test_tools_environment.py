"""Which deployment `./dev admin` and the other tools talk to."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tools.local import cli, control, state

LOCAL = {
    "TASKCLUSTER_ROOT_URL": "http://localhost:7071",
    "AZURE_STORAGE_CONNECTION_STRING": "local",
    "TASKCLUSTER_CLIENT_ID": "root",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, LOCAL),
        ({"TASKCLUSTER_CLIENT_ID": "mine"}, {**LOCAL, "TASKCLUSTER_CLIENT_ID": "mine"}),
        ({"TASKCLUSTER_ROOT_URL": "https://tc.example.com"}, {"TASKCLUSTER_ROOT_URL": "https://tc.example.com"}),
        ({"STORAGE_ACCOUNT_NAME": "stqueue"}, {}),
    ],
    ids=["none", "another client", "a root URL", "a storage account"],
)
def test_a_deployment_that_is_named_is_not_mixed_with_the_local_stack(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]
) -> None:
    for name in (*LOCAL, "STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    started: list[dict[str, str]] = []

    def execve(path: str, command: list[str], environment: dict[str, str]) -> Any:
        started.append(environment)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(state.StackState, "load", lambda port: SimpleNamespace(environment=LOCAL))
    CliRunner().invoke(cli.app, ["admin", "whoami"], catch_exceptions=False)
    (environment,) = started
    assert {name: environment[name] for name in LOCAL if name in environment} == expected
    assert environment["STARTED_AS"] == "./dev admin"


def test_a_port_names_a_stack_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORAGE_ACCOUNT_NAME", "TASKCLUSTER_ROOT_URL", "TASKCLUSTER_CERTIFICATE"):
        monkeypatch.setenv(name, "elsewhere")
    started: list[tuple[list[str], dict[str, str]]] = []

    def execve(path: str, command: list[str], environment: dict[str, str]) -> Any:
        started.append((command, environment))

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(control, "running", lambda port: SimpleNamespace(environment={**LOCAL, "PORT": str(port)}))
    CliRunner().invoke(cli.app, ["listen", "task-pending", "--port", "7100", "--count", "1"], catch_exceptions=False)
    ((command, environment),) = started
    assert command[1:] == ["-m", "tools.listen", "task-pending", "--count", "1"]
    assert {name: environment[name] for name in LOCAL} == LOCAL
    assert environment["PORT"] == "7100"
    assert not {"STORAGE_ACCOUNT_NAME", "TASKCLUSTER_CERTIFICATE"} & set(environment)
