"""Values of evaluated templates, those that only Azure knows among them, and the resources that they make up."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.local.templates.expressions import File
from tools.local.templates.shapes import Shape

Value = Any
"""A string, number, boolean, None, list or dict of values, or one of the classes below."""

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
TENANT = "99999999-8888-7777-6666-555555555555"


class Finding(ValueError):
    """Something that Azure or the Bicep compiler would refuse, with its place; raised where evaluation cannot go on."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(f"{place}: {text}")
        self.place, self.text = place, text


class Later(str):
    """A text that is known only once something is deployed: not for names, conditions and loops."""


@dataclass(frozen=True)
class Unknown:
    """Something that only Azure knows, of a known type."""

    what: str
    shape: Shape | None = None


@dataclass(frozen=True)
class Reference:
    """A resource, or an object within its properties. Reading it takes place when it is deployed."""

    resource: Resource
    path: tuple[str, ...] = ()
    shape: Shape | None = None


@dataclass(frozen=True)
class ModuleReference:
    """A module of a template; `outputs` after `.outputs`."""

    module: Deployed | None
    name: str
    place: str
    outputs: bool = False


@dataclass(frozen=True)
class Namespace:
    """What a function such as `subscription()` gives: a few known values."""

    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass
class Resource:
    """One resource, declared or existing."""

    symbol: str
    type: str
    version: str
    name: str
    id: str
    body: dict[str, Value]
    place: str
    existing: bool
    deployed: bool
    within: Deployed = field(repr=False)
    shape: Shape


@dataclass
class Deployed:
    """An evaluated template: main.bicep or a module of it."""

    file: File
    name: str
    group: str | None
    parent: Deployed | None = None
    symbol: str = ""
    resources: list[Resource] = field(default_factory=list)
    modules: dict[str, Deployed] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    needs: dict[str, set[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    keys_read: list[str] = field(default_factory=list)

    def everything(self) -> Iterator[Deployed]:
        """This template and all modules below it."""
        yield self
        for module in self.modules.values():
            yield from module.everything()

    def all_resources(self, *, existing: bool = False) -> Iterator[Resource]:
        """All resources that are deployed, or those that are taken to exist."""
        for each in self.everything():
            yield from (one for one in each.resources if one.existing == existing and (existing or one.deployed))

    def all_findings(self) -> list[Finding]:
        """What is wrong with this and all modules."""
        return [finding for each in self.everything() for finding in each.findings]

    def closure(self, symbol: str) -> set[str]:
        """The symbols of this template that are deployed before the given one."""
        found: set[str] = set()
        waiting = [symbol]
        while waiting:
            for each in self.needs.get(waiting.pop(), set()) - found:
                found.add(each)
                waiting.append(each)
        return found


def is_late(value: Value) -> bool:
    """Whether a value is known only when something is deployed."""
    if isinstance(value, list):
        return any(map(is_late, value))
    if isinstance(value, dict):
        return any(map(is_late, value.values()))
    return isinstance(value, Later | Unknown | Reference)


def hashed(*parts: str, length: int = 13) -> str:
    """Like `uniqueString`: as many characters, of the same alphabet."""
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    return "".join(alphabet[number >> 5 * index & 31] for index in range(length))


def guid(*parts: str) -> str:
    """Like `guid`: the same for the same parts."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\0".join(parts)))


_DOMAINS = {
    "microsoft.storage/storageaccounts": {
        f"properties.primaryEndpoints.{service}": f"https://{{name}}.{service}.core.windows.net/"
        for service in ("blob", "queue", "table")
    },
    "microsoft.web/sites": {"properties.defaultHostName": "{name}.azurewebsites.net"},
    "microsoft.keyvault/vaults": {"properties.vaultUri": "https://{name}.vault.azure.net/"},
    "microsoft.managedidentity/userassignedidentities": {
        "properties.principalId": "{guid}",
        "properties.clientId": "{guid}",
        "properties.tenantId": TENANT,
    },
    "microsoft.insights/components": {
        "properties.ConnectionString": "InstrumentationKey={guid};IngestionEndpoint=https://{name}.in.example/"
    },
}


def answer(resource_type: str, name: str, path: str) -> str | None:
    """The value that Azure would give a property, if it follows from the resource's name; an invented one if any value
    will do."""
    pattern = _DOMAINS.get(resource_type.lower(), {}).get(path)
    return pattern and pattern.format(name=name, guid=guid(name, path))
