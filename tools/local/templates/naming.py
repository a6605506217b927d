"""Azure's rules for names, from "Naming rules and restrictions for Azure resources" of its documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.local.templates.values import Finding, Resource

_GUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
RULES = {
    "Microsoft.Resources/resourceGroups": r"(?=.{1,90}$)[-\w.()]*[-\w()]",
    "Microsoft.ManagedIdentity/userAssignedIdentities": r"[A-Za-z0-9][-\w]{2,127}",
    "Microsoft.Storage/storageAccounts": r"[a-z0-9]{3,24}",
    "Microsoft.Storage/storageAccounts/blobServices": r"default",
    "Microsoft.Storage/storageAccounts/blobServices/containers": r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*",
    "Microsoft.Storage/storageAccounts/managementPolicies": r"default",
    "Microsoft.Storage/storageAccounts/queueServices": r"default",
    "Microsoft.Storage/storageAccounts/queueServices/queues": r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*",
    "Microsoft.Storage/storageAccounts/tableServices": r"default",
    "Microsoft.Storage/storageAccounts/tableServices/tables": r"[A-Za-z][A-Za-z0-9]{2,62}",
    "Microsoft.ServiceBus/namespaces": r"(?!.*(-sb|-mgmt)$)[A-Za-z][-A-Za-z0-9]{4,48}[A-Za-z0-9]",
    "Microsoft.ServiceBus/namespaces/topics": r"(?=.{1,260}$)[A-Za-z0-9]([-\w.~]*[A-Za-z0-9])?",
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": r"[A-Za-z0-9]([-\w.]{0,48}[A-Za-z0-9])?",
    "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules": r"[A-Za-z0-9$]([-\w.]{0,48}[A-Za-z0-9])?",
    "Microsoft.Communication/communicationServices": r"(?=.{1,63}$)[A-Za-z0-9]+(-[A-Za-z0-9]+)*",
    "Microsoft.Communication/emailServices": r"(?=.{1,63}$)[A-Za-z0-9]+(-[A-Za-z0-9]+)*",
    "Microsoft.Communication/emailServices/domains": r"AzureManagedDomain",
    "Microsoft.KeyVault/vaults": r"(?=.{3,24}$)(?!.*--)[A-Za-z][-A-Za-z0-9]*[A-Za-z0-9]",
    "Microsoft.KeyVault/vaults/secrets": r"[-A-Za-z0-9]{1,127}",
    "Microsoft.OperationalInsights/workspaces": r"[A-Za-z0-9][-A-Za-z0-9]{2,61}[A-Za-z0-9]",
    "Microsoft.Insights/components": r"(?=.{1,260}$)[-\w.()]*[-\w()]",
    "Microsoft.Insights/workbooks": _GUID,
    "Microsoft.Insights/actionGroups": r"(?=.{1,260}$)[^:<>+/&%\\?|]*[^:<>+/&%\\?|. ]",
    "Microsoft.Insights/scheduledQueryRules": r"(?=.{1,260}$)[^*<>%{}&:\\?/#]*[^*<>%{}&:\\?/#. ]",
    "Microsoft.Insights/metricAlerts": r"(?=.{1,260}$)[^*#&+:<>?@%{}\\/]*[^*#&+:<>?@%{}\\/. ]",
    "Microsoft.Insights/diagnosticSettings": r"[^*<>%&:\\?/#|]{1,260}",
    "Microsoft.Authorization/roleAssignments": _GUID,
    "Microsoft.Authorization/roleDefinitions": _GUID,
    "Microsoft.Consumption/budgets": r"[-\w]{1,63}",
    "Microsoft.App/managedEnvironments": r"(?=.{2,60}$)(?!.*--)[a-z][-a-z0-9]*[a-z0-9]",
    "Microsoft.App/jobs": r"(?=.{2,32}$)(?!.*--)[a-z][-a-z0-9]*[a-z0-9]",
    "Microsoft.Web/serverfarms": r"[-A-Za-z0-9]{1,60}",
    "Microsoft.Web/sites": r"(?=.{2,60}$)[A-Za-z0-9][-A-Za-z0-9]*[A-Za-z0-9]",
    "Microsoft.Web/sites/config": r"appsettings",
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": r"ftp|scm",
    "Microsoft.Network/virtualNetworks": r"(?=.{2,64}$)[A-Za-z0-9][-\w.]*\w",
    "Microsoft.Network/networkSecurityGroups": r"(?=.{1,80}$)[A-Za-z0-9]([-\w.]*\w)?",
    "Microsoft.Network/privateEndpoints": r"(?=.{2,64}$)[A-Za-z0-9][-\w.]*\w",
    "Microsoft.Network/privateEndpoints/privateDnsZoneGroups": r"[A-Za-z0-9][-\w.]{0,79}",
    "Microsoft.Network/privateDnsZones": r"(?=.{1,63}$)[-a-z0-9]+(\.[-a-z0-9]+)+",
    "Microsoft.Network/privateDnsZones/virtualNetworkLinks": r"[A-Za-z0-9][-\w.]{0,79}",
}
GLOBAL = {
    "Microsoft.Storage/storageAccounts",
    "Microsoft.ServiceBus/namespaces",
    "Microsoft.Communication/communicationServices",
    "Microsoft.Communication/emailServices",
    "Microsoft.KeyVault/vaults",
    "Microsoft.Web/sites",
}
"""Types whose names are taken for all of Azure: two deployments must not have the same."""


def problems(resource: Resource) -> Iterator[Finding]:
    """Yields what is wrong with a resource's name; a type without a rule is wrong, too."""
    rule = RULES.get(resource.type)
    name = resource.name.rpartition("/")[2]
    if rule is None:
        yield Finding(resource.place, f"there is no rule for names of {resource.type} (naming.py)")
    elif not re.fullmatch(rule, name):
        yield Finding(resource.place, f"{name!r} is no name for {resource.type}")
