"""What `role create anonymous --public` lets everybody do: read what a public deployment shows, and nothing else."""

from __future__ import annotations

import json
import re

from shared.api.endpoint import Endpoint
from shared.api.scopes import ScopeSet, params_of, render, satisfies
from shared.app.apis import AUTH, INDEX, OBJECT, QUEUE
from tools.admin.public_scopes import PUBLIC_SCOPES, RECOMMENDED
from tools.local.state import ROOT

WITH_SCOPES = [
    endpoint
    for endpoint in (*QUEUE.endpoints, *AUTH.endpoints, *INDEX.endpoints, *OBJECT.endpoints)
    if endpoint.scopes is not None
]
READ_BY_POST = {
    "tasks",
    "statuses",
    "expandScopes",
    "findTasksAtIndex",
    "listNamespacesPost",
    "listTasksPost",
    "taskQueueCountsBatch",
}
"""Calls that read what their body lists."""
NOT_FOR_EVERYBODY = {
    "health",
    "pollTaskUrls",
    "object",
    "download",
    "getEntityHistory",
    "listAuditHistory",
    "entityAuditHistory",
    "clientAuditHistory",
    "operations",
    "listPoisonMessages",
}
"""GET calls that are not for everybody: only operators, workers and object storage's clients need them."""
PUBLIC_NAMES: dict[str, str | list[str]] = {"name": "public/x", "names": ["public/x"]}


def _allowed(endpoint: Endpoint) -> bool:
    """Whether a caller without credentials may make this call; for artifacts, on those below `public/`."""
    assert endpoint.scopes is not None
    params: dict[str, str | bool | list[str]] = dict.fromkeys(params_of(endpoint.scopes), "x")
    params |= {name: ["x"] for name in re.findall('"in": "(\\w+)"', json.dumps(endpoint.scopes))}
    params |= dict.fromkeys(re.findall('"if": "(\\w+)"', json.dumps(endpoint.scopes)), True)
    params |= {name: value for name, value in PUBLIC_NAMES.items() if name in params}
    expression = render(endpoint.scopes, params)
    return expression is None or satisfies(ScopeSet(PUBLIC_SCOPES), expression)


def test_the_contract_lists_what_is_recommended() -> None:
    text = (ROOT / "docs/contract.md").read_text()
    paragraph = text[text.index("In 2019 reading was public.") : text.index("generic-worker calls")]
    listed = re.findall(r"`((?:queue|index|auth):[^`]+)`", paragraph)
    assert sorted(listed) == [scope for scope in RECOMMENDED if re.match("(queue|index|auth):", scope)]


def test_everybody_reads_and_nobody_changes() -> None:
    allowed = [endpoint for endpoint in WITH_SCOPES if _allowed(endpoint)]
    reading = [endpoint for endpoint in WITH_SCOPES if endpoint.method == "GET" or endpoint.name in READ_BY_POST]
    wanted = [endpoint for endpoint in reading if endpoint.name not in NOT_FOR_EVERYBODY]
    assert [endpoint.name for endpoint in allowed] == [endpoint.name for endpoint in wanted]
