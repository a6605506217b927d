"""What others expect of a deployment: azd its tags, private DNS its zones, the storage account only HTTPS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.local.state import ROOT
from tools.local.templates.values import Deployed, Finding, Resource, Value

_STORAGE = "Microsoft.Storage/storageAccounts"
ZONES = {
    (_STORAGE, "blob"): "privatelink.blob.core.windows.net",
    (_STORAGE, "queue"): "privatelink.queue.core.windows.net",
    (_STORAGE, "table"): "privatelink.table.core.windows.net",
    ("Microsoft.KeyVault/vaults", "vault"): "privatelink.vaultcore.azure.net",
    ("Microsoft.ServiceBus/namespaces", "namespace"): "privatelink.servicebus.windows.net",
    ("Microsoft.Web/sites", "sites"): "privatelink.azurewebsites.net",
}
"""Sub-resources of private endpoints, and the zones in which their names are looked up ("Azure private endpoint DNS
values" of the documentation)."""
GLOBAL = {"Microsoft.Network/privateDnsZones", "Microsoft.Network/privateDnsZones/virtualNetworkLinks"}
"""Types that have no region."""


def problems(root: Deployed) -> Iterator[Finding]:
    """What azd, DNS or clients would not find, or would find otherwise than expected."""
    deployed = {each.id.lower(): each for each in root.all_resources()}
    for each in deployed.values():
        yield from (Finding(each.place, text) for text in _of(each, deployed))


def _of(resource: Resource, deployed: dict[str, Resource]) -> Iterator[str]:
    if resource.type in GLOBAL and resource.body.get("location") != "global":
        yield f"the location of {resource.type} is 'global'"
    match resource.type:
        case "Microsoft.Resources/resourceGroups" if "azd-env-name" not in resource.body.get("tags", {}):
            yield "azd finds its resource group by the tag azd-env-name"
        case "Microsoft.Web/sites" if resource.body.get("tags", {}).get("azd-service-name") not in services():
            yield f"azd finds the app by the tag azd-service-name, one of {', '.join(sorted(services()))}"
        case "Microsoft.Storage/storageAccounts":
            if resource.body["properties"].get("supportsHttpsTrafficOnly") is not True:
                yield "storage has to refuse plain HTTP: supportsHttpsTrafficOnly"
        case "Microsoft.Network/privateEndpoints":
            yield from _endpoint(resource, deployed)


def _endpoint(endpoint: Resource, deployed: dict[str, Resource]) -> Iterator[str]:
    zones = {
        str(each["properties"]["privateDnsZoneId"]).rpartition("/")[2]
        for group in deployed.values()
        if group.type.endswith("/privateDnsZoneGroups") and group.id.lower().startswith(f"{endpoint.id.lower()}/")
        for each in group.body["properties"]["privateDnsZoneConfigs"]
    }
    for connection in endpoint.body["properties"]["privateLinkServiceConnections"]:
        target = deployed.get(str(connection["properties"]["privateLinkServiceId"]).lower())
        for name in connection["properties"]["groupIds"]:
            zone = ZONES.get((target.type if target else "", name))
            if zone is None:
                yield f"{target.type if target else 'what is not deployed'} has no sub-resource {name!r}"
            elif zone not in zones:
                yield f"the names of {name} are looked up in {zone}, not in {', '.join(sorted(zones)) or 'no zone'}"


def services() -> set[Value]:
    """Names of the services in azure.yaml."""
    text = (ROOT / "azure.yaml").read_text(encoding="utf-8").partition("\nservices:\n")[2]
    return set(re.findall(r"^  ([a-z-]+):$", text.partition("\nhooks:")[0], re.MULTILINE))
