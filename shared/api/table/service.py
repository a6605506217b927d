"""Endpoints about the service itself (contract 1.2)."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.api.models.service import HeartbeatResponse, PingResponse, VersionResponse

ENDPOINTS = (
    Endpoint(
        name="ping",
        method="GET",
        route="/ping",
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
        title="Load Balancer Heartbeat",
        description="Answers as long as this process serves requests. No storage is asked.",
        category="Monitoring",
        output=HeartbeatResponse,
        takes_any_load=True,
    ),
    Endpoint(
        name="heartbeat",
        method="GET",
        route="/__heartbeat__",
        title="Heartbeat",
        description="Answers whether storage and Service Bus answer, as found within the last seconds; 503 names what "
        "does not.",
        category="Monitoring",
        output=HeartbeatResponse,
        takes_any_load=True,
    ),
    Endpoint(
        name="version",
        method="GET",
        route="/__version__",
        title="Taskcluster Version",
        description="Answers which version is deployed.",
        category="Monitoring",
        output=VersionResponse,
        takes_any_load=True,
    ),
)
