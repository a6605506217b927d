"""Roles, clients and index entries are copied from one running deployment into another."""

from __future__ import annotations

import datetime
import json
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import taskcluster

from tests.parts.local.stacks import free_ports
from tests.promises.admin.conftest import SETTINGS, started
from tests.promises.admin.operators import Operator
from tools.local.stack import Stack, StackOptions


@pytest.fixture(scope="module")
def other() -> Iterator[Stack]:
    """Yields the deployment that is read."""
    yield from started(StackOptions(free_ports(), in_memory=True, app_settings=SETTINGS))


class Source:
    """The deployment that is read, with names of this test's own."""

    def __init__(self, stack: Stack) -> None:
        self.root_url = stack.environment["TASKCLUSTER_ROOT_URL"]
        names = {"clientId": "TASKCLUSTER_CLIENT_ID", "accessToken": "TASKCLUSTER_ACCESS_TOKEN"}
        options = {
            "rootUrl": self.root_url,
            "credentials": {key: stack.environment[name] for key, name in names.items()},
        }
        self.auth, self.index = taskcluster.Auth(options), taskcluster.Index(options)
        self.environment = {name.replace("TASKCLUSTER_", "SOURCE_"): stack.environment[name] for name in names.values()}
        self.prefix = f"m{uuid.uuid4().hex[:8]}"

    def client(self, name: str, *scopes: str, days: int = 9) -> str:
        definition = {"description": name, "scopes": list(scopes), "expires": _in(days), "deleteOnExpiration": True}
        self.auth.createClient(f"{self.prefix}/{name}", definition)
        return f"{self.prefix}/{name}"


def _in(days: float) -> str:
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)).isoformat()


@pytest.fixture
def source(other: Stack) -> Source:
    return Source(other)


def _migrate(operator: Operator, source: Source, *arguments: str) -> tuple[int, Any, str]:
    kind, *options = arguments
    code, output, messages = operator.run("migrate", kind, source.root_url, *options, environment=source.environment)
    return code, json.loads(output) if output else None, messages


def test_roles_are_copied_once_and_what_differs_is_named(operator: Operator, source: Source) -> None:
    role = f"{source.prefix}-role"
    source.auth.createRole(role, {"description": "a", "scopes": ["b", "a"]})
    prefix = ("--prefix", source.prefix)
    code, done, _ = _migrate(operator, source, "roles", *prefix, "--dry-run")
    assert (code, done["created"]) == (0, [role])
    assert role not in [each["roleId"] for each in operator.auth().listRoles()], "a dry run changes nothing"
    assert _migrate(operator, source, "roles", *prefix)[1]["created"] == [role]
    assert sorted(operator.auth().role(role)["scopes"]) == ["a", "b"]
    assert _migrate(operator, source, "roles", *prefix)[1]["same"] == 1
    source.auth.updateRole(role, {"description": "a", "scopes": ["c"]})
    code, done, messages = _migrate(operator, source, "roles", *prefix)
    assert (code, done["different"], "--update" in messages) == (0, [role], True)
    assert _migrate(operator, source, "roles", *prefix, "--update")[1]["updated"] == [role]
    assert operator.auth().role(role)["scopes"] == ["c"]


def test_clients_get_new_tokens_that_only_the_operator_reads(
    operator: Operator, source: Source, tmp_path: Path
) -> None:
    kept, off, ended = (
        source.client("kept", "x:*", "auth:current-scopes"),
        source.client("off"),
        source.client("ended", days=-1),
    )
    source.auth.disableClient(off)
    tokens = tmp_path / "tokens"
    prefix = ("--prefix", source.prefix)
    assert _migrate(operator, source, "clients", *prefix)[0] == 1, "tokens need a file"
    code, done, messages = _migrate(operator, source, "clients", *prefix, "--tokens", str(tokens))
    assert (code, sorted(done["created"]), list(done["leftOut"])) == (0, [kept, off], [ended]), messages
    written = {line["clientId"]: line["accessToken"] for line in map(json.loads, tokens.read_text().splitlines())}
    assert written.keys() == {kept, off}
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    assert not any(token in json.dumps(done) + messages for token in written.values())
    assert operator.auth().client(off)["disabled"] is True
    options = {
        "rootUrl": operator.environment["TASKCLUSTER_ROOT_URL"],
        "credentials": {"clientId": kept, "accessToken": written[kept]},
    }
    assert "x:*" in taskcluster.Auth(options).currentScopes()["scopes"]
    code, _, messages = _migrate(operator, source, "clients", *prefix, "--tokens", str(tokens))
    assert (code, "is there already" in messages) == (1, True), "no token is written over"
    again = _migrate(operator, source, "clients", *prefix, "--tokens", str(tmp_path / "more"))[1]
    assert (again["created"], again["same"]) == ([], 2)
