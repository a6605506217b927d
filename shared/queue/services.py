"""The use cases of the Queue: those of its endpoints, by subject, and those of its internal messages and timers."""

from __future__ import annotations

from collections.abc import Callable

from shared.base.frozen import dataclass
from shared.queue.artifacts.services import ArtifactServices
from shared.queue.claims.endpoints import ClaimServices
from shared.queue.claims.handing_out import GivingBack
from shared.queue.expiry.job import Expiration
from shared.queue.groups.endpoints import GroupServices
from shared.queue.pools.endpoints import PoolServices
from shared.queue.tasks.batches import BatchServices
from shared.queue.tasks.due import Redelivery, Timers
from shared.queue.tasks.endpoints import TaskServices
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.following import Following
from shared.queue.tasks.reconciler import Reconciler
from shared.queue.tasks.resolution import Resolution


@dataclass(frozen=True, kw_only=True)
class QueueServices(TaskServices, BatchServices, ClaimServices, GroupServices, PoolServices, ArtifactServices):
    """All of the Queue, with what its internal messages and timers do."""

    stores: Stores
    end_polls: Callable[[], None]
    """Lets every long poll of this process end now, with what it has."""
    giving_back: GivingBack
    timers: Timers
    resolution: Resolution
    following: Following
    redelivery: Redelivery
    expiration: Expiration
    reconciler: Reconciler
