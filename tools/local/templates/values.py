"""Values of evaluated templates, those that only Azure knows among them, and the resources that they make up."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.local.templates.expressions import File
from tools.local.templates.shapes import Shape

Value = Any
"""A string, number, boolean, None, list or dict of values, or one of the classes below."""

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
TENANT = "00000000-0000-0000-0000-000000000002"
Place = tuple[str, str]
"""Ids of a subscription and of its tenant."""
NOWHERE: Place = (SUBSCRIPTION, TENANT)
"""The place in which templates are evaluated that are only checked."""


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
    """A reference to a resource, or to an object within its properties. It is read when the resource is deployed."""

    resource: Resource
    path: tuple[str, ...] = ()
    shape: Shape | None = None


@dataclass(frozen=True)
class ModuleReference:
    """A reference to a module of a template; `outputs` is true after `.outputs`."""

    module: Deployed | None
    name: str
    place: str
    outputs: bool = False


@dataclass(frozen=True)
class Namespace:
    """The value of a function such as `subscription()`: an object with a few known values."""

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
    where: Place = NOWHERE
    given: Mapping[str, Value] = field(default_factory=dict)
    """The parameters of a module, as its template gives them."""

    def everything(self) -> Iterator[Deployed]:
        """This template and all modules below it."""
        yield self
        for module in self.modules.values():
            yield from module.everything()

    def all_resources(self, *, existing: bool = False) -> Iterator[Resource]:
        """Yields all resources that are deployed, or those that are taken to exist."""
        for each in self.everything():
            yield from (one for one in each.resources if one.existing == existing and (existing or one.deployed))

    def all_findings(self) -> list[Finding]:
        """Returns what is wrong with this and all modules."""
        return [finding for each in self.everything() for finding in each.findings]

    def closure(self, symbol: str) -> set[str]:
        """Returns the symbols of this template that are deployed before the given one."""
        found: set[str] = set()
        waiting = [symbol]
        while waiting:
            for each in self.needs.get(waiting.pop(), set()) - found:
                found.add(each)
                waiting.append(each)
        return found


def is_late(value: Value) -> bool:
    """Returns whether a value is known only when something is deployed."""
    if isinstance(value, list):
        return any(map(is_late, value))
    if isinstance(value, dict):
        return any(map(is_late, value.values()))
    return isinstance(value, Later | Unknown | Reference)


_WORD = 0xFFFFFFFF


def unique_string(*parts: str) -> str:
    """Returns Azure's `uniqueString`: a Murmur hash of 64 bits (two lanes of 32) over the parts, in base 32."""
    text = "-".join(parts).encode()
    lanes = [0, 0]
    whole = len(text) // 8 * 8
    for at in range(0, whole, 8):
        for lane, (turn, add) in enumerate(((19, 0x561CCD1B), (13, 0x0BCAA747))):
            mixed = lanes[lane] ^ _scrambled(text[at + 4 * lane : at + 4 * lane + 4], lane)
            lanes[lane] = (_turned(mixed, turn) + lanes[1 - lane]) * 5 + add & _WORD
    for lane in (0, 1):
        lanes[lane] ^= _scrambled(text[whole + 4 * lane : whole + 4 * lane + 4], lane) ^ len(text)
    for finish in (_avalanche, lambda word: word):
        first = lanes[0] + lanes[1] & _WORD
        lanes = [finish(first), finish(first + lanes[1] & _WORD)]
    number = lanes[1] << 32 | lanes[0]
    return "".join("abcdefghijklmnopqrstuvwxyz234567"[number << 5 * index >> 59 & 31] for index in range(13))


def _turned(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD


def _scrambled(four: bytes, lane: int) -> int:
    """Returns four bytes, multiplied and rotated as their lane is."""
    by = ((0x239B961B, 15, 0xAB0E9789), (0xAB0E9789, 17, 0x239B961B))[lane]
    return _turned(int.from_bytes(four, "little") * by[0] & _WORD, by[1]) * by[2] & _WORD


def _avalanche(word: int) -> int:
    word = (word ^ word >> 16) * 0x85EBCA6B & _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 & _WORD
    return word ^ word >> 16


def guid(*parts: str) -> str:
    """Returns Azure's `guid`: a UUID of version 5 in Azure's own namespace."""
    return str(uuid.uuid5(uuid.UUID("11fb06fb-712d-4ddd-98c7-e71bbd588830"), "-".join(parts)))


_DOMAINS = {
    "microsoft.storage/storageaccounts": {
        f"properties.primaryEndpoints.{service}": f"https://{{name}}.{service}.core.windows.net/"
        for service in ("blob", "queue", "table")
    },
    "microsoft.communication/communicationservices": {"properties.hostName": "{name}.europe.communication.azure.com"},
    "microsoft.communication/emailservices/domains": {"properties.fromSenderDomain": "{guid}.azurecomm.net"},
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
    """Returns the value that Azure would give a property, from the resource's name, or an invented one."""
    pattern = _DOMAINS.get(resource_type.lower(), {}).get(path)
    return pattern and pattern.format(name=name, guid=guid(name, path))
