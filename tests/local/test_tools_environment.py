"""Which deployment `./dev admin` and the other tools talk to."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from local import cli, state

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
