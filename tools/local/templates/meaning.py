"""Checks between the resources of a deployment: nothing is declared twice, nothing is missing, and everything is
deployed before it is used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tools.local.templates.values import Deployed, Finding, Resource, Unknown, Value, answer, is_late

_ID = re.compile(r"/subscriptions/[^\s;,']+/providers/[^\s;,']+")
_BUILT_IN = "/providers/Microsoft.Authorization/roleDefinitions/"
_IDENTITY, _ROLE = "Microsoft.ManagedIdentity/userAssignedIdentities", "Microsoft.Authorization/roleAssignments"


def problems(root: Deployed) -> Iterator[Finding]:
    """Yields what is wrong between the resources of a deployment."""
    deployed = list(root.all_resources())
    for identity, count in Counter(each.id.lower() for each in deployed).items():
        if count > 1:
            yield Finding("main.bicep", f"{identity} is deployed {count} times")
    for name, count in Counter(each.name.lower() for each in root.everything()).items():
        if count > 1:
            yield Finding("main.bicep", f"{count} modules have the name {name}: one deployment would replace the other")
    for module in root.everything():
        for name in (name for name, value in module.given.items() if is_late(value)):
            yield Finding(
                f"{module.file.path.name}", f"{name} is known only later: what-if leaves out all of {module.name}"
            )
    by_id = {each.id.lower(): each for each in deployed}
    for each in root.all_resources(existing=True):
        yield from _existing(each, by_id)
    for each in deployed:
        yield from _mentioned(each, by_id)
        yield from _roles(each, deployed)


def before(resource: Resource) -> set[str]:
    """Returns the ids, in lower case, of all that is deployed before a resource."""
    found = _of_symbols(resource.within, resource.within.closure(resource.symbol))
    return found | _before_module(resource.within)


def _before_module(module: Deployed) -> set[str]:
    if module.parent is None:
        return set()
    return _of_symbols(module.parent, module.parent.closure(module.symbol)) | _before_module(module.parent)


def _of_symbols(module: Deployed, symbols: set[str]) -> set[str]:
    found = {each.id.lower() for each in module.resources if each.symbol in symbols and each.deployed}
    for inner in module.modules.values():
        if inner.symbol in symbols:
            found |= {each.id.lower() for each in inner.all_resources()}
    return found


MADE_BEFORE = {
    "Microsoft.KeyVault/vaults/secrets": r"worker-[-a-z0-9]+-(access-token|bewit)|notify-(access-token|channels)",
    "Microsoft.ContainerRegistry/registries": r"[A-Za-z0-9]{5,50}",
}
"""Names of secrets that an operator makes before the templates name them: docs/workers-azure.md."""


def _existing(resource: Resource, by_id: dict[str, Resource]) -> Iterator[Finding]:
    target = by_id.get(resource.id.lower())
    name = resource.name.rpartition("/")[2]
    if target is None and not resource.deployed:
        return
    if target is None and re.fullmatch(MADE_BEFORE.get(resource.type, "(?!)"), name):
        return
    if target is None:
        yield Finding(resource.place, f"{resource.symbol} is taken to exist, and nothing deploys {resource.name}")
    elif target.within is resource.within:
        yield Finding(resource.place, f"{resource.symbol} is declared in this file: nothing waits for an existing one")
    elif target.id.lower() not in _before_module(resource.within):
        yield Finding(resource.place, f"{resource.name} is used before it is deployed ({target.place})")


def _mentioned(resource: Resource, by_id: dict[str, Resource]) -> Iterator[Finding]:
    """Checks that the ids in a body are those of resources that are deployed, and earlier."""
    earlier = before(resource)
    own = f"/subscriptions/{resource.within.where[0]}/"
    for text in _texts(resource.body):
        for identity in _ID.findall(text):
            if _BUILT_IN in identity or not identity.startswith(own):
                continue
            target = by_id.get(identity.lower()) or _network_of(identity, by_id)
            if target is None:
                yield Finding(resource.place, f"{identity} is nothing that is deployed")
            elif target.id.lower() not in earlier and target is not resource:
                yield Finding(resource.place, f"{identity} is used before it is deployed ({target.place})")


def _network_of(identity: str, by_id: dict[str, Resource]) -> Resource | None:
    """Returns the network whose body has a subnet."""
    network, _, subnet = identity.partition("/subnets/")
    found = by_id.get(network.lower())
    if not subnet or found is None:
        return None
    return found if subnet in {each["name"] for each in found.body["properties"]["subnets"]} else None


def _roles(resource: Resource, deployed: list[Resource]) -> Iterator[Finding]:
    """Checks that the roles of a resource's identities are deployed before the resource, which needs them to start."""
    identities = resource.body.get("identity", {}).get("userAssignedIdentities", {})
    principals = {answer(_IDENTITY, each.rpartition("/")[2], "properties.principalId") for each in identities}
    earlier = before(resource)
    for role in deployed:
        if (
            role.type == _ROLE
            and role.body["properties"]["principalId"] in principals
            and role.id.lower() not in earlier
        ):
            yield Finding(resource.place, f"{resource.name} does not wait for the role assignment at {role.place}")


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value


def unknowns(root: Deployed) -> list[str]:
    """Returns what could not be checked: values that only Azure knows, with where they are used."""
    found: set[str] = set()
    for resource in root.all_resources():
        for path, value in _paths(resource.body):
            if isinstance(value, Unknown):
                found.add(f"{resource.place} {resource.type} {path}: {value.what}")
    return sorted(found)


def _paths(value: Value, path: str = "") -> Iterator[tuple[str, Value]]:
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, f"{path}[{index}]")
