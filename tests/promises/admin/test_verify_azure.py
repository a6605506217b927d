"""`verify` on what Azure's management plane says of an app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import requests

from tests.promises.infra import templates
from tools.admin.verification import azure_checks
from tools.admin.verification.core import Check, Deployment, Differs, run
from tools.local.templates import scenarios

APP = {"AZURE_SUBSCRIPTION_ID": "s", "AZURE_RESOURCE_GROUP": "rg-test", "AZURE_FUNCTION_APP_NAME": "func-abc"}


def _managed(settings: Mapping[str, str], states: Mapping[str, str], roles: Iterable[str]) -> Deployment:
    """Returns a deployment of which Azure's management plane says this."""

    def arm(method: str, path: str, version: str, query: Mapping[str, str] | None = None) -> Any:
        assert path.startswith("/subscriptions/s/resourceGroups/rg-test/providers/")
        if path.endswith("/config/appsettings/list"):
            return {"properties": {**settings}}
        if path.endswith("/configreferences/appsettings"):
            return {"value": [{"name": name, "properties": {"status": state}} for name, state in states.items()]}
        if path.endswith("/roleAssignments"):
            assert query == {"$filter": "assignedTo('principal')"}
            return {"value": [{"properties": {"roleDefinitionId": f"/x/{role}"}} for role in roles]}
        client = settings["MANAGED_IDENTITY_CLIENT_ID"]
        identities = {
            "a": {"clientId": "other", "principalId": "p"},
            "b": {"clientId": client, "principalId": "principal"},
        }
        site = templates.sites(scenarios.BARE)["queue"][0].body["properties"]
        return {"identity": {"userAssignedIdentities": identities}, "properties": site}

    deployment = Deployment(APP)
    deployment.arm = arm  # type: ignore[method-assign]  # a stand-in
    return deployment


RIGHT: dict[str, str] = templates.resource("Microsoft.Web/sites/config", "small, bare")["properties"]
RESOLVED = {name: "Resolved" for name, value in RIGHT.items() if value.startswith("@Microsoft.KeyVault(")}
ROLE_IDS = [templates.document("roles.json")[name] for name in azure_checks.APP_ROLES]


CASES: tuple[tuple[str, Mapping[str, str], Mapping[str, str], list[str], str | None], ...] = (
    ("settings", RIGHT, RESOLVED, ROLE_IDS, None),
    ("roles", RIGHT, RESOLVED, ROLE_IDS, None),
    ("settings", {**RIGHT, "TASKCLUSTER_ROOT_URL": ""}, RESOLVED, ROLE_IDS, "not set: TASKCLUSTER_ROOT_URL"),
    *(
        ("settings", RIGHT, {**RESOLVED, "ACCESS_TOKEN_KEYS": state}, ROLE_IDS, f"TOKEN_KEYS: {state}")
        for state in ("AccessToKeyVaultDenied", "SecretNotFound", "InitialResolveFailed")
    ),
    ("settings", RIGHT, {}, ROLE_IDS, "no setting refers"),
    ("memory", RIGHT, RESOLVED, ROLE_IDS, None),
    ("memory", {**RIGHT, "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": ""}, RESOLVED, ROLE_IDS, "of 512 MB may need 13174"),
    ("roles", RIGHT, RESOLVED, ROLE_IDS[1:], "does not have the roles storageBlobDataOwner"),
    ("roles", RIGHT, RESOLVED, [*ROLE_IDS, "8e3af657"], "more roles than it needs: 8e3af657"),
)


@pytest.mark.parametrize(("check", "settings", "states", "roles", "found"), CASES)
def test_settings_and_roles_as_azure_has_them(
    check: str, settings: Mapping[str, str], states: Mapping[str, str], roles: list[str], found: str | None
) -> None:
    (outcome,) = run(_managed(settings, states, roles), [each for each in azure_checks.CHECKS if each.name == check])
    assert outcome.result == ("differs" if found else "holds"), outcome
    assert found is None or found in outcome.found


@pytest.mark.parametrize("error", [Differs, requests.ConnectionError])
def test_no_signature_is_shown(error: type[Exception]) -> None:
    """No signature of a URL is shown, since printed messages are pasted into issues and chats."""
    url = "https://st.queue.core.windows.net/q/messages?sv=2026&sig=abc%2Bdef%3D&se=9 and https://x/y?bewit=c2VjcmV0"

    def fails(deployment: Deployment) -> str:
        raise error(f"Max retries exceeded with url: {url}")

    (outcome,) = run(_managed(RIGHT, RESOLVED, ROLE_IDS), [Check("some", fails)])
    assert outcome.result == "differs"
    assert "sig=…&se=9" in outcome.found
    assert "bewit=…" in outcome.found
    assert "abc" not in outcome.found
    assert "c2Vj" not in outcome.found
