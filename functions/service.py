"""Endpoints about the service itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from functions.http import Handler
from shared.api.call import Call
from shared.api.site import version_of
from shared.errors import ServiceUnavailable
from shared.services import Services

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


HANDLERS: Mapping[str, Handler] = {
    "ping": ping,
    "lbheartbeat": lbheartbeat,
    "heartbeat": heartbeat,
    "version": version,
}
