"""JSON schemas as the contract publishes them, from the models that validate requests (contract 1.1, 2.3). Those of the
references, and of the schemas themselves, are in meta_schemas.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import CoreSchema

from shared.api.endpoint import Endpoint
from shared.queue.claims.endpoints import Credentials
from shared.queue.events.models import TaskSummary
from shared.queue.pools.models import Actions
from shared.queue.tasks.models import Metadata, RunStatus, TaskDefinitionAndStatus, TaskStatus

DRAFT = "http://json-schema.org/draft-07/schema#"
METASCHEMA = "/schemas/common/metaschema.json"
API_REFERENCE = "/schemas/common/api-reference-v0.json"
MANIFEST = "/schemas/common/manifest-v3.json"
META_SCHEMAS = (METASCHEMA, API_REFERENCE, "/schemas/common/exchanges-reference-v0.json", MANIFEST)
"""Paths of the schemas with which tools check references and schemas."""

Schema = dict[str, Any]

SHARED: Mapping[str, type[BaseModel]] = {
    "actions": Actions,
    "object-credentials": Credentials,
    "task-credentials": Credentials,
    "task-definition-and-status": TaskDefinitionAndStatus,
    "task-metadata": Metadata,
    "task-pulse-definition": TaskSummary,
    "task-run": RunStatus,
    "task-status": TaskStatus,
}
"""Parts of other schemas that upstream also publishes by themselves, where tools expect them."""

_BOUNDS = {"ge": "minimum", "le": "maximum"}
"""Pydantic's names for the bounds of a number that has a validator in front, and JSON Schema's names for them."""


class _Generator(GenerateJsonSchema):
    """Generates schemas without the titles that pydantic makes up for properties."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> Schema:
        """Returns the schema with all references inlined, so that a document needs no other one."""
        found = super().generate(schema, mode)
        definitions = found.pop("$defs", {})
        inlined: Schema = _inlined(found, definitions)
        return inlined


def schema_of(model: type[BaseModel]) -> Schema:
    """Returns the schema of a model, complete in itself, as requests and responses are checked by."""
    title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", model.__name__)
    return model.model_json_schema(schema_generator=_Generator) | {"title": title}


def models_of(endpoints: Iterable[Endpoint]) -> dict[str, type[BaseModel]]:
    """Returns the models of an API by the names of their schemas. Raises ValueError when two models claim one name."""
    models: dict[str, type[BaseModel]] = {}
    for endpoint in endpoints:
        for name, model in ((endpoint.input_schema, endpoint.input), (endpoint.output_schema, endpoint.output)):
            if name is None or model is None:
                continue
            if models.setdefault(name, model) is not model:
                raise ValueError(f"the schema {name} is said to be of both {models[name]} and {model}")
    return models


def service_schemas(root_url: str, service: str, models: Mapping[str, type[BaseModel]]) -> dict[str, Schema]:
    """Returns the published schemas of a service by their paths."""
    return {
        (path := schema_path(service, name)): {"$schema": DRAFT, "$id": f"{root_url}{path}#", **schema_of(model)}
        for name, model in sorted(models.items())
    }


def meta_schemas(root_url: str) -> dict[str, Schema]:
    """Returns the schemas at `META_SCHEMAS`, by their paths."""
    text = Path(__file__).with_name("meta_schemas.json").read_text(encoding="utf-8")
    found: dict[str, Schema] = json.loads(text.replace("{root}", root_url))
    return found


def schema_path(service: str, name: str) -> str:
    """Returns the path of a service's schema of this name."""
    return f"/schemas/{service}/v1/{name}.json"


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    """Returns a schema with every reference replaced by what it names: draft 07 ignores what is beside a reference."""
    if isinstance(part, list):
        return [_inlined(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    rest = {
        _BOUNDS.get(name, name): _inlined(value, definitions)
        for name, value in part.items()
        if name not in ("$ref", "discriminator")
    }
    if "$ref" not in part:
        return rest
    return {**_inlined(definitions[part["$ref"].rpartition("/")[2]], definitions), **rest}
