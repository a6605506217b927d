"""The use cases of one process, as endpoints and triggers call them. `shared.assembly` puts them together."""

from __future__ import annotations

from collections.abc import Callable

from shared.auth.authenticate import Authenticator
from shared.auth.keyring import TableKeyring
from shared.auth.openid import SignIn, WorkloadSignIn
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.settings import Settings
from shared.usecases.artifact_expiry import ArtifactExpiry
from shared.usecases.artifacts import Artifacts, Finishing
from shared.usecases.audit import Audit
from shared.usecases.back_off import BackOff
from shared.usecases.clients import ClientAccounts
from shared.usecases.create import CreateTask
from shared.usecases.credentials import RefusedCredentials
from shared.usecases.executor import Stores
from shared.usecases.expiration import Expiration
from shared.usecases.following import Following
from shared.usecases.gauges import Gauges
from shared.usecases.giving_back import GivingBack
from shared.usecases.group_jobs import GroupJobs
from shared.usecases.groups import Batches, Groups
from shared.usecases.health import Health
from shared.usecases.heartbeat import Heartbeat
from shared.usecases.history import History
from shared.usecases.index import Index
from shared.usecases.lifecycle import Lifecycle
from shared.usecases.objects import Objects
from shared.usecases.operations import Operations
from shared.usecases.poll_urls import PollUrls
from shared.usecases.pool_views import Directory, PoolViews
from shared.usecases.reading import Reading
from shared.usecases.recent_groups import RecentGroups
from shared.usecases.reconciler import Reconciler
from shared.usecases.resolution import Resolution
from shared.usecases.roles import RoleAccounts
from shared.usecases.task_queue_states import TaskQueueStates
from shared.usecases.timers import Redelivery, Timers
from shared.usecases.upload_urls import Relay, UploadUrls
from shared.usecases.uploads import Uploads
from shared.usecases.waiting_workers import WaitingWorkers
from shared.usecases.work import Work
from shared.usecases.workers import Workers


@dataclass(frozen=True, kw_only=True)
class ArtifactServices:
    """The use-cases of artifacts in one process."""

    creation: Artifacts
    finishing: Finishing
    reading: Reading
    urls: UploadUrls
    relay: Relay
    objects: Objects
    uploads: Uploads
    expiry: ArtifactExpiry


@dataclass(frozen=True, kw_only=True)
class Services:
    """The use-cases of one process."""

    settings: Settings
    runtime: Runtime
    stores: Stores
    authenticator: Authenticator
    heartbeat: Heartbeat
    health: Health
    end_polls: Callable[[], None]
    """Lets every long poll of this process end now, with what it has."""
    create_task: CreateTask
    lifecycle: Lifecycle
    work: Work
    giving_back: GivingBack
    poll_urls: PollUrls
    back_off: BackOff
    timers: Timers
    resolution: Resolution
    following: Following
    redelivery: Redelivery
    groups: Groups
    recent_groups: RecentGroups
    group_jobs: GroupJobs
    batches: Batches
    artifacts: ArtifactServices
    directory: Directory
    task_queue_states: TaskQueueStates
    workers: Workers
    pool_views: PoolViews
    gauges: Gauges
    waiting_workers: WaitingWorkers
    refused_credentials: RefusedCredentials
    history: History
    operations: Operations
    expiration: Expiration
    reconciler: Reconciler
    index: Index
    keyring: TableKeyring
    audit: Audit
    sign_in: SignIn | None
    """None where no OpenID Connect provider is set up."""
    workload_sign_in: WorkloadSignIn | None
    """None where no issuer of ID tokens of workloads is set up."""
    clients: ClientAccounts
    roles: RoleAccounts
