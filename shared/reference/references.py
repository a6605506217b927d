"""References, which clients are generated from, made of the table that routes requests (contract 1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shared.api.endpoint import Endpoint
from shared.frozen import dataclass
from shared.reference import meta_schemas

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service of the deployment, as its reference introduces it."""

    name: str
    title: str
    description: str
    endpoints: Sequence[Endpoint]

    @property
    def prefix(self) -> str:
        """Path before its routes."""
        return f"/api/{self.name}/v1"

    @property
    def reference_path(self) -> str:
        """Where its api.json lies."""
        return f"/references/{self.name}/v1/api.json"


def api_reference(service: Service) -> Json:
    """api.json of a service."""
    return {
        "$schema": f"{meta_schemas.API_REFERENCE}#",
        "serviceName": service.name,
        "apiVersion": "v1",
        "title": service.title,
        "description": service.description,
        "entries": [_entry(endpoint) for endpoint in service.endpoints if not endpoint.unlisted],
    }


def manifest(root_url: str, paths: Iterable[str]) -> Json:
    """manifest.json: where all references of the deployment lie."""
    return {
        "$schema": f"{root_url}{meta_schemas.MANIFEST}#",
        "references": sorted(root_url + path for path in paths),
    }


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
