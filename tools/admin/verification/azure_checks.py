"""The app as Azure has it: its settings and the roles of its identity, by Azure's management plane."""

from __future__ import annotations

import json
from typing import Any

from shared.base.settings import Settings
from tools.admin.verification.core import Check, Deployment, NotChecked, expect
from tools.local.deployments.memory import Instance
from tools.local.state import ROOT

VARIABLES = ("AZURE_SUBSCRIPTION_ID", "AZURE_RESOURCE_GROUP", "AZURE_FUNCTION_APP_NAME")
"""Environment variables that say where the app is; `azd env get-values` has them."""
APP_ROLES = (
    "storageBlobDataOwner",
    "storageBlobDelegator",
    "storageQueueDataContributor",
    "storageTableDataContributor",
    "storageQueueDelegator",
    "serviceBusDataSender",
    "keyVaultSecretsUser",
    "monitoringMetricsPublisher",
)
"""The roles of infra/roles.json that the app's identity has."""
_WEB, _ROLES = "2025-03-01", "2022-04-01"


def site_of(deployment: Deployment) -> str:
    """Returns the app's id. Raises NotChecked where the environment does not name it."""
    missing = [name for name in VARIABLES if not deployment.environment.get(name)]
    if missing:
        raise NotChecked(f"{', '.join(missing)} not set")
    subscription, group, app = (deployment.environment[name] for name in VARIABLES)
    return f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Web/sites/{app}"


def web_settings(deployment: Deployment, site: str) -> dict[str, str]:
    """Returns the app's settings as Azure has them; secrets are references."""
    given: dict[str, str] = deployment.arm("POST", f"{site}/config/appsettings/list", _WEB)["properties"]
    return given


def settings(deployment: Deployment) -> str:
    """Every setting that the app needs is set, and every reference into the vault is resolved."""
    site = site_of(deployment)
    given = web_settings(deployment, site)
    needed = {name.upper() for name, field in Settings.model_fields.items() if field.is_required()}
    needed |= {"STORAGE_ACCOUNT_NAME", "SERVICEBUS_NAMESPACE", "AzureWebJobsStorage__queueServiceUri"}
    missing = sorted(name for name in needed if not given.get(name))
    expect(not missing, f"these settings are not set: {', '.join(missing)}")
    found = deployment.arm("GET", f"{site}/config/configreferences/appsettings", _WEB)["value"]
    states = {each["name"].rpartition("/")[2]: each["properties"]["status"] for each in found}
    expect(bool(states), "no setting refers to the vault")
    wrong = [f"{name}: {state}" for name, state in sorted(states.items()) if state != "Resolved"]
    expect(not wrong, f"references that are not resolved: {', '.join(wrong)}")
    return f"{len(given)} settings, {len(states)} references"


def roles(deployment: Deployment) -> str:
    """The app's identity has its roles, and no more."""
    site = site_of(deployment)
    client_id = web_settings(deployment, site)["MANAGED_IDENTITY_CLIENT_ID"]
    identities: dict[str, Any] = deployment.arm("GET", site, _WEB)["identity"]["userAssignedIdentities"]
    (principal,) = (each["principalId"] for each in identities.values() if each["clientId"] == client_id)
    scope = site.partition("/providers/")[0]
    path = f"{scope}/providers/Microsoft.Authorization/roleAssignments"
    found = deployment.arm("GET", path, _ROLES, {"$filter": f"assignedTo('{principal}')"})["value"]
    given = {each["properties"]["roleDefinitionId"].rpartition("/")[2] for each in found}
    known: dict[str, str] = json.loads((ROOT / "infra" / "roles.json").read_text(encoding="utf-8"))
    names = {identity: name for name, identity in known.items()}
    missing = [name for name in APP_ROLES if known[name] not in given]
    expect(not missing, f"the app does not have the roles {', '.join(missing)}")
    more = [names.get(identity, identity) for identity in given - {known[name] for name in APP_ROLES}]
    expect(not more, f"the app has more roles than it needs: {', '.join(sorted(more))}")
    return f"{len(given)} roles"


def memory(deployment: Deployment) -> str:
    """The memory of an instance suffices for as many bodies at a time as the platform and the host let in."""
    sites = [site_of(deployment)]
    if uploads := deployment.environment.get("AZURE_UPLOADS_APP_NAME"):
        sites.append(f"{sites[0].rpartition('/')[0]}/{uploads}")
    for site in sites:
        scale = deployment.arm("GET", site, _WEB)["properties"]["functionAppConfig"]["scaleAndConcurrency"]
        instance = Instance(
            memory_mb=scale["instanceMemoryMB"],
            concurrency=scale["triggers"]["http"]["perInstanceConcurrency"],
            settings=web_settings(deployment, site),
        )
        shortage = instance.shortage()
        expect(shortage is None, f"{site.rpartition('/')[2]}: {shortage}")
    return f"{len(sites)} apps"


CHECKS = (Check("settings", settings), Check("roles", roles), Check("memory", memory))
