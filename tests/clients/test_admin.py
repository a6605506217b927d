"""The administrator's command line, as a program, against a running deployment."""

import json
import os
import shlex
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from shared.auth.scopes import ScopeSet, render, scopes_of
from shared.endpoints import provisioners, task_queues
from tests.admin.command_line import run_command
from tests.clients.deployment import Credentials, Deployment

# How paths travel makes no difference here.
pytestmark = pytest.mark.parametrize("deployment", [False], indirect=True, ids=["local paths"])


def run(deployment: Deployment, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, output and messages of a command; by default with the root credentials."""
    chosen = {
        "TASKCLUSTER_ROOT_URL": deployment.root_url,
        "TASKCLUSTER_CLIENT_ID": deployment.root["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": deployment.root["accessToken"],
        **(environment or {}),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TASKCLUSTER_")}
    return run_command(arguments, {**inherited, **{name: value for name, value in chosen.items() if value}})


def result(deployment: Deployment, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    code, output, messages = run(deployment, *arguments, environment=environment)
    assert code == 0, messages
    return json.loads(output) if output else None


def variables(credentials: Credentials) -> dict[str, str]:
    return {
        "TASKCLUSTER_CLIENT_ID": credentials["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": credentials["accessToken"],
        "TASKCLUSTER_CERTIFICATE": credentials.get("certificate", ""),
    }


def test_a_client(deployment: Deployment) -> None:
    name = f"test/{uuid.uuid4().hex}"
    role = deployment.new_role("auth:current-scopes")
    made = result(deployment, "client", "create", name, "-s", f"assume:{role}", "-s", "a:*", "--expires-in", "30d")
    assert made["scopes"] == [f"assume:{role}", "a:*"]
    me = result(deployment, "whoami", environment=variables(made))
    assert me["clientId"] == name
    assert "auth:current-scopes" in me["scopes"]
    rotated = result(deployment, "client", "rotate", name)
    assert run(deployment, "whoami", environment=variables(made))[0] == 1
    assert result(deployment, "whoami", environment=variables(rotated)) == me
    assert result(deployment, "client", "disable", name)["disabled"] is True
    code, output, messages = run(deployment, "whoami", environment=variables(rotated))
    assert (code, output) == (1, "")
    assert "AuthenticationFailed: Client is disabled" in messages
    assert result(deployment, "client", "enable", name)["disabled"] is False
    updated = result(deployment, "client", "update", name, "-d", "new", "--delete-on-expiration")
    assert (updated["description"], updated["deleteOnExpiration"]) == ("new", True)
    assert (updated["scopes"], updated["expires"]) == (made["scopes"], made["expires"])
    assert result(deployment, "client", "list", name) == [result(deployment, "client", "show", name)]
    assert result(deployment, "client", "delete", name) is None
    assert result(deployment, "client", "list", name) == []


POOL_VIEWS = [
    endpoint.scopes
    for endpoint in (*provisioners.ENDPOINTS, *task_queues.ENDPOINTS)
    if endpoint.method == "GET" and endpoint.scopes is not None and set(endpoint.params) <= {"taskQueueId"}
]


def test_a_role(deployment: Deployment) -> None:
    name = f"test:{uuid.uuid4().hex}"
    made = result(deployment, "role", "create", name, "-s", "a", "--public", "-d", "of a test")
    assert {"a", "queue:status:*"} <= set(made["scopes"])
    needed = {scope for view in POOL_VIEWS for scope in scopes_of(render(view, {"taskQueueId": "x/y"}) or "")}
    assert "queue:list-task-queues" in needed
    assert all(scope in ScopeSet(made["scopes"]) for scope in needed), "pools can be looked at, too"
    updated = result(deployment, "role", "update", name, "--add", "b", "--remove", "a")
    assert {"b", "queue:status:*"} <= set(updated["scopes"])
    assert "a" not in updated["scopes"]
    replaced = result(deployment, "role", "update", name, "-s", "c")
    assert (replaced["scopes"], replaced["description"]) == (["c"], "of a test")
    assert replaced in result(deployment, "role", "list")
    assert result(deployment, "role", "show", name) == replaced
    assert result(deployment, "expand", f"assume:{name}")["scopes"] == [f"assume:{name}", "c"]
    assert result(deployment, "role", "delete", name) is None
    assert "ResourceNotFound" in run(deployment, "role", "show", name)[2]


def test_minting_temporary_credentials(deployment: Deployment) -> None:
    client = deployment.new_client("auth:current-scopes", "a:*", "auth:create-client:test/*")
    arguments = ("mint", "-s", "auth:current-scopes", "-s", "a:1", "--expires-in", "10m")
    for name in ((), ("--name", "test/minted")):
        minted = result(deployment, *arguments, *name, environment=variables(client))
        me = result(deployment, "whoami", environment=variables(minted))
        assert me["clientId"] == (name[1] if name else client["clientId"])
        assert set(me["scopes"]) == {"auth:current-scopes", "a:1", "assume:anonymous"}
        assert run(deployment, *arguments, environment=variables(minted))[0] == 1
    code, output, _ = run(deployment, *arguments, "--export", environment=variables(client))
    assert code == 0
    words = [shlex.split(line) for line in output.splitlines()]
    exported = dict(word.split("=", 1) for _, word in words)
    assert result(deployment, "whoami", environment=exported)["clientId"] == client["clientId"]
    assert run(deployment, "mint", "--expires-in", "32d")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (("whoami",), {"TASKCLUSTER_ROOT_URL": ""}, "TASKCLUSTER_ROOT_URL is not set"),
        (("whoami",), {"TASKCLUSTER_ACCESS_TOKEN": ""}, "TASKCLUSTER_ACCESS_TOKEN are not set"),
        (("whoami",), {"TASKCLUSTER_ACCESS_TOKEN": "x" * 44}, "AuthenticationFailed"),
        (("client", "show", "nobody"), {}, "ResourceNotFound: Client nobody not found"),
        (("client", "create", "test/x", "--expires-in", "soon"), {}, "'soon' is no duration"),
        (("client", "create", "test/x", "--expires-in", "999999w"), {}, "too far in the future"),
        (("client", "create", "not possible"), {}, "InvalidRequestArguments"),
        (("mint", "--expires-in", "1y"), {}, "'1y' is no duration"),
    ],
)
def test_what_goes_wrong_is_said(
    deployment: Deployment, arguments: tuple[str, ...], environment: dict[str, str], message: str
) -> None:
    code, output, messages = run(deployment, *arguments, environment=environment)
    assert (code, output) == (1, "")
    assert message in messages
    assert "Traceback" not in messages
