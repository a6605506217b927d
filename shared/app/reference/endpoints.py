"""What the deployment publishes about itself: references, schemas, the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from shared.api.answer import Answer, to_json
from shared.api.endpoint import Call, Endpoint
from shared.app.reference.documents import PATHS, documents
from shared.app.services import Services
from shared.base.version import VERSION


async def document(services: Services, call: Call) -> Answer:
    """The document at this path."""
    return Answer(body=to_json(_documents(services.settings.root_url)[call.endpoint.route]))


@cache
def _documents(root_url: str) -> Mapping[str, Any]:
    """Made when the first one is asked for: it takes a tenth of a second."""
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
