"""The use cases of one process, as endpoints and triggers call them. `shared.app.assembly` puts them together. A
handler is typed with the services of its context; the process has one object that implements all of them."""

from __future__ import annotations

from shared.auth.account_endpoints import AuthServices
from shared.auth.authenticate import Authenticator
from shared.base.frozen import dataclass
from shared.base.memory import Memory
from shared.index.endpoints import IndexServices
from shared.overview.endpoints import OverviewServices
from shared.queue.services import QueueServices


@dataclass(frozen=True, kw_only=True)
class Services(QueueServices, AuthServices, IndexServices, OverviewServices):
    """All services of one process."""

    authenticator: Authenticator
    memory: Memory
