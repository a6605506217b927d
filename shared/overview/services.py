"""The services that the endpoints about the service itself call."""

from __future__ import annotations

from shared.auth.audit import Audit
from shared.auth.clients.ending import RefusedCredentials
from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.overview.gauges import Gauges
from shared.overview.health import Health, Heartbeat
from shared.overview.operations import Operations
from shared.queue.tasks.lifecycle import Lifecycle
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class OverviewServices:
    """How the service is, what happened, and who did it."""

    settings: Settings
    runtime: Runtime
    audit: Audit
    lifecycle: Lifecycle
    heartbeat: Heartbeat
    health: Health
    gauges: Gauges
    operations: Operations
    refused_credentials: RefusedCredentials
