"""Endpoints on workers (contract 2.1, 8)."""

from __future__ import annotations

from shared.api.endpoint import PAGING, Endpoint
from shared.api.models.workers import (
    ListWorkersResponse,
    QuarantineWorkerRequest,
    UpdateWorkerRequest,
    WorkerRemovedResponse,
    WorkerResponse,
)

_METADATA = "Worker Metadata"
_WORKER = "<provisionerId>/<workerType>/<workerGroup>/<workerId>"
_ROUTE = "/provisioners/<provisionerId>/worker-types/<workerType>/workers"

ENDPOINTS = (
    Endpoint(
        name="listWorkers",
        method="GET",
        route=_ROUTE,
        title="Get a list of all active workers of a workerType",
        description="Lists the workers of a worker type, a page at a time; with `quarantined` only those that are in "
        "quarantine, or those that are not. The filter is applied to pages, so one may be short or empty while there "
        "are more.",
        category=_METADATA,
        scopes="queue:list-workers:<provisionerId>/<workerType>",
        query={**PAGING, "quarantined": r"^(true|false)$"},
        output=ListWorkersResponse,
        output_schema="list-workers-response",
        stability="deprecated",
    ),
    Endpoint(
        name="getWorker",
        method="GET",
        route=f"{_ROUTE}/<workerGroup>/<workerId>",
        title="Get a worker from worker-type",
        description="Answers a worker: since when and how long it is known, its latest tasks and its quarantines.",
        category=_METADATA,
        scopes=f"queue:get-worker:{_WORKER}",
        output=WorkerResponse,
        output_schema="worker-response",
        stability="deprecated",
    ),
    Endpoint(
        name="quarantineWorker",
        method="PUT",
        route=f"{_ROUTE}/<workerGroup>/<workerId>",
        title="Quarantine a worker",
        description="Gives a worker no work until a time; a time in the past ends its quarantine. Tasks that it holds "
        "stay with it. Instances of this service follow within half a minute.",
        category=_METADATA,
        scopes=f"queue:quarantine-worker:{_WORKER}",
        input=QuarantineWorkerRequest,
        input_schema="quarantine-worker-request",
        output=WorkerResponse,
        output_schema="worker-response",
        stability="experimental",
    ),
    Endpoint(
        name="workerRemoved",
        method="POST",
        route=f"{_ROUTE}/<workerGroup>/<workerId>/removed",
        title="Tell that a worker is gone",
        description="For whoever starts and ends machines: every run that the worker holds is resolved as "
        "`worker-shutdown` now, and retried while retries are left. Not part of the public API.",
        category=_METADATA,
        scopes=f"queue:worker-removed:{_WORKER}",
        query={"continuationToken": PAGING["continuationToken"]},
        output=WorkerRemovedResponse,
        output_schema="worker-removed-response",
        stability="experimental",
    ),
    Endpoint(
        name="declareWorker",
        method="PUT",
        route="/provisioners/<provisionerId>/worker-types/<workerType>/<workerGroup>/<workerId>",
        title="Declare a worker",
        description="Makes a worker known, with its worker type and provisioner, until a time at least.",
        category=_METADATA,
        scopes={
            "AllOf": [
                {"for": "property", "in": "properties", "each": f"queue:declare-worker:{_WORKER}#<property>"},
            ]
        },
        input=UpdateWorkerRequest,
        input_schema="update-worker-request",
        output=WorkerResponse,
        output_schema="worker-response",
        stability="experimental",
    ),
)
