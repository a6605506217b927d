"""What the endpoints of the Queue call, by family, and its handlers of internal messages and timers."""

from __future__ import annotations

from collections.abc import Callable

from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.settings import Settings
from shared.usecases.artifact_expiry import ArtifactExpiry
from shared.usecases.artifacts import Artifacts, Finishing
from shared.usecases.audit import Audit
from shared.usecases.back_off import BackOff
from shared.usecases.create import CreateTask
from shared.usecases.executor import Stores
from shared.usecases.expiration import Expiration
from shared.usecases.following import Following
from shared.usecases.giving_back import GivingBack
from shared.usecases.group_jobs import GroupJobs
from shared.usecases.groups import Batches, Groups
from shared.usecases.lifecycle import Lifecycle
from shared.usecases.objects import Objects
from shared.usecases.poll_urls import PollUrls
from shared.usecases.pool_views import Directory, PoolViews
from shared.usecases.reading import Reading
from shared.usecases.recent_groups import RecentGroups
from shared.usecases.reconciler import Reconciler
from shared.usecases.resolution import Resolution
from shared.usecases.task_queue_states import TaskQueueStates
from shared.usecases.timers import Redelivery, Timers
from shared.usecases.upload_urls import Relay, UploadUrls
from shared.usecases.uploads import Uploads
from shared.usecases.waiting_workers import WaitingWorkers
from shared.usecases.work import Work
from shared.usecases.workers import Workers


@dataclass(frozen=True, kw_only=True)
class TaskServices:
    """Tasks: to create, to read and to change them."""

    audit: Audit
    create_task: CreateTask
    lifecycle: Lifecycle


@dataclass(frozen=True, kw_only=True)
class ClaimServices:
    """Work: to claim it, to go on with it and to report how it ended."""

    settings: Settings
    lifecycle: Lifecycle
    work: Work
    poll_urls: PollUrls
    back_off: BackOff


@dataclass(frozen=True, kw_only=True)
class GroupServices:
    """Task groups, and many tasks at once."""

    audit: Audit
    batches: Batches
    groups: Groups
    group_jobs: GroupJobs
    recent_groups: RecentGroups


@dataclass(frozen=True, kw_only=True)
class PoolServices:
    """Provisioners, task queues and workers."""

    runtime: Runtime
    audit: Audit
    directory: Directory
    pool_views: PoolViews
    task_queue_states: TaskQueueStates
    waiting_workers: WaitingWorkers
    workers: Workers


@dataclass(frozen=True, kw_only=True)
class ArtifactUseCases:
    """The use-cases of artifacts."""

    creation: Artifacts
    finishing: Finishing
    reading: Reading
    urls: UploadUrls
    relay: Relay
    objects: Objects
    uploads: Uploads
    expiry: ArtifactExpiry


@dataclass(frozen=True, kw_only=True)
class ArtifactServices:
    """Artifacts and the objects that hold their data."""

    settings: Settings
    runtime: Runtime
    artifacts: ArtifactUseCases


@dataclass(frozen=True, kw_only=True)
class QueueServices(TaskServices, ClaimServices, GroupServices, PoolServices, ArtifactServices):
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
