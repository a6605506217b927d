"""The use cases of the Queue: those of its endpoints, by subject, and those of its internal messages and timers."""

from __future__ import annotations

from collections.abc import Callable

from shared.auth.audit import Audit
from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.queue.artifacts.creating import Artifacts
from shared.queue.artifacts.objects import Objects
from shared.queue.artifacts.reading import Reading
from shared.queue.artifacts.upload_urls import UploadUrls
from shared.queue.artifacts.uploads import Uploads
from shared.queue.claims.handing_out import GivingBack
from shared.queue.claims.poll_urls import BackOff, PollUrls, WaitingWorkerCounts
from shared.queue.claims.work import Work
from shared.queue.expiry.job import Expiration
from shared.queue.groups.jobs import GroupJobs
from shared.queue.groups.listing import Batches, Groups
from shared.queue.groups.recent import RecentGroups
from shared.queue.pools.directory import DirectoryStore
from shared.queue.pools.states import TaskQueueStates
from shared.queue.pools.views import PoolViews
from shared.queue.pools.workers import Workers
from shared.queue.tasks.create import CreateTask
from shared.queue.tasks.due import DueMessages, Redelivery
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.following import Following
from shared.queue.tasks.lifecycle import Lifecycle
from shared.queue.tasks.reconciler import Reconciler
from shared.queue.tasks.resolution import Resolution
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class ArtifactUseCases:
    """The use-cases of artifacts."""

    creation: Artifacts
    reading: Reading
    urls: UploadUrls
    objects: Objects
    uploads: Uploads


@dataclass(frozen=True, kw_only=True)
class QueueServices:
    """All of the Queue, with what its internal messages and timers do."""

    settings: Settings
    runtime: Runtime
    audit: Audit
    stores: Stores
    create_task: CreateTask
    lifecycle: Lifecycle
    batches: Batches
    groups: Groups
    group_jobs: GroupJobs
    recent_groups: RecentGroups
    work: Work
    poll_urls: PollUrls
    back_off: BackOff
    directory: DirectoryStore
    pool_views: PoolViews
    task_queue_states: TaskQueueStates
    waiting_workers: WaitingWorkerCounts
    workers: Workers
    artifacts: ArtifactUseCases
    end_polls: Callable[[], None]
    """Function that ends every long poll of this process now, with the work it has found."""
    giving_back: GivingBack
    due: DueMessages
    resolution: Resolution
    following: Following
    redelivery: Redelivery
    expiration: Expiration
    reconciler: Reconciler
