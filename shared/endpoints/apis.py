"""The endpoints of each API by resource family: what routers, references and the OpenAPI document are made of."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.endpoints import (
    artifacts,
    audit,
    batches,
    clients,
    groups,
    history,
    index,
    objects,
    operations,
    provisioners,
    roles,
    scopes,
    service,
    sign_in,
    task_queues,
    tasks,
    work,
    workers,
)
from shared.frozen import dataclass
from shared.services import Services


@dataclass(frozen=True, kw_only=True)
class Api:
    """A service of Taskcluster's, as far as it is served here."""

    prefix: str
    endpoints: tuple[Endpoint[Services], ...]


QUEUE = Api(
    prefix="/api/queue/v1",
    endpoints=(
        *service.ENDPOINTS,
        *history.ENDPOINTS,
        *operations.ENDPOINTS,
        *tasks.ENDPOINTS,
        *batches.ENDPOINTS,
        *groups.ENDPOINTS,
        *work.ENDPOINTS,
        *artifacts.ENDPOINTS,
        *provisioners.ENDPOINTS,
        *task_queues.ENDPOINTS,
        *workers.ENDPOINTS,
        *audit.ENDPOINTS,
    ),
)
AUTH = Api(
    prefix="/api/auth/v1",
    endpoints=(
        *service.ENDPOINTS,
        *audit.ACCOUNTS,
        *clients.ENDPOINTS,
        *roles.ENDPOINTS,
        *scopes.ENDPOINTS,
        *sign_in.ENDPOINTS,
    ),
)
"""The part that a deployment needs to stand alone. Names, routes, schemas and scopes are those of the public clients'
`Auth` class; `sign_in` is for the console."""
OBJECT = Api(prefix=objects.PREFIX, endpoints=(*service.ENDPOINTS, *objects.ENDPOINTS))
INDEX = Api(prefix=index.PREFIX, endpoints=(*service.ENDPOINTS, *index.ENDPOINTS))
