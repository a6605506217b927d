"""The endpoints of each API by resource family: what routers, references and the OpenAPI document are made of."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.app.services import Services
from shared.auth import account_endpoints as accounts
from shared.auth import scope_endpoints as scopes
from shared.base.frozen import dataclass
from shared.index import endpoints as index
from shared.overview import endpoints as service
from shared.overview import operator_endpoints as operators
from shared.queue.artifacts import endpoints as artifacts
from shared.queue.artifacts import object_endpoints as objects
from shared.queue.claims import endpoints as work
from shared.queue.groups import endpoints as groups
from shared.queue.pools import endpoints as task_queues
from shared.queue.pools import provisioner_endpoints as provisioners
from shared.queue.pools import worker_endpoints as workers
from shared.queue.tasks import endpoints as tasks


@dataclass(frozen=True, kw_only=True)
class Api:
    """A service of Taskcluster's, as far as it is served here, and as its reference introduces it."""

    name: str
    title: str
    description: str
    endpoints: tuple[Endpoint[Services], ...]

    @property
    def prefix(self) -> str:
        """Path that all its routes begin with."""
        return f"/api/{self.name}/v1"

    @property
    def reference_path(self) -> str:
        """The path of its api.json."""
        return f"/references/{self.name}/v1/api.json"

    @property
    def openapi_path(self) -> str:
        """The path of its OpenAPI document."""
        return f"/references/{self.name}/v1/openapi.json"


QUEUE = Api(
    name="queue",
    title="Queue Service",
    description="Accepts tasks, hands them to workers, and tracks them until they are resolved. Keeps their artifacts, "
    "groups and dependencies, and announces what happens to them.",
    endpoints=(
        *service.SERVICE_ENDPOINTS,
        *operators.OPERATIONS_ENDPOINTS,
        *tasks.ENDPOINTS,
        *groups.ENDPOINTS,
        *work.ENDPOINTS,
        *artifacts.ENDPOINTS,
        *provisioners.ENDPOINTS,
        *task_queues.ENDPOINTS,
        *workers.ENDPOINTS,
        *operators.AUDIT_ENDPOINTS,
    ),
)
AUTH = Api(
    name="auth",
    title="Auth Service",
    description="Clients, roles and scopes: the part of Taskcluster's Auth service that a deployment needs to stand "
    "alone.",
    endpoints=(
        *service.SERVICE_ENDPOINTS,
        *operators.ACCOUNTS,
        *accounts.CLIENTS,
        *accounts.ROLES,
        *scopes.ENDPOINTS,
    ),
)
"""The endpoints of Taskcluster's auth service without which a deployment could not manage its own clients. Names,
routes, schemas and scopes are those of the public clients' `Auth` class; signing in is for the console."""
OBJECT = Api(
    name="object",
    title="Object Service",
    description="The data of `object` artifacts: the part of Taskcluster's Object service that uploading and "
    "downloading them needs.",
    endpoints=(*service.SERVICE_ENDPOINTS, *objects.ENDPOINTS),
)
INDEX = Api(
    name="index",
    title="Index Service",
    description="Finds the latest task by what it built: paths that name tasks, filled by calls and by the routes of "
    "tasks that complete.",
    endpoints=(*service.SERVICE_ENDPOINTS, *index.ENDPOINTS),
)
ALL = (QUEUE, AUTH, OBJECT, INDEX)
