"""Endpoints about the service itself: ping, heartbeat, health, version, and its load over time (contract 1.2, 2.5)."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Literal

from shared.api.answer import Answer, version_of
from shared.api.endpoint import Call, Endpoints, Json
from shared.auth.audit import Audit
from shared.auth.clients.ending import RefusedCredentials
from shared.base.errors import ServiceUnavailable
from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.base.types import Closed, optional
from shared.overview.gauges import Gauges
from shared.overview.health import Finding, Health, Heartbeat
from shared.overview.operations import Operations
from shared.queue.claims.poll_urls import WaitingWorkerCounts
from shared.queue.tasks.lifecycle import Lifecycle
from shared.runtime import Runtime
from shared.telemetry.meter import CONTENT_TYPE, exposition


@dataclass(frozen=True, kw_only=True)
class OverviewServices:
    """The services that the endpoints about the service itself call."""

    settings: Settings
    runtime: Runtime
    audit: Audit
    lifecycle: Lifecycle
    heartbeat: Heartbeat
    health: Health
    gauges: Gauges
    operations: Operations
    refused_credentials: RefusedCredentials
    waiting_workers: WaitingWorkerCounts


class PingResponse(Closed):
    """The service is alive."""

    alive: bool
    uptime: float


class HeartbeatResponse(Closed):
    """An empty object: this process responds."""


class HealthFinding(Closed):
    """Something that is wrong, what to do about it, and with which command of an operator. `code` is stable when the
    wording changes."""

    code: str
    severity: Literal["warning", "critical"]
    message: str
    remedy: str
    command: str = optional()


class HealthResponse(Closed):
    """Whether the deployment is well, and what is wrong if it is not."""

    healthy: bool
    findings: list[HealthFinding]


class VersionResponse(Closed):
    """What is deployed, in the form of Mozilla's Dockerflow. Empty: not known."""

    version: str
    commit: str
    source: str
    build: str


_started = time.monotonic()

SERVICE_ENDPOINTS = Endpoints[OverviewServices]("Monitoring")


@SERVICE_ENDPOINTS("ping", "GET /ping", "Ping Server", category="Ping Server", takes_any_load=True)
async def ping(services: OverviewServices, call: Call) -> Annotated[Json, PingResponse]:
    """Respond without doing anything. This endpoint is used to check that the service is up."""
    return {"alive": True, "uptime": time.monotonic() - _started}


@SERVICE_ENDPOINTS("lbheartbeat", "GET /__lbheartbeat__", "Load Balancer Heartbeat", takes_any_load=True)
async def lbheartbeat(services: OverviewServices, call: Call) -> Annotated[Json, HeartbeatResponse]:
    """Returns 200 while this process serves requests; no storage is read."""
    return {}


@SERVICE_ENDPOINTS("heartbeat", "GET /__heartbeat__", "Heartbeat", takes_any_load=True)
async def heartbeat(services: OverviewServices, call: Call) -> Annotated[Json, HeartbeatResponse]:
    """Returns 200 if storage and Service Bus responded within the last seconds; 503 names what did not."""
    silent = await services.heartbeat.silent()
    if silent:
        raise ServiceUnavailable(f"no answer in time from: {', '.join(silent)}")
    return {}


@SERVICE_ENDPOINTS(
    "health",
    "GET /health",
    "Health",
    scopes="queue:health",
    stability="experimental",
    takes_any_load=True,
    authorised_late=True,
)
async def health(services: OverviewServices, call: Call) -> Annotated[Json, HealthResponse]:
    """Returns what is wrong with the deployment, and what to do about it: storage or Service Bus that does not respond,
    late timers, dead-lettered messages, waiting events. Not part of the public API."""
    findings = await services.health.outage()
    if findings:  # nobody can be authorised: it tells what `__heartbeat__` tells everybody
        call.allow()
    else:
        await call.authorise()
        findings = await services.health.findings()
    return {"healthy": not findings, "findings": [_shown(finding) for finding in findings]}


@SERVICE_ENDPOINTS("version", "GET /__version__", "Taskcluster Version", takes_any_load=True)
async def version(services: OverviewServices, call: Call) -> Annotated[Json, VersionResponse]:
    """Returns which version is deployed."""
    return version_of(services.settings.app_version)


def _shown(finding: Finding) -> dict[str, str]:
    return {name: value for name, value in asdict(finding).items() if value}


METRICS = Endpoints[OverviewServices]("Monitoring")
"""/metrics for Prometheus, at the root."""


@METRICS("metrics", "GET /metrics", "Metrics", scopes="queue:metrics")
async def metrics(services: OverviewServices, call: Call) -> Answer:
    """Returns what is measured, as Prometheus scrapes it: the gauges as of now, and what this process has counted."""
    await services.gauges.refresh()
    services.waiting_workers.report()
    return Answer(body=exposition(services.runtime.meter).encode(), content_type=CONTENT_TYPE)
