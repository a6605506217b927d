"""The use cases of one process, as endpoints and triggers call them. `shared.assembly` puts them together.

A handler names the services of its context; the one object that the process has is all of them.
"""

from __future__ import annotations

from shared.auth.authenticate import Authenticator
from shared.frozen import dataclass
from shared.services.auth import AuthServices
from shared.services.index import IndexServices
from shared.services.overview import OverviewServices
from shared.services.queue import QueueServices


@dataclass(frozen=True, kw_only=True)
class Services(QueueServices, AuthServices, IndexServices, OverviewServices):
    """All services of one process."""

    authenticator: Authenticator
