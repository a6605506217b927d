"""The schemas of the references and of the schemas themselves, as tools ask for them (contract 1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.app.reference.schemas import DRAFT

Json = dict[str, Any]

METASCHEMA = "/schemas/common/metaschema.json"
API_REFERENCE = "/schemas/common/api-reference-v0.json"
EXCHANGES_REFERENCE = "/schemas/common/exchanges-reference-v0.json"
MANIFEST = "/schemas/common/manifest-v3.json"
PATHS = (METASCHEMA, API_REFERENCE, EXCHANGES_REFERENCE, MANIFEST)
_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "boolean"}
_LETTERS: Json = {"type": "string", "pattern": "^[a-z][a-z0-9_-]*$"}
_SCHEMA_NAME: Json = {"type": "string", "pattern": "^v[0-9]+/[a-z0-9-]+\\.json#$"}


def meta_schemas(root_url: str) -> dict[str, Json]:
    """The meta schemas by their paths."""
    kept = f"{root_url}{METASCHEMA}#"
    found = {
        METASCHEMA: {"$schema": DRAFT, **_metaschema()},
        API_REFERENCE: {"$schema": kept, **_api_reference()},
        EXCHANGES_REFERENCE: {"$schema": kept, **_exchanges_reference()},
        MANIFEST: {"$schema": kept, **_manifest()},
    }
    return {path: {"$id": f"{root_url}{path}#", **schema} for path, schema in found.items()}


def _object(properties: Json, optional: Sequence[str] = (), **more: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
        **more,
    }


def _list(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def _metaschema() -> Json:
    return {
        "title": "Metaschema",
        "description": "What every schema of this deployment keeps: draft 07, and it says what it is.",
        "allOf": [
            {"$ref": DRAFT},
            {"type": "object", "required": ["$schema", "$id", "title"]},
        ],
    }


def _manifest() -> Json:
    properties = {
        "$schema": {"type": "string", "format": "uri"},
        "references": _list({"type": "string", "format": "uri"}, uniqueItems=True),
    }
    return _object(properties, title="Manifest", description="The references of a deployment.")


def _service(entries: Json, **more: Json) -> Json:
    return {
        "$schema": _TEXT,
        "serviceName": _LETTERS,
        "apiVersion": {"type": "string", "pattern": "^v[0-9]+$"},
        "title": _TEXT,
        "description": _TEXT,
        **more,
        "entries": _list(entries),
    }


def _api_reference() -> Json:
    entry = _object(
        {
            "type": {"const": "function"},
            "name": _TEXT,
            "method": {"enum": ["get", "head", "post", "put", "delete", "options", "patch", "trace"]},
            "route": {"type": "string", "pattern": "^/"},
            "args": _list(_TEXT),
            "query": _list(_TEXT, uniqueItems=True),
            "stability": {"enum": ["deprecated", "experimental", "stable"]},
            "title": _TEXT,
            "description": _TEXT,
            "category": _TEXT,
            "scopes": {"$ref": "#/definitions/scopes"},
            "input": _SCHEMA_NAME,
            "output": _SCHEMA_NAME,
        },
        optional=("query", "scopes", "input", "output"),
    )
    scopes = {"$ref": "#/definitions/scopes"}
    expressions = [
        {"type": "string", "pattern": "^[\\x20-\\x7e]*$"},
        _object({"AnyOf": _list(scopes)}),
        _object({"AllOf": _list(scopes)}),
        _object({"if": _TEXT, "then": scopes}),
        _object({"for": _TEXT, "in": _TEXT, "each": _TEXT}),
    ]
    return _object(
        _service(entry),
        title="API reference",
        description="The functions of a service's API.",
        definitions={"scopes": {"oneOf": expressions}},
    )


def _exchanges_reference() -> Json:
    word = _object(
        {
            "name": _TEXT,
            "summary": _TEXT,
            "constant": _TEXT,
            "multipleWords": _FLAG,
            "required": _FLAG,
        },
        optional=("constant",),
    )
    entry = _object(
        {
            "type": {"const": "topic-exchange"},
            "exchange": _LETTERS,
            "name": _TEXT,
            "title": _TEXT,
            "description": _TEXT,
            "routingKey": _list(word),
            "schema": _SCHEMA_NAME,
        }
    )
    return _object(
        _service(entry, exchangePrefix=_TEXT),
        title="Exchanges reference",
        description="The exchanges on which a service publishes.",
    )
