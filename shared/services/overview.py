"""What the endpoints about the service itself call."""

from __future__ import annotations

from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.settings import Settings
from shared.usecases.audit import Audit
from shared.usecases.credentials import RefusedCredentials
from shared.usecases.gauges import Gauges
from shared.usecases.health import Health
from shared.usecases.heartbeat import Heartbeat
from shared.usecases.history import History
from shared.usecases.lifecycle import Lifecycle
from shared.usecases.operations import Operations


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
    history: History
    operations: Operations
    refused_credentials: RefusedCredentials
