"""The one table of the Queue's endpoints, by resource family."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.endpoints import (
    artifacts,
    audit,
    batches,
    groups,
    history,
    operations,
    provisioners,
    service,
    task_queues,
    tasks,
    work,
    workers,
)

PREFIX = "/api/queue/v1"

ENDPOINTS: tuple[Endpoint, ...] = (
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
)
