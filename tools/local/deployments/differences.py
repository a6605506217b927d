"""What Azure says that a deployment would change (`az deployment sub what-if`), and what of it is dangerous.

Standard library only: hooks run this before anything is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KINDS = {
    "doors": "somebody reaches what nobody reached there",
    "sku": "less is carried, or less is survived",
    "alerts": "somebody is told less",
    "retention": "something is kept for less long",
    "deletion": "something is deleted",
    "replacement": "a new one would be made beside what is there, and used in its place, empty",
    "unseen": "Azure could not say what would change",
}
"""Kinds of changes that nobody wants by accident, by the word that confirms them, with what each would do."""
SINGLE = {
    "microsoft.storage/storageaccounts",
    "microsoft.servicebus/namespaces",
    "microsoft.keyvault/vaults",
    "microsoft.web/sites",
    "microsoft.operationalinsights/workspaces",
}
"""Types of resources with data, or with names in use: one that templates drop is replaced by a new one."""
_REDUNDANCY = ("LRS", "ZRS", "GRS", "RAGRS", "GZRS", "RAGZRS")
_TIERS = ("Basic", "Standard", "Premium")
_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_SECONDS = (604800, 86400, 3600, 60, 1)


def _opened(before: Any, after: Any) -> bool:
    return before in ("Disabled", "Deny", "None") and after != before


def _switched_on(before: Any, after: Any) -> bool:
    return not before and bool(after)


def _switched_off(before: Any, after: Any) -> bool:
    return bool(before) and not after


def _less(before: Any, after: Any) -> bool:
    return before is not None and (after is None or after < before)


def _lost(before: Any, after: Any) -> bool:
    return any(each not in (after or []) for each in before or [])


def _added(before: Any, after: Any) -> bool:
    return _lost(after, before)


def _lower(order: Sequence[str]) -> Callable[[Any, Any], bool]:
    def worse(before: Any, after: Any) -> bool:
        ranks = [
            order.index(last) if (last := str(each).rpartition("_")[2]) in order else -1 for each in (before, after)
        ]
        return ranks[1] < ranks[0]

    return worse


def _instances(before: Any, after: Any) -> bool:
    return _less(*(sum(each["instanceCount"] for each in entries or []) for entries in (before, after)))


def _shorter(before: Any, after: Any) -> bool:
    return _less(*(map(seconds, (before, after))))


def seconds(duration: Any) -> int | None:
    """Returns the length of an ISO 8601 duration; None if it is none."""
    found = _DURATION.fullmatch(str(duration))
    return sum(int(count or 0) * unit for count, unit in zip(found.groups(), _SECONDS, strict=True)) if found else None


def _deletes(before: Any, after: Any) -> bool:
    """Returns whether the new rules delete something that the old ones kept, or delete it sooner."""
    days = [_days(rules) for rules in (before, after)]
    return days[1] < days[0]


def _days(rules: Any) -> float:
    found = [
        action["daysAfterModificationGreaterThan"]
        for rule in rules or []
        if (action := rule["definition"]["actions"].get("baseBlob", {}).get("delete"))
    ]
    return min(found, default=float("inf"))


def _deaf(before: Any, after: Any) -> bool:
    """Returns whether an alert's criteria are harder to meet than before."""
    for old, new in zip(before or [], after or [], strict=False):
        change = float(new.get("threshold", 0)) - float(old.get("threshold", 0))
        if (change < 0) if str(old.get("operator", "")).startswith("Less") else (change > 0):
            return True
    return _lost([each.get("name") for each in before or []], [each.get("name") for each in after or []])


@dataclass(frozen=True)
class Guard:
    """A property that can be changed in a dangerous way. Types are in lower case, as ids may have them in any."""

    kind: str
    type: str
    path: str
    worse: Callable[[Any, Any], bool]
    says: str


_SITE, _STORAGE, _BUS = "microsoft.web/sites", "microsoft.storage/storageaccounts", "microsoft.servicebus/namespaces"
_VAULT, _WORKSPACE = "microsoft.keyvault/vaults", "microsoft.operationalinsights/workspaces"
_SCALE = "properties.functionAppConfig.scaleAndConcurrency"
_QUERY, _METRIC = "microsoft.insights/scheduledqueryrules", "microsoft.insights/metricalerts"
_GROUP, _BUDGET = "microsoft.insights/actiongroups", "microsoft.consumption/budgets"
_BLOBS = "microsoft.storage/storageaccounts/blobservices"
_OPEN = "properties.publicNetworkAccess"
GUARDS = (
    *(
        Guard("doors", kind, _OPEN, _opened, "the public network reaches it")
        for kind in (_SITE, _STORAGE, _BUS, _VAULT)
    ),
    Guard("doors", _SITE, "properties.virtualNetworkSubnetId", _switched_off, "it leaves its network"),
    *(
        Guard("doors", kind, "properties.networkAcls.defaultAction", _opened, "any address reaches it")
        for kind in (_STORAGE, _VAULT)
    ),
    Guard("doors", _STORAGE, "properties.networkAcls.ipRules", _added, "more addresses reach it"),
    Guard("doors", _STORAGE, "properties.allowBlobPublicAccess", _switched_on, "blobs may be public"),
    Guard("doors", _STORAGE, "properties.allowSharedKeyAccess", _switched_on, "keys of the account open it"),
    Guard("doors", f"{_BLOBS}/containers", "properties.publicAccess", _opened, "everybody reads it"),
    Guard("sku", _BUS, "sku.name", _lower(_TIERS), "a smaller tier"),
    Guard("sku", _BUS, "sku.capacity", _less, "fewer messaging units"),
    Guard("sku", _STORAGE, "sku.name", _lower(_REDUNDANCY), "fewer copies"),
    Guard("sku", "microsoft.web/serverfarms", "properties.zoneRedundant", _switched_off, "a zone is not survived"),
    Guard("sku", _SITE, f"{_SCALE}.maximumInstanceCount", _less, "fewer instances"),
    Guard("sku", _SITE, f"{_SCALE}.instanceMemoryMB", _less, "smaller instances"),
    Guard("sku", _SITE, f"{_SCALE}.alwaysReady", _instances, "fewer ready instances"),
    *(Guard("alerts", kind, "properties.enabled", _switched_off, "it is off") for kind in (_QUERY, _METRIC, _GROUP)),
    Guard("alerts", _QUERY, "properties.actions.actionGroups", _lost, "it tells nobody"),
    Guard("alerts", _METRIC, "properties.actions", _lost, "it tells nobody"),
    *(Guard("alerts", kind, "properties.criteria.allOf", _deaf, "it needs more to fire") for kind in (_QUERY, _METRIC)),
    Guard("alerts", _GROUP, "properties.emailReceivers", _lost, "an address gets no mail"),
    Guard("alerts", _BUDGET, "properties.notifications", _lost, "a threshold is not told of"),
    Guard("retention", _WORKSPACE, "properties.retentionInDays", _less, "logs"),
    Guard("retention", _BLOBS, "properties.deleteRetentionPolicy.enabled", _switched_off, "deleted blobs"),
    Guard("retention", _BLOBS, "properties.deleteRetentionPolicy.days", _less, "deleted blobs"),
    Guard("retention", f"{_BUS}/topics", "properties.defaultMessageTimeToLive", _shorter, "unread events"),
    Guard("retention", f"{_STORAGE}/managementpolicies", "properties.policy.rules", _deletes, "artifacts"),
)


@dataclass(frozen=True)
class Danger:
    """One dangerous change."""

    kind: str
    what: str


def at(body: Any, path: str) -> Any:
    """Returns a property by its path; None if there is none."""
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def type_of(resource_id: str) -> str:
    """Returns the type of a resource, in lower case."""
    provider, *words = resource_id.lower().rpartition("/providers/")[2].split("/")
    return "/".join((provider, *words[::2]))


def dangers(changes: Sequence[Mapping[str, Any]]) -> Iterator[Danger]:
    """Yields the dangerous changes in Azure's answer."""
    left = {type_of(each["resourceId"]) for each in changes if each["changeType"] == "Ignore"}
    for each in changes:
        kind, name = type_of(each["resourceId"]), each["resourceId"].rpartition("/")[2]
        before, after = each.get("before") or {}, each.get("after") or {}
        if each["changeType"] == "Delete":
            yield Danger("deletion", f"{kind} {name}")
        elif each["changeType"] == "Create" and kind in SINGLE & left:
            yield Danger("replacement", f"{kind} {name}")
        elif each["changeType"] in ("Modify", "Deploy") and before:
            for guard in GUARDS:
                old, new = at(before, guard.path), at(after, guard.path)
                if guard.type == kind and guard.worse(_plain(old), _plain(new)):
                    yield Danger(guard.kind, f"{kind} {name}: {guard.says}: {_short(old)} → {_short(new)}")
        elif each["changeType"] == "Unsupported" and kind in {guard.type for guard in GUARDS}:
            yield Danger("unseen", f"{kind} {name}: {each.get('unsupportedReason', 'no reason is given')}")


def left_out(diagnostics: Sequence[Mapping[str, Any]]) -> Iterator[Danger]:
    """Yields a danger for each resource that Azure has not looked at: no guard sees what changes there."""
    for each in diagnostics:
        if each.get("level") != "Info":
            yield Danger("unseen", f"{each.get('code')}: {_short(each.get('message'))} ({each.get('target')})")


def _plain(value: Any) -> Any:
    """Reduces a list of objects to their names, so that properties which Azure adds do not count as changes."""
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        for key in ("emailAddress", "actionGroupId", "value"):
            if all(key in each for each in value):
                return [str(each[key]).lower() for each in value]
    return value


def _short(value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value)
    return written if len(written) <= 60 else f"{written[:57]}…"


def lines(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the difference in lines for people. Values of app settings are left out."""
    counts: dict[str, int] = {}
    for each in changes:
        counts[each["changeType"]] = counts.get(each["changeType"], 0) + 1
    yield ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing"
    for each in changes:
        if each["changeType"] in ("NoChange", "Ignore", "NoEffect"):
            continue
        kind = type_of(each["resourceId"])
        yield f"{each['changeType']:8} {kind} {each['resourceId'].rpartition('/')[2]}"
        for path, old, new in _leaves(each.get("delta") or [], ""):
            yield f"    {path}" + ("" if kind.endswith("/config") else f": {_short(old)} → {_short(new)}")


def _leaves(delta: Sequence[Mapping[str, Any]], above: str) -> Iterator[tuple[str, Any, Any]]:
    for each in delta:
        path = f"{above}.{each['path']}".lstrip(".")
        if each.get("propertyChangeType") == "NoEffect":
            continue
        if each.get("children"):
            yield from _leaves(each["children"], path)
        else:
            yield path, each.get("before"), each.get("after")
