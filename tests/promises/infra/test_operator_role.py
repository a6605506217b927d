"""The operator's role suffices for every command of the runbooks, and for nothing that deploys or opens."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

from tools.local.deployments.differences import GUARDS
from tools.local.state import ROOT
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate

PERSON = {
    **scenarios.CLOSED,
    "QUEUE_PROFILE": "large",
    "AZURE_PRINCIPAL_ID": "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee",
    "AZURE_PRINCIPAL_TYPE": "User",
}
WEB, STORAGE = "Microsoft.Web/sites", "Microsoft.Storage/storageAccounts"
NEEDED = {
    "functionapp restart": [f"{WEB}/restart/action"],
    "functionapp stop": [f"{WEB}/stop/action"],
    "functionapp start": [f"{WEB}/start/action"],
    "functionapp show": [f"{WEB}/read"],
    "storage account revoke-delegation-keys": [f"{STORAGE}/read", f"{STORAGE}/revokeUserDelegationKeys/action"],
    "storage account failover": [f"{STORAGE}/read", f"{STORAGE}/failover/action"],
    "storage account show": [f"{STORAGE}/read"],
    "containerapp job list": ["Microsoft.App/jobs/read"],
    "containerapp job stop": ["Microsoft.App/jobs/stop/action"],
    "monitor metrics": [],
    "monitor log-analytics": [],
    "keyvault secret show": [],
    "keyvault secret set": [],
    "keyvault secret list": [],
    "keyvault secret set-attributes": [],
}
"""The actions that each command of az needs. Secrets and telemetry have roles of their own."""
OF_A_DEPLOYER = {
    "storage account keys",
    "functionapp deployment",
    "deployment group",
    "keyvault recover",
    "group create",
    "role assignment",
}
"""Commands that need more rights than an operator has, as the page says."""


def _role() -> tuple[Any, Any]:
    resources = list(evaluate(PERSON).all_resources())
    (definition,) = (each for each in resources if each.type == "Microsoft.Authorization/roleDefinitions")
    (assignment,) = (
        each
        for each in resources
        if each.type == "Microsoft.Authorization/roleAssignments"
        and str(each.body["properties"]["roleDefinitionId"]) == definition.id
    )
    return definition, assignment


def runbooks() -> str:
    """Returns the text of the pages that operators work by."""
    pages = [ROOT / "docs" / "operations.md", *sorted((ROOT / "docs" / "incidents").glob("*.md"))]
    return "\n".join(page.read_text() for page in pages)


def test_it_is_the_operators_in_the_group() -> None:
    definition, assignment = _role()
    group = definition.id.partition("/providers/")[0]
    assert assignment.body["properties"]["principalId"] == scenarios.OPERATOR
    assert assignment.id.partition("/providers/")[0] == group


def test_what_verify_compares_may_be_read() -> None:
    """The operator's role may read each resource that a guard is about, which `verify --only description` does."""
    (permission,) = _role()[0].body["properties"]["permissions"]
    allowed = {each.lower() for each in permission["actions"]}
    by_other_roles = {
        "workspaces",
        "topics",
        "containers",
    }  # Monitoring Reader, Service Bus Data Owner, Blob Data Contributor
    for kind in {guard.type for guard in GUARDS}:
        assert f"{kind}/read" in allowed or kind.rpartition("/")[2] in by_other_roles, kind


def test_every_command_of_the_runbooks_is_allowed() -> None:
    definition, _ = _role()
    (permission,) = definition.body["properties"]["permissions"]
    used = set(
        re.findall(
            r"\baz ((?:[a-z-]+ )+[a-z-]+)", " ".join(re.findall(r"^ *```sh\n(.*?)^ *```", runbooks(), re.M | re.S))
        )
    )
    for command in used:
        known = [each for each in (*NEEDED, *OF_A_DEPLOYER) if command == each or command.startswith(f"{each} ")]
        assert known, f"az {command}: say what it needs"
        for action in NEEDED.get(known[0], []):
            assert any(fnmatch.fnmatch(action, allowed) for allowed in permission["actions"]), (command, action)


def test_it_allows_no_more_than_reading_and_what_is_listed() -> None:
    definition, _ = _role()
    (permission,) = definition.body["properties"]["permissions"]
    listed = {action for actions in NEEDED.values() for action in actions}
    acting = {each for each in permission["actions"] if not each.endswith("/read")}
    assert acting - listed == {f"{WEB}/config/list/action"}, "verify reads settings, in which secrets are references"
    assert not {each for each in acting if re.search(r"listkeys|roleDefinitions|regenerate", each, re.I)}
