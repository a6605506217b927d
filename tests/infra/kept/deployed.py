"""What the templates deploy, value by value: one deployment whole, of the others what differs from it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.infra import templates
from tests.infra.kept.differences import different, leaves, listed
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate
from tools.local.templates.values import SUBSCRIPTION, TENANT, Deployed, Reference, Unknown, answer, hashed

WHOLE = "large, everything"
OTHERWISE: Mapping[str, Mapping[str, str]] = {
    "large, by a person, with what no other one has": {
        **scenarios.BARE,
        "QUEUE_PROFILE": "large",
        "AZURE_PRINCIPAL_ID": "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee",
        "AZURE_PRINCIPAL_TYPE": "User",
        "QUEUE_OPENID_CLIENT_ID": "c",
        "QUEUE_OPENID_ISSUER": "https://id.example.com",
        "QUEUE_PUBLIC_ARTIFACTS": "true",
        "QUEUE_STORAGE_ALLOWED_ADDRESSES": '["203.0.113.0/24"]',
        "QUEUE_ARTIFACT_CORS_ORIGINS": '["https://example.com"]',
        "QUEUE_ALERT_EMAILS": "ops@example.com",
        "QUEUE_MONTHLY_BUDGET": "100",
        "QUEUE_BUDGET_START": "2026-02-01",
        "QUEUE_PROFILE_OVERRIDES": '{"artifactCoolAfterDays": 30, "artifactDeleteAfterDays": 90, "httpConcurrency": 9}',
        "QUEUE_WORKERS": "my-team/linux",
        "QUEUE_WORKER_IMAGE": "example.org/worker:1",
        "QUEUE_WORKER_OVERRIDES": '{"my-team/linux": {"parallelism": 2, "pollMode": "queue"}}',
        "QUEUE_TAGS": '{"a": "b"}',
    },
    "large, of an account that is taken": {
        **scenarios.CLOSED,
        "QUEUE_PROFILE": "large",
        "QUEUE_STORAGE_ACCOUNT_ID": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/old",
    },
}
_ROLES = "/providers/Microsoft.Authorization/roleDefinitions/"
_TOKEN = hashed(f"/subscriptions/{SUBSCRIPTION}", "my-queue", "westeurope")


def text() -> str:
    """All of it."""
    whole = described(templates.deployed(WHOLE))
    parts = [f"## {WHOLE}\n", *listed(whole)]
    for name in (*templates.SCENARIOS, *OTHERWISE):
        if name != WHOLE:
            other = described(templates.deployed(name) if name in templates.SCENARIOS else evaluate(OTHERWISE[name]))
            parts += [f"\n## {name}: what differs from {WHOLE}\n", *listed(different(whole, other))]
    return "".join(parts)


def described(root: Deployed) -> dict[str, list[str]]:
    """The lines of each resource, by its type and place; of each template: what waits for what, and what it tells."""
    known = _meanings(root)
    pattern = re.compile("|".join(re.escape(each) for each in sorted(known, key=len, reverse=True)))
    words = functools.partial(_words, known, pattern)
    found: dict[str, list[str]] = {}
    for each in root.everything():
        place = f"{each.file.path.name} {words(each.name)}"
        found[place] = [f"{symbol} waits for {waits}" for symbol, waits in _waiting(each) if waits]
    found["outputs"] = [f"{name} = {words(value)}" for name, value in root.outputs.items()]
    for resource in root.all_resources():
        body = {name: _read(value) for name, value in resource.body.items() if name != "name"}
        found[f"{words(resource.id)}@{resource.version}"] = [
            f"{words(path)} = {words(value)}" for path, value in leaves(body)
        ]
    return found


def _waiting(template: Deployed) -> Iterator[tuple[str, str]]:
    """What each resource and module waits for, through variables as well."""
    declared = {each.name for kind in ("resource", "module") for each in template.file.of(kind)}
    for symbol in sorted(declared):
        yield symbol, ", ".join(sorted(template.closure(symbol) & declared))


def _read(body: Any) -> Any:
    """A resource's body, with documents that are kept in it as texts."""
    if isinstance(body, dict):
        return {name: _read(value) for name, value in body.items()}
    return json.loads(body) if isinstance(body, str) and body.startswith("{") else body


def _meanings(root: Deployed) -> dict[str, str]:
    """Texts that say little, and what they mean."""
    subscription = f"/subscriptions/{SUBSCRIPTION}"
    group = f"{subscription}/resourceGroups/rg-my-queue"
    known = {f"{group}/providers/Microsoft.": "", "/providers/Microsoft.": " + ", group: "the group", _TOKEN: "TOKEN"}
    known |= {f"{subscription}{_ROLES}{role}": name for name, role in templates.document("roles.json").items()}
    known |= {SUBSCRIPTION: "the subscription", TENANT: "the tenant"}
    for each in root.all_resources():
        for name in ("principalId", "clientId"):
            if found := answer(each.type, each.name, f"properties.{name}"):
                known[found] = f"{name} of {each.name}".replace(_TOKEN, "TOKEN")
    return known


def _words(known: Mapping[str, str], pattern: re.Pattern[str], value: Any) -> str:
    if isinstance(value, Reference):
        value = f"<{value.resource.id}.{'.'.join(value.path)}>"
    if isinstance(value, Unknown):
        value = f"<{value.what}>"
    said = value if isinstance(value, str) else json.dumps(value)
    return pattern.sub(lambda match: known[match[0]], said)
