"""The published references, held against those that the public clients were generated from (contract 1.1, 2)."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from typing import Any

import pytest
import taskcluster
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # no types are shipped
from referencing import Registry, Resource

from shared.app.apis import AUTH, INDEX, OBJECT, QUEUE
from shared.app.reference.documents import documents
from shared.app.reference.openapi import api_reference
from shared.app.reference.schemas import DRAFT, META_SCHEMAS, METASCHEMA
from tests.promises.compatibility.matrix import DOCUMENT
from tools.local import state

ROOT_URL = "https://tc.example.com"
DOCUMENTS = documents(ROOT_URL, "1.2.3")
SCHEMAS = {path: document for path, document in DOCUMENTS.items() if path.startswith("/schemas/")}
ENTRIES = {
    service.name: {entry["name"]: entry for entry in api_reference(service)["entries"]}
    for service in (QUEUE, AUTH, OBJECT, INDEX)
}
PYTHON = {
    "queue": taskcluster.Queue.funcinfo,
    "auth": taskcluster.Auth.funcinfo,
    "object": taskcluster.Object.funcinfo,
    "index": taskcluster.Index.funcinfo,
}
KNOWN = [(service, name) for service, entries in ENTRIES.items() for name in entries if name in PYTHON[service]]

OURS: dict[str, Any] = {
    "claimTask": {
        "AnyOf": [
            {"AllOf": ["queue:claim-task:<provisionerId>/<workerType>", "queue:worker-id:<workerGroup>/<workerId>"]},
            {
                "AllOf": [
                    "queue:claim-task",
                    "assume:worker-type:<provisionerId>/<workerType>",
                    "assume:worker-id:<workerGroup>/<workerId>",
                ]
            },
        ]
    }
}
"""Scope expressions that take old forms besides today's (contract 2.2), by endpoint."""

OLDER = {"defineTask", "pollTaskUrls", "declareProvisioner", "declareWorkerType"}
"""Calls of older clients (contract 2.1)."""

ONLY_HERE = {
    "workerRemoved",
    "listTaskGroups",
    "health",
    "taskQueueLoad",
    "listTaskQueueStates",
    "operations",
    "listPoisonMessages",
    "redrivePoisonMessages",
    "deletePoisonMessages",
    "taskAuditHistory",
    "taskGroupAuditHistory",
    "workerAuditHistory",
}
"""Endpoints that Taskcluster does not have."""

PUBLIC = {"signIn", "signInOptions"}
"""Endpoints of the auth service that need no scopes."""

AS_ANOTHER = {"entityAuditHistory": "getEntityHistory", "clientAuditHistory": "listAuditHistory"}
"""Endpoints of the auth service that Taskcluster does not have, and which of its own needs the same scopes."""

NEWER_OR_OLDER: dict[str, Any] = {
    "changeTaskPriority": {
        "AnyOf": ["queue:change-task-priority:<taskId>", "queue:change-task-priority-in-queue:<taskQueueId>"]
    },
    "changeTaskGroupPriority": "queue:change-task-group-priority:<schedulerId>/<taskGroupId>",
    "pollTaskUrls": {
        "AnyOf": [
            "queue:poll-task-urls:<taskQueueId>",
            {"AllOf": ["queue:poll-task-urls", "assume:worker-type:<taskQueueId>"]},
        ]
    },
    "defineTask": {
        "AllOf": [
            {"for": "scope", "in": "scopes", "each": "<scope>"},
            {"for": "route", "in": "routes", "each": "queue:route:<route>"},
            {
                "AnyOf": [
                    {
                        "AllOf": [
                            "queue:scheduler-id:<schedulerId>",
                            {
                                "AnyOf": [
                                    {
                                        "for": "priority",
                                        "in": "priorities",
                                        "each": "queue:create-task:<priority>:<provisionerId>/<workerType>",
                                    }
                                ]
                            },
                        ]
                    },
                    {
                        "if": "isLowest",
                        "then": {
                            "AnyOf": [
                                "queue:define-task:<provisionerId>/<workerType>",
                                "queue:create-task:<provisionerId>/<workerType>",
                                {
                                    "AllOf": [
                                        "queue:define-task:<provisionerId>/<workerType>",
                                        "queue:task-group-id:<schedulerId>/<taskGroupId>",
                                    ]
                                },
                            ]
                        },
                    },
                ]
            },
        ]
    },
    "workerRemoved": "queue:worker-removed:<provisionerId>/<workerType>/<workerGroup>/<workerId>",
    "listTaskGroups": "queue:list-task-groups",
    "health": "queue:health",
    "taskQueueLoad": {"AllOf": ["queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"]},
    "operations": "queue:operations",
    "listPoisonMessages": "queue:operations",
    "redrivePoisonMessages": "queue:manage-poison-messages:<queueName>",
    "deletePoisonMessages": "queue:manage-poison-messages:<queueName>",
    "taskAuditHistory": "queue:status:<taskId>",
    "taskGroupAuditHistory": "queue:list-task-group:<taskGroupId>",
    "workerAuditHistory": "queue:get-worker:<provisionerId>/<workerType>/<workerGroup>/<workerId>",
    "listTaskQueueStates": "queue:list-task-queue-states",
    "taskQueueCountsBatch": {
        "AllOf": [
            {"for": "taskQueueId", "in": "taskQueueIds", "each": "queue:pending-count:<taskQueueId>"},
            {"for": "taskQueueId", "in": "taskQueueIds", "each": "queue:claimed-count:<taskQueueId>"},
        ]
    },
}
"""Scope expressions of the contract that the JavaScript client's reference does not have (contract 2.2)."""


@cache
def javascript_reference(service: str) -> dict[str, Any]:
    """Returns the entries of the reference that the npm client carries."""
    script = (
        'import("taskcluster-client/src/apis.js").then(({ default: apis }) =>'
        f" process.stdout.write(JSON.stringify(apis[{service.capitalize()!r}].reference.entries)))"
    )
    done = subprocess.run(["node", "-e", script], cwd=state.ROOT / "tools", capture_output=True, text=True, check=True)
    return {entry["name"]: entry for entry in json.loads(done.stdout)}


def test_every_call_of_todays_queue_client_is_served() -> None:
    assert set(PYTHON["queue"]) <= set(ENTRIES["queue"])


@pytest.mark.parametrize("service", ENTRIES)
def test_a_call_of_todays_client_that_is_not_served_is_named_as_a_difference(service: str) -> None:
    missing = set(PYTHON[service]) - set(ENTRIES[service])
    named = set(re.findall(r"`(\w+)`", DOCUMENT.read_text()))
    assert missing <= named


def test_what_todays_client_does_not_know_is_older_or_ours() -> None:
    assert set(ENTRIES["queue"]) - set(PYTHON["queue"]) == OLDER | ONLY_HERE


def test_an_entry_is_as_the_python_client_has_it() -> None:
    assert len(KNOWN) > 90
    for service, name in KNOWN:
        expected, entry = PYTHON[service][name], ENTRIES[service][name]
        for part in ("args", "input", "method", "name", "output", "route", "stability"):
            assert entry.get(part) == expected.get(part), f"{part} of {service} {name}"
        assert entry["query"] == sorted(expected.get("query", [])), f"{service} {name}"


def test_the_javascript_client_agrees() -> None:
    compared = 0
    for service, entries in ENTRIES.items():
        for name, expected in javascript_reference(service).items():
            if name in entries:
                entry = {**entries[name], "scopes": entries[name].get("scopes")}
                shown = {part: entry.get(part) for part in ("args", "input", "method", "output", "route", "scopes")}
                wanted = {part: expected.get(part) for part in shown}
                wanted["scopes"] = OURS.get(name, wanted["scopes"])
                assert _plain(shown) == _plain(wanted), name
                compared += 1
    assert compared > 35


def test_scopes_of_every_endpoint_have_something_to_agree_with() -> None:
    for service, entries in ENTRIES.items():
        unknown = set(entries) - set(javascript_reference(service)) - set(NEWER_OR_OLDER) - PUBLIC - set(AS_ANOTHER)
        assert not unknown, "today's client does not know these: add their scopes to NEWER_OR_OLDER"
    assert not [name for name in PUBLIC if "scopes" in ENTRIES["auth"][name]]
    for ours, theirs in AS_ANOTHER.items():
        assert ENTRIES["auth"][ours]["scopes"].replace("auditedType", "entityType") == ENTRIES["auth"][theirs]["scopes"]


@pytest.mark.parametrize("name", NEWER_OR_OLDER)
def test_scopes_that_only_the_contract_states(name: str) -> None:
    assert _plain(ENTRIES["queue"][name]["scopes"]) == _plain(NEWER_OR_OLDER[name])


def _plain(value: Any) -> Any:
    """Returns an AllOf of one scope as that scope alone, which means the same."""
    if isinstance(value, dict):
        if list(value) == ["AllOf"] and len(value["AllOf"]) == 1 and isinstance(value["AllOf"][0], str):
            return value["AllOf"][0]
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def test_a_schema_says_where_it_lies_and_is_one() -> None:
    for path, schema in SCHEMAS.items():
        assert schema["$id"] == f"{ROOT_URL}{path}#"
        common = path in META_SCHEMAS and path != METASCHEMA
        assert schema["$schema"] == (f"{ROOT_URL}{METASCHEMA}#" if common else DRAFT), path
        Draft7Validator.check_schema({**schema, "$schema": DRAFT})
        _validate(SCHEMAS[METASCHEMA], schema)


def test_a_schema_is_closed_and_knows_no_null() -> None:
    def check(part: Any, place: str) -> None:
        if isinstance(part, list):
            for index, each in enumerate(part):
                check(each, f"{place}[{index}]")
        elif isinstance(part, dict):
            assert part.get("type") != "null", place
            assert not {"$ref", "$defs", "discriminator", "ge", "le"} & set(part), place
            if part.get("type") == "object" and "properties" in part:
                # Of the object service's proposals a server may ignore what it does not know.
                assert part["additionalProperties"] is False or place.startswith("/schemas/object/"), place
            for name, each in part.items():
                check(each, f"{place}.{name}")

    for path, schema in SCHEMAS.items():
        if "/common/" not in path:
            check(schema, path)
            assert schema["title"], path


def test_limits_are_published() -> None:
    request = SCHEMAS["/schemas/queue/v1/create-task-request.json"]["properties"]
    assert request["retries"] == {"type": "integer", "minimum": 0, "maximum": 49, "default": 5}
    assert request["created"] == {"type": "string", "format": "date-time"}
    assert request["dependencies"]["uniqueItems"] is True
    assert (request["dependencies"]["maxItems"], request["routes"]["maxItems"]) == (10_000, 64)
    claim = SCHEMAS["/schemas/queue/v1/claim-work-request.json"]["properties"]["tasks"]
    assert (claim["minimum"], claim["maximum"], claim["default"]) == (1, 32, 1)


@cache
def _registry() -> Registry[Any]:
    resources = [(each["$id"], Resource.from_contents({**each, "$schema": DRAFT})) for each in SCHEMAS.values()]
    resources.append((DRAFT, Resource.from_contents(Draft7Validator.META_SCHEMA)))
    registry: Registry[Any] = Registry().with_resources(resources)
    return registry


def _validate(schema: dict[str, Any], instance: Any) -> None:
    Draft7Validator(
        {**schema, "$schema": DRAFT}, registry=_registry(), format_checker=Draft7Validator.FORMAT_CHECKER
    ).validate(instance)
