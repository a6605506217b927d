"""What Azure has: groups, resources, secrets and packages of one subscription, and which apps run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.local.templates import values
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed, Reference, Unknown, is_late

SUBSCRIPTION, TENANT = values.SUBSCRIPTION, values.TENANT
PERSON = "11111111-aaaa-bbbb-cccc-000000000001"
"""The id of the person who has signed in."""
ROOT = f"/subscriptions/{SUBSCRIPTION}"
SITE, PLAN, VAULT = "Microsoft.Web/sites", "Microsoft.Web/serverfarms", "Microsoft.KeyVault/vaults"
_REFERENCE = re.compile(r"@Microsoft\.KeyVault\(SecretUri=https://([\w-]+)\.vault\.azure\.net/secrets/([\w-]+)/\)")


class NotFoundError(LookupError):
    """There is no such resource."""


@dataclass
class Cloud:
    """The state of the subscription."""

    infra: Path
    """Folder of the templates that deployments are about."""
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Resources by id, in lower case."""
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """All versions of each secret, by vault and name."""
    deleted_vaults: dict[str, str] = field(default_factory=dict)
    """The group that each deleted vault was in, by the vault's name."""
    packages: dict[str, bytes] = field(default_factory=dict)
    fetched: dict[str, dict[str, str]] = field(default_factory=dict)
    """The settings that each app's process has, with the secrets that were fetched for it, by app."""
    stopped: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    """Apps whose role on the vault is not in force yet, as in the first minutes."""
    unregistered: set[str] = field(default_factory=set)
    """Resource providers that the subscription has not registered."""
    events: list[str] = field(default_factory=list)
    """What was done, in order."""

    def evaluated(self, parameters: Mapping[str, Any]) -> Deployed:
        """Returns what the templates would deploy with these parameters."""
        found = deploy(self.infra / "main.bicep", parameters)
        assert not found.all_findings(), [str(each) for each in found.all_findings()]
        return found

    def deploy(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Deploys to the subscription at once. `given` is the body of the request."""
        parameters = {key: each["value"] for key, each in given["properties"]["parameters"].items()}
        evaluated = self.evaluated(parameters)
        made = [plain(each) for each in evaluated.all_resources()]
        for each in made:
            self._put(each)
        secure = {"rootAccessToken", "messageSigningKeys", "accessTokenKeys"}
        self.deployments[name] = {
            "id": f"{ROOT}/providers/Microsoft.Resources/deployments/{name}",
            "name": name,
            "type": "Microsoft.Resources/deployments",
            "location": given.get("location"),
            "tags": given.get("tags", {}),
            "properties": {
                "provisioningState": "Succeeded",
                "templateHash": template_hash(given["properties"].get("template")),
                "timestamp": f"2026-01-01T00:00:{len(self.deployments):02}Z",
                "parameters": {
                    key: {"type": "SecureString"} if key in secure else {"type": "String", "value": value}
                    for key, value in parameters.items()
                },
                "outputs": {key: {"type": "String", "value": str(value)} for key, value in evaluated.outputs.items()},
                "outputResources": [{"id": each["id"]} for each in made],
            },
        }
        self.events.append(f"deployed {parameters['environmentName']}")
        return self.deployments[name]

    def predicted(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a deployment would change, without modules whose parameters are outputs of others."""
        changes: list[dict[str, Any]] = []
        diagnostics: list[dict[str, Any]] = []
        for module in deploy(self.infra / "main.bicep", parameters).everything():
            if any(map(is_late, module.given.values())):
                text = f"The nested deployment {module.name} was not expanded: its parameters have a reference."
                code = "NestedDeploymentShortCircuited"
                diagnostics.append({"code": code, "level": "Warning", "message": text, "target": module.name})
                continue
            for each in module.resources:
                if each.deployed and not each.existing:
                    after, before = plain(each), self.resources.get(each.id.lower())
                    kind = "Create" if before is None else "NoChange" if before == after else "Modify"
                    delta = [] if kind != "Modify" else _delta(before, after)
                    sides = {"before": before, "after": after, "delta": delta}
                    changes.append({"resourceId": each.id, "changeType": kind, **sides})
        named = {each["resourceId"].lower() for each in changes}
        for key in self.resources.keys() - named:
            kept = self.resources[key]
            changes.append({"resourceId": kept["id"], "changeType": "Ignore", "before": kept, "after": None})
        return {"status": "Succeeded", "changes": changes, "diagnostics": diagnostics, "error": None}

    def _put(self, resource: dict[str, Any]) -> None:
        kind, key = resource["type"], resource["id"].lower()
        if kind == f"{VAULT}/secrets":
            vault, _, name = resource["name"].partition("/")
            self.set_secret(vault, name, resource["properties"]["value"])
            resource = {**resource, "properties": {}}
        new = key not in self.resources
        self.resources[key] = resource
        if kind == SITE and new:
            self.denied.add(resource["name"])
        if kind == f"{SITE}/config":
            self.fetch(resource["name"].partition("/")[0])

    def set_secret(self, vault: str, name: str, value: str) -> None:
        """Adds a version of a secret."""
        self.secrets.setdefault(vault, {}).setdefault(name, []).append(value)
        key = f"{self.one(VAULT, vault)['id']}/secrets/{name}".lower() if self.named(VAULT, vault) else ""
        if key:
            self.resources.setdefault(key, {"id": key, "name": f"{vault}/{name}", "type": f"{VAULT}/secrets"})

    def of_type(self, kind: str, group: str = "") -> list[dict[str, Any]]:
        """Returns the resources of a type, in a group if one is named."""
        within = f"/resourcegroups/{group}/".lower() if group else ""
        return [each for key, each in self.resources.items() if each["type"].lower() == kind.lower() and within in key]

    def named(self, kind: str, name: str) -> list[dict[str, Any]]:
        """Returns the resources of a type with this name, in any group."""
        return [each for each in self.of_type(kind) if each["name"] == name]

    def one(self, kind: str, name: str) -> dict[str, Any]:
        """Returns the resource of a type with this name. Raises NotFoundError."""
        found = self.named(kind, name)
        if not found:
            raise NotFoundError(f"{kind} {name}")
        return found[0]

    def groups(self) -> list[str]:
        """Returns the names of the resource groups."""
        return [each["name"] for each in self.of_type("Microsoft.Resources/resourceGroups")]

    # Apps

    def settings(self, app: str) -> dict[str, str]:
        """Returns the app's settings as they are kept, with references."""
        found: dict[str, str] = self.one(f"{SITE}/config", f"{app}/appsettings")["properties"]
        return found

    def references(self, app: str) -> Iterator[tuple[str, str, str]]:
        """Yields each setting that refers to a secret, with the state of the reference and the secret's present
        value."""
        for name, value in self.settings(app).items():
            if found := _REFERENCE.fullmatch(value):
                versions = self.secrets.get(found[1], {}).get(found[2])
                state = "AccessToKeyVaultDenied" if app in self.denied else "Resolved" if versions else "SecretNotFound"
                yield name, state, versions[-1] if state == "Resolved" and versions else value

    def fetch(self, app: str) -> None:
        """Fetches an app's secrets again, as the platform does after a change of settings, or when it is asked to."""
        self.fetched[app] = {**self.settings(app), **{name: value for name, _, value in self.references(app)}}
        self.events.append(f"fetched secrets of {app}")

    def publish(self, app: str, package: bytes) -> None:
        """Takes an app's package, and starts the app."""
        self.packages[app] = package
        self.stopped.discard(app)
        self.events.append(f"published {app}")

    def runs(self, app: str) -> bool:
        """Whether the app answers."""
        return app in self.packages and app not in self.stopped


def template_hash(template: Any) -> str:
    """Returns the hash by which azd recognises a template that it has deployed before."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()


def plain(resource: values.Resource) -> dict[str, Any]:
    """Returns a resource as Azure shows it, with what it has made up."""
    body = as_given({**resource.body, "name": resource.name})
    properties = body.setdefault("properties", {})
    if resource.type == SITE:
        host = f"{resource.name}.azurewebsites.net"
        repository = f"{resource.name}.scm.azurewebsites.net"
        properties |= {
            "defaultHostName": host,
            "hostNames": [host],
            "state": "Running",
            "hostNameSslStates": [
                {"name": host, "hostType": "Standard"},
                {"name": repository, "hostType": "Repository"},
            ],
        }
        identities = body["identity"]["userAssignedIdentities"]
        for each in identities:
            identities[each] = _identity(each)
    if resource.type == "Microsoft.ManagedIdentity/userAssignedIdentities":
        properties |= _identity(resource.id)
    return {"id": resource.id, "type": resource.type, "location": "", "tags": {}, **body}


def _delta(before: Any, after: Any) -> list[dict[str, Any]]:
    """Returns the properties in which two resources differ, in the nested form of Azure's prediction."""
    found = []
    for name in [*before, *(each for each in after if each not in before)]:
        old, new = before.get(name), after.get(name)
        if old != new:
            inside = _delta(old, new) if isinstance(old, dict) and isinstance(new, dict) else None
            kind = {"path": name, "propertyChangeType": "Modify", "children": inside}
            found.append({**kind, "before": old, "after": new})
    return found


def _identity(resource_id: str) -> dict[str, str]:
    name = resource_id.rpartition("/")[2]
    kind = "Microsoft.ManagedIdentity/userAssignedIdentities"
    return {each: values.answer(kind, name, f"properties.{each}") or "" for each in ("principalId", "clientId")}


def as_given(value: Any) -> Any:
    """Returns a value as a request has it, without nulls, and with names in place of what only Azure knows."""
    if isinstance(value, Reference):
        return f"{value.resource.id}#{'.'.join(value.path)}"
    if isinstance(value, Unknown):
        return f"({value.what})"
    if isinstance(value, dict):
        return {name: as_given(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [as_given(each) for each in value]
    return json.loads(json.dumps(value))
