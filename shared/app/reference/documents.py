"""Every document that the deployment publishes about itself, by its path, and the endpoints that answer with them
(contract 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from shared.api.answer import Answer, to_json
from shared.api.endpoint import Call, Endpoint
from shared.app import apis
from shared.app.reference import meta_schemas
from shared.app.reference.openapi import Service, api_reference, manifest, openapi
from shared.app.reference.schemas import models_of, queue_models, schema_path, service_schemas
from shared.app.services import Services
from shared.base.version import VERSION
from shared.queue.events.exchanges import ENTRIES, EXCHANGE_PREFIX, ExchangeEntry, Word


def exchanges_reference() -> dict[str, Any]:
    """The reference document of the exchanges."""
    return {
        "$schema": "/schemas/common/exchanges-reference-v0.json#",
        "serviceName": "queue",
        "apiVersion": "v1",
        "title": "Queue Exchanges",
        "description": "What happens to tasks, artifacts and task groups, as messages. Each exchange is a Service Bus "
        "topic of the same short name. Every message about a task carries the task's primary routing key and, for "
        "each entry of `task.routes`, the key `route.<entry>`; a subscription gets one copy of a message however "
        "many patterns match. Delivery is at least once, without a promise of order.",
        "exchangePrefix": EXCHANGE_PREFIX,
        "entries": [_entry(entry) for entry in ENTRIES],
    }


def _entry(entry: ExchangeEntry) -> dict[str, Any]:
    return {
        "type": "topic-exchange",
        "exchange": entry.exchange.value,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "schema": entry.schema,
        "routingKey": [_word(word) for word in entry.routing_key],
    }


def _word(word: Word) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": word.name, "summary": word.summary}
    if word.constant is not None:
        shown["constant"] = word.constant
    return {**shown, "multipleWords": word.multiple_words, "required": word.required}


QUEUE = Service(
    name="queue",
    title="Queue Service",
    description="Accepts tasks, hands them to workers, and tracks them until they are resolved. Keeps their artifacts, "
    "groups and dependencies, and announces what happens to them.",
    endpoints=apis.QUEUE.endpoints,
)
AUTH = Service(
    name="auth",
    title="Auth Service",
    description="Clients, roles and scopes: the part of Taskcluster's Auth service that a deployment needs to stand "
    "alone.",
    endpoints=apis.AUTH.endpoints,
)
OBJECT = Service(
    name="object",
    title="Object Service",
    description="The data of `object` artifacts: the part of Taskcluster's Object service that uploading and "
    "downloading them needs.",
    endpoints=apis.OBJECT.endpoints,
)
INDEX = Service(
    name="index",
    title="Index Service",
    description="Finds the latest task by what it built: paths that name tasks, filled by calls and by the routes of "
    "tasks that complete.",
    endpoints=apis.INDEX.endpoints,
)
_OTHERS = (AUTH, OBJECT, INDEX)
_MANIFEST = "/references/manifest.json"
_EXCHANGES = "/references/queue/v1/exchanges.json"


def openapi_path(service: Service) -> str:
    """Where a service's OpenAPI document lies."""
    return f"/references/{service.name}/v1/openapi.json"


PATHS: tuple[str, ...] = (
    _MANIFEST,
    QUEUE.reference_path,
    _EXCHANGES,
    openapi_path(QUEUE),
    *(path for service in _OTHERS for path in (service.reference_path, openapi_path(service))),
    *(schema_path(QUEUE.name, name) for name in queue_models(QUEUE.endpoints)),
    *(schema_path(service.name, name) for service in _OTHERS for name in models_of(service.endpoints)),
    *meta_schemas.PATHS,
)
"""Where the documents lie."""


def documents(root_url: str, version: str) -> Mapping[str, Any]:
    """The documents of the deployment at this root URL (without a trailing slash), by their paths."""
    others: dict[str, Any] = {}
    for service in _OTHERS:
        others[service.reference_path] = api_reference(service)
        others[openapi_path(service)] = openapi(service, root_url, version)
        others |= service_schemas(root_url, service.name, models_of(service.endpoints))
    references = (QUEUE.reference_path, _EXCHANGES, *(service.reference_path for service in _OTHERS))
    return {
        _MANIFEST: manifest(root_url, references),
        QUEUE.reference_path: api_reference(QUEUE),
        _EXCHANGES: exchanges_reference(),
        openapi_path(QUEUE): openapi(QUEUE, root_url, version),
        **service_schemas(root_url, QUEUE.name, queue_models(QUEUE.endpoints)),
        **others,
        **meta_schemas.meta_schemas(root_url),
    }


async def document(services: Services, call: Call) -> Answer:
    """The document at this path."""
    return Answer(body=to_json(_documents(services.settings.root_url)[call.endpoint.route]))


@cache
def _documents(root_url: str) -> Mapping[str, Any]:
    """Built when the first document is requested, as that takes a tenth of a second."""
    return documents(root_url, VERSION)


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    Endpoint(
        name=path,
        method="GET",
        route=path,
        handler=document,
        title=path.rpartition("/")[2],
        description="A document that describes this deployment.",
        category="References",
    )
    for path in PATHS
)
