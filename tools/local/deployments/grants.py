"""The roles that a deployment needs on a storage account that it takes (`storageAccountId`): commands of az.

The templates write nothing into the resource group of such an account: while a region is lost, deployments cannot
change what is in its resource groups. Roles can be assigned even then. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.local.deployments.description import ROOT

APP = ("storageBlobDelegator", "storageQueueDataContributor", "storageTableDataContributor", "storageQueueDelegator")
OPERATOR = ("storageBlobDataContributor", "storageQueueDataContributor", "storageTableDataContributor")
"""The roles of an operator, by their names in infra/roles.json; tests compare both with storageroles.bicep."""


def _document(name: str) -> Any:
    return json.loads((ROOT / "infra" / name).read_text(encoding="utf-8"))


def needed(
    account: str, app: str, deployment: str, operator: tuple[str, str] | None
) -> Iterator[tuple[str, str, str, str]]:
    """Yields each role assignment that is needed: role id, scope, principal and its type."""
    ids, entities = _document("roles.json"), _document("entities.json")
    containers = f"{account}/blobServices/default/containers"
    for role in APP:
        yield ids[role], account, app, "ServicePrincipal"
    for container in (*entities["containers"], *entities["hostContainers"]):
        yield ids["storageBlobDataOwner"], f"{containers}/{container}", app, "ServicePrincipal"
    for container in entities["platformContainers"]:
        yield ids["storageBlobDataContributor"], f"{containers}/{container}", deployment, "ServicePrincipal"
    if operator:
        for role in OPERATOR:
            yield ids[role], account, *operator
