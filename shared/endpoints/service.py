"""Endpoints about the service itself: models, rows and handlers (contract 1.2)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from shared.api.answer import version_of
from shared.api.endpoint import Call, Endpoint
from shared.errors import ServiceUnavailable
from shared.services import Services
from shared.types import Closed


class PingResponse(Closed):
    """The service is alive."""

    alive: bool
    uptime: float


class HeartbeatResponse(Closed):
    """An empty object: this process answers."""


class VersionResponse(Closed):
    """What is deployed, in the form of Mozilla's Dockerflow. Empty: not known."""

    version: str
    commit: str
    source: str
    build: str


_started = time.monotonic()


async def ping(services: Services, call: Call) -> Mapping[str, Any]:
    """Alive, and for how long this process has been: no storage is asked."""
    return {"alive": True, "uptime": time.monotonic() - _started}


async def lbheartbeat(services: Services, call: Call) -> Mapping[str, Any]:
    """lbheartbeat: nothing is asked."""
    return {}


async def heartbeat(services: Services, call: Call) -> Mapping[str, Any]:
    """heartbeat. Raises ServiceUnavailable, naming what does not answer."""
    silent = await services.heartbeat.silent()
    if silent:
        raise ServiceUnavailable(f"no answer in time from: {', '.join(silent)}")
    return {}


async def version(services: Services, call: Call) -> Mapping[str, Any]:
    """version."""
    return version_of(services.settings.app_version)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        name="ping",
        method="GET",
        route="/ping",
        handler=ping,
        title="Ping Server",
        description="Respond without doing anything. This endpoint is used to check that the service is up.",
        category="Ping Server",
        output=PingResponse,
        takes_any_load=True,
    ),
    Endpoint(
        name="lbheartbeat",
        method="GET",
        route="/__lbheartbeat__",
        handler=lbheartbeat,
        title="Load Balancer Heartbeat",
        description="Returns 200 while this process serves requests; no storage is read.",
        category="Monitoring",
        output=HeartbeatResponse,
        takes_any_load=True,
    ),
    Endpoint(
        name="heartbeat",
        method="GET",
        route="/__heartbeat__",
        handler=heartbeat,
        title="Heartbeat",
        description="Returns 200 if storage and Service Bus responded within the last seconds; 503 names what did not.",
        category="Monitoring",
        output=HeartbeatResponse,
        takes_any_load=True,
    ),
    Endpoint(
        name="version",
        method="GET",
        route="/__version__",
        handler=version,
        title="Taskcluster Version",
        description="Returns which version is deployed.",
        category="Monitoring",
        output=VersionResponse,
        takes_any_load=True,
    ),
)
