"""Lists which changes of a deployment are dangerous: each guard, with the changes that it takes for one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.local.deployments.differences import GUARDS, KINDS

FILE = Path(__file__).parent / "dangers.txt"
_SWITCH, _LIST, _NUMBER = (None, True, False), (None, ["a"], ["a", "b"], ["b"]), (None, 1, 2)
VALUES: Mapping[str, tuple[Any, ...]] = {
    "publicNetworkAccess": ("Enabled", "Disabled"),
    "virtualNetworkSubnetId": (None, "/subnet"),
    "defaultAction": ("Allow", "Deny"),
    "ipRules": _LIST,
    "allowBlobPublicAccess": _SWITCH,
    "allowSharedKeyAccess": _SWITCH,
    "publicAccess": ("None", "Blob"),
    "name": (
        *("Basic", "Standard", "Premium"),
        *(f"Standard_{copies}" for copies in ("LRS", "ZRS", "GRS", "RAGRS", "GZRS", "RAGZRS")),
    ),
    "capacity": _NUMBER,
    "zoneRedundant": _SWITCH,
    "maximumInstanceCount": _NUMBER,
    "instanceMemoryMB": _NUMBER,
    "alwaysReady": ([], [{"instanceCount": 3}], [{"instanceCount": 1}, {"instanceCount": 1}]),
    "enabled": _SWITCH,
    "actionGroups": _LIST,
    "actions": _LIST,
    "allOf": tuple(
        [{"name": "a", "operator": operator, "threshold": number}]
        for operator in ("LessThan", "GreaterThan")
        for number in (1, 2)
    ),
    "emailReceivers": _LIST,
    "notifications": _LIST,
    "retentionInDays": _NUMBER,
    "days": _NUMBER,
    "defaultMessageTimeToLive": ("PT1H", "PT90M", "P1D", "P1W"),
    "rules": (
        [],
        *(
            [{"definition": {"actions": {"baseBlob": {"delete": {"daysAfterModificationGreaterThan": days}}}}}]
            for days in (1, 2)
        ),
    ),
}
"""Sample values of properties, by the last word of their path."""


def text() -> str:
    """Returns the whole list as text."""
    parts = [f"{word}: {means}\n" for word, means in KINDS.items()]
    for guard in GUARDS:
        parts.append(f"{guard.kind}: {guard.type} {guard.path}: {guard.says}\n")
        values = VALUES[guard.path.rpartition(".")[2]]
        for before in values:
            found = [str(after) for after in values if after != before and guard.worse(before, after)]
            parts += [f"    {before} to {', '.join(found)}\n"] if found else []
    return "".join(parts)


if __name__ == "__main__":
    FILE.write_text(text())
