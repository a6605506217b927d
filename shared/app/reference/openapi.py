"""References and the OpenAPI 3.1 documents of the services, from the table that routes requests (contract 1.1).
Taskcluster's clients are generated from the references."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from shared.api.endpoint import PARAMETERS, Endpoint
from shared.app.apis import Api
from shared.app.reference.schemas import API_REFERENCE, MANIFEST, models_of, schema_of

Json = dict[str, Any]


def api_reference(api: Api) -> Json:
    """Returns the api.json of a service."""
    return {
        "$schema": f"{API_REFERENCE}#",
        "serviceName": api.name,
        "apiVersion": "v1",
        "title": api.title,
        "description": api.description,
        "entries": [_entry(endpoint) for endpoint in api.endpoints if not endpoint.unlisted],
    }


def manifest(root_url: str, paths: Iterable[str]) -> Json:
    """Returns the manifest.json, which says where all references of the deployment lie."""
    return {"$schema": f"{root_url}{MANIFEST}#", "references": sorted(root_url + path for path in paths)}


def _entry(endpoint: Endpoint) -> Json:
    entry: Json = {
        "type": "function",
        "method": endpoint.method.lower(),
        "route": endpoint.route,
        "query": sorted(endpoint.query),
        "args": list(endpoint.params),
        "name": endpoint.name,
        "stability": endpoint.stability,
        "title": endpoint.title,
        "description": endpoint.description,
        "category": endpoint.category,
    }
    if endpoint.scopes is not None:
        entry["scopes"] = endpoint.scopes
    if endpoint.input_schema is not None:
        entry["input"] = f"v1/{endpoint.input_schema}.json#"
    if endpoint.output_schema is not None:
        entry["output"] = f"v1/{endpoint.output_schema}.json#"
    return entry


_ERRORS = {
    "400": "The request is not as it must be; `code` says in which way.",
    "401": "The credentials are not valid.",
    "403": "The caller lacks scopes.",
    "404": "What the call is about does not exist.",
    "409": "The state of things does not allow the call.",
    "410": "The artifact has expired.",
    "413": "The request is too large.",
    "424": "The artifact is an error.",
    "500": "A defect; the message has a number to look for in the logs.",
    "503": "Something that the service needs is not available; the call may be sent again.",
}
_ENVELOPE = "error"
_FREE = {"type": "object"}


def openapi(api: Api, root_url: str, version: str) -> Json:
    """Returns the document. `version` is the project's."""
    schemas = {name: schema_of(model) for name, model in models_of(api.endpoints).items()}
    info = {
        "type": "object",
        "properties": {
            "method": {"type": "string"},
            "params": {"type": "object"},
            "payload": {},
            "time": {"type": "string", "format": "date-time"},
        },
        "required": ["method", "params", "payload", "time"],
    }
    envelope = {"title": "Error", "description": "The body of an error response.", **_texts("code", "message")}
    envelope["properties"]["requestInfo"] = info
    envelope["required"].append("requestInfo")
    paths: dict[str, Json] = {}
    for endpoint in api.endpoints:
        if endpoint.unlisted:
            continue  # another form of one that is there: operation ids must be unique
        operations = paths.setdefault(re.sub(r"<([^>]+)>", r"{\1}", endpoint.route), {})
        method = endpoint.method.lower()
        operations[method] = _merged(operations[method], endpoint) if method in operations else _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": api.title, "version": version, "description": api.description},
        "servers": [{"url": root_url + api.prefix}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, _ENVELOPE: envelope},
            "securitySchemes": {
                "hawk": {
                    "type": "http",
                    "scheme": "hawk",
                    "description": "Requests are signed with Taskcluster credentials; GET requests also by `bewit`.",
                }
            },
            "responses": {status: _error(status, text) for status, text in _ERRORS.items()},
        },
    }


def _operation(endpoint: Endpoint) -> Json:
    operation: Json = {
        "operationId": endpoint.name,
        "summary": endpoint.title,
        "description": endpoint.description,
        "tags": [endpoint.category],
        "deprecated": endpoint.stability == "deprecated",
        "x-taskcluster-stability": endpoint.stability,
        "parameters": [
            *(_parameter(name, PARAMETERS[name], "path") for name in endpoint.params),
            *(_parameter(name, pattern, "query") for name, pattern in endpoint.query.items()),
        ],
        "responses": _responses(endpoint),
        # Without credentials a caller has the scopes of the role `anonymous`.
        "security": [] if endpoint.scopes is None else [{"hawk": []}, {}],
    }
    if endpoint.scopes is not None:
        operation["x-taskcluster-scopes"] = endpoint.scopes
    if endpoint.input_schema is not None:
        operation["requestBody"] = {"required": True, "content": _json(_reference(endpoint.input_schema))}
    return operation


def _merged(operation: Json, endpoint: Endpoint) -> Json:
    """Returns the operation with another endpoint of the same method and path. The request's body tells them apart."""
    other = _operation(endpoint)
    schemas = [each["requestBody"]["content"]["application/json"]["schema"] for each in (operation, other)]
    return {
        **operation,
        "description": f"{operation['description']} Or {endpoint.name}: {endpoint.description}",
        "requestBody": {"required": True, "content": _json({"anyOf": schemas})},
        "responses": {**other["responses"], **operation["responses"]},
    }


def _parameter(name: str, pattern: str, place: str) -> Json:
    schema = {"type": "string", "pattern": pattern}
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _responses(endpoint: Endpoint) -> Json:
    answer: Json = {"description": endpoint.title}
    if endpoint.output_schema is not None:
        answer["content"] = _json(_reference(endpoint.output_schema))
    elif endpoint.output is not None:
        answer["content"] = _json(schema_of(endpoint.output))
    elif endpoint.success not in (204, 303):  # these have no body, or none that clients read
        answer["content"] = _json(_FREE)
    errors = {status: {"$ref": f"#/components/responses/{status}"} for status in _ERRORS}
    return {str(endpoint.success): answer, **errors}


def _error(status: str, text: str) -> Json:
    """Returns the description of an error response. It has the error envelope, except for unknown paths and for `error`
    artifacts (contract 12)."""
    schema = _reference(_ENVELOPE)
    if status == "404":
        schema = {"anyOf": [schema, _texts("error")]}
    elif status == "424":
        schema = _texts("reason", "message")
    return {"description": text, "content": _json(schema)}


def _texts(*names: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}
