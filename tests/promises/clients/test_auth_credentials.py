"""Every form of credentials, made and used by the public Python and JavaScript clients."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.promises.clients.deployment import Credentials, Deployment, javascript, temporary

ANONYMOUS = "assume:anonymous"


def set_of(outcome: Any) -> set[str]:
    assert outcome.status == 200, outcome
    return set(outcome.body["scopes"])


@pytest.fixture
def client(deployment: Deployment) -> Credentials:
    """Returns a client that may do some things by itself, and some through a role. To see its scopes it needs none."""
    role = deployment.new_role("role:x")
    return deployment.new_client("a:*", f"assume:{role}", "auth:create-client:test/*")


@pytest.mark.parametrize("name", [None, "test/temporary"])
def test_temporary_credentials(deployment: Deployment, client: Credentials, name: str | None) -> None:
    scopes = ["a:1", "role:x"]
    now = datetime.now(UTC)
    (made,) = javascript(
        {
            "operation": "temporary",
            "credentials": client,
            "scopes": scopes,
            "start": now.isoformat(),
            "expiry": (now + timedelta(minutes=20)).isoformat(),
            **({} if name is None else {"clientId": name}),
        }
    )
    assert made.status == 200, made
    for credentials in (temporary(client, *scopes, name=name), made.body):
        assert set_of(deployment.python("currentScopes", credentials=credentials)) == {*scopes, ANONYMOUS}
        (outcome,) = javascript(deployment.javascript_call("currentScopes", credentials=credentials))
        assert set_of(outcome) == {*scopes, ANONYMOUS}


def test_the_test_endpoints(deployment: Deployment) -> None:
    tester = {"clientId": "tester", "accessToken": "no-secret"}
    request = {"clientScopes": ["test:a", "auth:create-client:test/*"], "requiredScopes": ["test:a"]}
    expected = {"clientId": "tester", "scopes": [ANONYMOUS, "auth:create-client:test/*", "test:a"]}
    assert deployment.python("testAuthenticate", request, credentials=tester).body == expected
    assert deployment.python("testAuthenticateGet", credentials=tester).body["clientId"] == "tester"
    calls = [
        deployment.javascript_call("testAuthenticate", request, credentials=tester),
        deployment.javascript_call("testAuthenticateGet", credentials=tester),
    ]
    posted, got = javascript(*calls)
    assert posted.body == expected
    assert got.body == {"clientId": "tester", "scopes": [ANONYMOUS, "auth:create-client:test:*", "test:*"]}
    named = temporary(tester, "test:a", name="test/x")
    assert deployment.python("testAuthenticate", request, credentials=named).body == {
        "clientId": "test/x",
        "scopes": [ANONYMOUS, "test:a"],
    }
    lacking = {"clientScopes": ["test:b"], "requiredScopes": ["test:a"]}
    assert deployment.python("testAuthenticate", lacking, credentials=tester).status == 403
    assert deployment.python("testAuthenticate", request, credentials=deployment.root).status == 401
