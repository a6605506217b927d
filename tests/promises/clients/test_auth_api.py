"""The auth API through the public clients' Auth classes: clients and roles, and who may change them."""

import base64
import json
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import mohawk
import pytest

from shared.app.apis import AUTH
from tests.promises.clients.deployment import Credentials, Deployment, format_time, javascript

ENDPOINTS = {endpoint.name: endpoint for endpoint in AUTH.endpoints}


def check(name: str, body: Any) -> Any:
    """Checks an answer against the schema of its endpoint, and returns it."""
    output = ENDPOINTS[name].output
    assert output is not None
    output.model_validate(body)
    return body


def client_definition(**changes: Any) -> dict[str, Any]:
    return {"description": "of a test", "expires": format_time(timedelta(days=1)), "scopes": ["a", "b:*"], **changes}


def role_definition(*scopes: str) -> dict[str, Any]:
    return {"description": "of a test", "scopes": list(scopes)}


def unique(text: str = "test") -> str:
    return f"{text}/{uuid.uuid4().hex}"


@pytest.fixture
def root(deployment: Deployment) -> Credentials:
    return deployment.root


def test_clients_with_the_python_client(deployment: Deployment) -> None:
    client_id = unique("test/odd:name@x|y+z!")
    definition = client_definition()
    with deployment.auth() as python:
        created = check("createClient", python.createClient(client_id, definition))
        assert check("createClient", python.createClient(client_id, definition)) == created
        token = created.pop("accessToken")
        assert check("client", python.client(client_id)) == created
        assert created["expandedScopes"] == ["a", "b:*"]
        updated = check("updateClient", python.updateClient(client_id, client_definition(description="new")))
        assert updated["description"] == "new"
        assert check("disableClient", python.disableClient(client_id))["disabled"] is True
        assert check("enableClient", python.enableClient(client_id))["disabled"] is False
        reset = check("resetAccessToken", python.resetAccessToken(client_id))
        assert reset["accessToken"] != token
        found = check("listClients", python.listClients(query={"prefix": client_id}))
        assert found == {"clients": [python.client(client_id)]}
        assert python.deleteClient(client_id) is None
        assert python.deleteClient(client_id) is None
    assert deployment.python("client", client_id, credentials=deployment.root).code == "ResourceNotFound"


def test_clients_with_the_javascript_client(deployment: Deployment, root: Credentials) -> None:
    client_id = unique("test/odd:name@x|y+z!")
    role_id = unique("test:a b#c?d%e")
    calls: list[tuple[str, *tuple[Any, ...]]] = [
        ("createClient", client_id, client_definition()),
        ("client", client_id),
        ("updateClient", client_id, client_definition(description="new")),
        ("disableClient", client_id),
        ("enableClient", client_id),
        ("resetAccessToken", client_id),
        ("listClients", {"prefix": client_id}),
        ("deleteClient", client_id),
        ("createRole", role_id, role_definition("x")),
        ("role", role_id),
        ("updateRole", role_id, role_definition("y")),
        ("listRoles",),
        ("expandScopes", {"scopes": [f"assume:{role_id}"]}),
        ("deleteRole", role_id),
        ("ping",),
    ]
    outcomes = javascript(*(deployment.javascript_call(*call, credentials=root) for call in calls))
    assert [outcome.status for outcome in outcomes] == [200] * len(calls), outcomes
    bodies: Mapping[str, Any] = {call[0]: outcome.body for call, outcome in zip(calls, outcomes, strict=True)}
    for name in ("createClient", "client", "updateClient", "resetAccessToken", "listClients", "role", "updateRole"):
        check(name, bodies[name])
    assert [client["clientId"] for client in bodies["listClients"]["clients"]] == [client_id]
    assert role_id in {role["roleId"] for role in bodies["listRoles"]}
    assert bodies["expandScopes"] == {"scopes": [f"assume:{role_id}", "y"]}
    gone = javascript(
        deployment.javascript_call("client", client_id, credentials=root),
        deployment.javascript_call("role", role_id, credentials=root),
    )
    assert [outcome.status for outcome in gone] == [404, 404]


def test_roles_with_the_python_client(deployment: Deployment) -> None:
    # Without the raw target, no one can tell an escaped "%41" from an escaped "A".
    role_id = unique("test:x y#z?&'\"" + ("%41" if deployment.azure_paths else "%")) + "*"
    with deployment.auth() as python:
        created = check("createRole", python.createRole(role_id, role_definition("x:<..>", "a")))
        assert check("createRole", python.createRole(role_id, role_definition("x:<..>", "a"))) == created
        assert check("role", python.role(role_id)) == created
        updated = check("updateRole", python.updateRole(role_id, role_definition("y:<..>")))
        assert updated["expandedScopes"] == [f"assume:{role_id}", "y:*"]
        assert updated in python.listRoles()
        expanded = check("expandScopes", python.expandScopes({"scopes": [f"assume:{role_id[:-1]}1"]}))
        assert expanded == {"scopes": [f"assume:{role_id[:-1]}1", "y:1"]}
        assert python.deleteRole(role_id) is None
        assert python.deleteRole(role_id) is None
    assert deployment.python("role", role_id, credentials=deployment.root).code == "ResourceNotFound"


def test_another_service_has_a_signature_checked(deployment: Deployment) -> None:
    client = deployment.new_client("a:*", "assume:anonymous")
    resource, url = "/api/other/v1/x?y=z", "https://other.example.com:8443/api/other/v1/x?y=z"
    request = {"method": "post", "resource": resource, "host": "other.example.com", "port": 8443}

    def signed(key: str, **ext: Any) -> str:
        sender = mohawk.Sender(
            {"id": client["clientId"], "key": key, "algorithm": "sha256"},
            url,
            "POST",
            content=b"{}",
            content_type="application/json",
            ext=base64.b64encode(json.dumps(ext).encode()).decode(),
        )
        return str(sender.request_header)

    with deployment.auth() as python:
        header = signed(client["accessToken"])
        found = check("authenticateHawk", python.authenticateHawk({**request, "authorization": header}))
        assert (found["status"], found["scheme"], found["clientId"]) == ("auth-success", "hawk", client["clientId"])
        assert {"a:*", "assume:anonymous"} <= set(found["scopes"])
        assert f'hash="{found["hash"]}"' in header, "of a body that is not here: it is for the asker to compare"
        assert found["expires"] == python.client(client["clientId"])["expires"]
        narrow = {**request, "authorization": signed(client["accessToken"], authorizedScopes=["a:1"])}
        assert set(python.authenticateHawk(narrow)["scopes"]) & {"a:1", "a:*"} == {"a:1"}
        for changes in (
            {"authorization": signed("another-token-0123456789")},
            {"authorization": "Bearer x"},
            {"authorization": header, "port": 443},
            {"authorization": header, "host": "other.example.org"},
            {"authorization": header, "method": "get"},
            {"authorization": header, "resource": "/api/other/v1/x"},
        ):
            failed = check("authenticateHawk", python.authenticateHawk({**request, **changes}))
            assert failed["status"] == "auth-failed", changes
            assert set(failed) == {"status", "message"}
        anonymous = check("authenticateHawk", python.authenticateHawk(request))
        assert (anonymous["status"], anonymous["scheme"]) == ("no-auth", "none")
        assert "assume:anonymous" in anonymous["scopes"]
    for bad in ({"method": "POST"}, {"port": 65536}, {"host": "a b"}, {"x": "y"}):
        refused = deployment.python("authenticateHawk", {**request, **bad}, credentials=deployment.root)
        assert refused.status == 400, bad


@pytest.mark.parametrize(
    ("scopes", "method", "payload"),
    [
        ((), "client", None),
        ((), "listClients", None),
        ((), "listRoles", None),
        ((), "listRoles2", None),
        ((), "listRoleIds", None),
        ((), "expandScopes", {"scopes": []}),
        ((), "deleteClient", None),
        ((), "disableClient", None),
        ((), "enableClient", None),
        ((), "resetAccessToken", None),
        ((), "deleteRole", None),
        (("auth:create-client:other/*", "a", "b:*"), "createClient", client_definition()),
        (("auth:create-client:*", "a", "b:1"), "createClient", client_definition()),
        (("auth:update-client:*", "b:*", "auth:create-client:*"), "updateClient", client_definition(scopes=["c"])),
        (("auth:update-role:*",), "updateRole", role_definition("x")),
        (("auth:create-role:*", "x:*"), "createRole", role_definition("x:<..>", "y")),
        (("auth:create-role:other*", "x"), "createRole", role_definition("x")),
    ],
)
def test_a_call_without_the_scopes_is_refused(
    deployment: Deployment, scopes: tuple[str, ...], method: str, payload: Any
) -> None:
    caller = deployment.new_client(*scopes)
    existing = deployment.new_client("a")["clientId"] if "Client" in method else deployment.new_role("a")
    target = unique() if method.startswith("create") else existing
    args = [target] if ENDPOINTS[method].params else []
    outcome = deployment.python(method, *args, *([payload] if payload is not None else []), credentials=caller)
    assert (outcome.status, outcome.code) == (403, "InsufficientScopes")
