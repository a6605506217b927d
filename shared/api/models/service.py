"""Schemas of the service's own endpoints (contract 1.2)."""

from __future__ import annotations

from shared.api.types import Closed


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
