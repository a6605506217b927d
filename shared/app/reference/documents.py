"""Every document that the deployment publishes about itself, by its path, and the endpoints that answer with them
(contract 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from shared.api.answer import Answer
from shared.api.endpoint import Call, Endpoint
from shared.app import apis
from shared.app.reference.openapi import api_reference, manifest, openapi
from shared.app.reference.schemas import META_SCHEMAS, SHARED, meta_schemas, models_of, schema_path, service_schemas
from shared.app.services import Services
from shared.base.jsontext import write
from shared.base.version import VERSION
from shared.queue.events.exchanges import ENTRIES, EXCHANGE_PREFIX, Word
from shared.queue.events.models import MESSAGES


def exchanges_reference() -> dict[str, Any]:
    """Returns the reference document of the exchanges."""
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
        "entries": [
            {
                "type": "topic-exchange",
                "exchange": entry.exchange.value,
                "name": entry.name,
                "title": entry.title,
                "description": entry.description,
                "schema": entry.schema,
                "routingKey": [_word(word) for word in entry.routing_key],
            }
            for entry in ENTRIES
        ],
    }


def _word(word: Word) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": word.name, "summary": word.summary}
    if word.constant is not None:
        shown["constant"] = word.constant
    return {**shown, "multipleWords": word.multiple_words, "required": word.required}


_MANIFEST = "/references/manifest.json"
_EXCHANGES = "/references/queue/v1/exchanges.json"


def _models(api: apis.Api) -> Mapping[str, type[BaseModel]]:
    """Returns the models of an API by the names of their schemas; of the Queue also those of its messages, and those
    that calls and messages are made of."""
    return {**models_of(api.endpoints), **({**SHARED, **MESSAGES} if api is apis.QUEUE else {})}


PATHS: tuple[str, ...] = (
    _MANIFEST,
    _EXCHANGES,
    *(path for api in apis.ALL for path in (api.reference_path, api.openapi_path)),
    *(schema_path(api.name, name) for api in apis.ALL for name in _models(api)),
    *META_SCHEMAS,
)
"""Paths of all documents."""


@cache
def documents(root_url: str, version: str) -> Mapping[str, Any]:
    """Returns the documents of the deployment at this root URL (without a trailing slash), by their paths. They are
    built when the first one is requested, as that takes a tenth of a second."""
    references = (_EXCHANGES, *(api.reference_path for api in apis.ALL))
    found: dict[str, Any] = {_MANIFEST: manifest(root_url, references), _EXCHANGES: exchanges_reference()}
    for api in apis.ALL:
        found[api.reference_path] = api_reference(api)
        found[api.openapi_path] = openapi(api, root_url, version)
        found |= service_schemas(root_url, api.name, _models(api))
    return {**found, **meta_schemas(root_url)}


async def document(services: Services, call: Call) -> Answer:
    """Returns the document at this path."""
    return Answer(body=write(documents(services.settings.root_url, VERSION)[call.endpoint.route]))


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
