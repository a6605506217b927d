"""Values that Azure refuses although the types allow them: durations, ranges, sets of sizes, address ranges.

Sources: Azure's documentation of each resource type and of its limits. Rules of alerts: alert_rules.py.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any

from tools.local.templates.values import Deployed, Finding, Resource, Value

DURATION = re.compile(
    r"P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?"
)
DURATIONS = {
    "autoDeleteOnIdle": ("PT5M", None),
    "defaultMessageTimeToLive": ("PT1S", None),
    "duplicateDetectionHistoryTimeWindow": ("PT20S", "P7D"),
    "lockDuration": ("PT5S", "PT5M"),
    "evaluationFrequency": ("PT1M", "P1D"),
    "windowSize": ("PT1M", "P2D"),
}
"""Names of properties that are durations, with the shortest and the longest that Azure takes."""
MESSAGING_UNITS = {1, 2, 4, 8, 16}
MESSAGE_BYTES = {"Standard": 256 * 1024, "Premium": 1024 * 1024}
"""Largest message. Premium takes larger ones only in topics that are configured for it."""
QUEUE_BATCH = 32
_SAMPLERS = ("always_on", "always_off", "traceidratio")
SAMPLERS = {*_SAMPLERS, *(f"parentbased_{name}" for name in _SAMPLERS)}
"""Samplers in OpenTelemetry's specification of environment variables."""
VAULT_DAYS = range(7, 91)
LOG_DAYS = range(30, 731)
ZONES = {"Standard_ZRS", "Standard_GZRS", "Standard_RAGZRS"}
_ROLE = re.compile(r"/providers/Microsoft\.Authorization/roleDefinitions/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def problems(root: Deployed) -> Iterator[Finding]:
    """What is refused of the values in a deployment."""
    deployed = list(root.all_resources())
    for each in deployed:
        yield from _durations(each, each.body)
        if each.type in _RULES:
            for text in _RULES[each.type](each, deployed):
                yield Finding(each.place, text)


def duration(text: str) -> timedelta | None:
    """An ISO 8601 duration of weeks, days and times; None if it is none."""
    found = DURATION.fullmatch(text)
    return timedelta(**{unit: int(count or 0) for unit, count in found.groupdict().items()}) if found else None


def _durations(resource: Resource, value: Value, name: str = "") -> Iterator[Finding]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _durations(resource, inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _durations(resource, inner, name)
    elif name in DURATIONS and isinstance(value, str):
        shortest, longest = DURATIONS[name]
        length, least = duration(value), duration(shortest)
        most = duration(longest) if longest else timedelta.max
        assert least is not None
        assert most is not None
        if length is None:
            yield Finding(resource.place, f"{name}: {value!r} is no duration such as {shortest}")
        elif not least <= length <= most:
            yield Finding(resource.place, f"{name} has to be {shortest} to {longest or 'any length'}, not {value}")


def _vault(vault: Resource, _: list[Resource]) -> Iterator[str]:
    days = vault.body["properties"].get("softDeleteRetentionInDays", 90)
    if days not in VAULT_DAYS:
        yield f"softDeleteRetentionInDays is 7 to 90, not {days}"


def _workspace(workspace: Resource, _: list[Resource]) -> Iterator[str]:
    days = workspace.body["properties"].get("retentionInDays", 30)
    if days not in LOG_DAYS:
        yield f"retentionInDays is 30 to 730, not {days}"
    cap = workspace.body["properties"].get("workspaceCapping", {}).get("dailyQuotaGb", -1)
    if cap != -1 and float(cap) <= 0:
        yield f"a daily cap of {cap} GB keeps no logs at all"


def _namespace(namespace: Resource, _: list[Resource]) -> Iterator[str]:
    sku = namespace.body["sku"]
    if sku["name"] == "Premium" and sku.get("capacity") not in MESSAGING_UNITS:
        yield f"Premium has {sorted(MESSAGING_UNITS)} messaging units, not {sku.get('capacity')}"


def _plan(plan: Resource, deployed: list[Resource]) -> Iterator[str]:
    if not plan.body["properties"].get("zoneRedundant"):
        return
    for account in _of_type(deployed, "Microsoft.Storage/storageAccounts"):
        if account.body["sku"]["name"] not in ZONES:
            yield f"the app survives the loss of a zone, and its storage, {account.body['sku']['name']}, does not"


def _lifecycle(policy: Resource, deployed: list[Resource]) -> Iterator[str]:
    containers = {
        each.name.rpartition("/")[2]
        for each in _of_type(deployed, "Microsoft.Storage/storageAccounts/blobServices/containers")
    }
    for rule in policy.body["properties"]["policy"]["rules"]:
        for prefix in rule["definition"]["filters"].get("prefixMatch", []):
            if prefix.partition("/")[0] not in containers:
                yield f"the rule {rule['name']} is about {prefix}, which is in no container"


def _network(network: Resource, _: list[Resource]) -> Iterator[str]:
    properties = network.body["properties"]
    try:
        space = [ipaddress.ip_network(each) for each in properties["addressSpace"]["addressPrefixes"]]
        subnets = {
            each["name"]: ipaddress.ip_network(each["properties"]["addressPrefix"]) for each in properties["subnets"]
        }
    except ValueError as error:
        yield f"an address range cannot be used: {error}"
        return
    for name, addresses in subnets.items():
        if not any(_within(addresses, each) for each in space):
            yield f"the subnet {name}, {addresses}, is not within the network"
    for (one, first), (other, second) in combinations(subnets.items(), 2):
        if first.overlaps(second):
            yield f"the subnets {one}, {first}, and {other}, {second}, overlap"


def _within(inner: Any, outer: Any) -> bool:
    return inner.version == outer.version and bool(inner.subnet_of(outer))


def _role(assignment: Resource, _: list[Resource]) -> Iterator[str]:
    role = str(assignment.body["properties"].get("roleDefinitionId"))
    if not _ROLE.search(role):
        yield f"{role} is no id of a role"


def _settings(settings: Resource, deployed: list[Resource]) -> Iterator[str]:
    given = settings.body["properties"]
    batch = int(given.get("AzureFunctionsJobHost__extensions__queues__batchSize", "16"))
    if not 1 <= batch <= QUEUE_BATCH:
        yield f"the host takes 1 to {QUEUE_BATCH} messages of a queue at a time, not {batch}"
    for namespace in _of_type(deployed, "Microsoft.ServiceBus/namespaces"):
        most = MESSAGE_BYTES.get(str(namespace.body["sku"]["name"]), 0)
        size = int(given.get("EVENT_SIZE_LIMIT", "0"))
        if size > most:
            yield f"an event of {size} bytes (EVENT_SIZE_LIMIT) is more than the {most} of the namespace's tier"
    sampler = given.get("OTEL_TRACES_SAMPLER", "always_on")
    if sampler not in SAMPLERS:
        yield f"OpenTelemetry has no sampler {sampler}, and would keep every trace"
    share = given.get("OTEL_TRACES_SAMPLER_ARG", "1")
    if not re.fullmatch(r"0(\.\d+)?|1(\.0+)?", str(share)):
        yield f"OTEL_TRACES_SAMPLER_ARG is a share from 0 to 1, not {share}"


def _of_type(deployed: list[Resource], kind: str) -> Iterator[Resource]:
    return (each for each in deployed if each.type == kind)


_RULES: dict[str, Callable[[Resource, list[Resource]], Iterator[str]]] = {
    "Microsoft.Authorization/roleAssignments": _role,
    "Microsoft.KeyVault/vaults": _vault,
    "Microsoft.Network/virtualNetworks": _network,
    "Microsoft.OperationalInsights/workspaces": _workspace,
    "Microsoft.ServiceBus/namespaces": _namespace,
    "Microsoft.Storage/storageAccounts/managementPolicies": _lifecycle,
    "Microsoft.Web/serverfarms": _plan,
    "Microsoft.Web/sites/config": _settings,
}
