"""Puts the use-cases together on their storage, events and settings: the one place that knows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from shared.auth.authenticate import Authenticator
from shared.auth.client_store import ClientStore
from shared.auth.clients import Client, root_client
from shared.auth.keyring import TableKeyring
from shared.auth.openid import Provider, SignIn, WorkloadSignIn, fetch
from shared.auth.role_store import RoleStore
from shared.runtime import Runtime
from shared.settings import Settings
from shared.storage.artifacts import ArtifactStore
from shared.storage.definitions import DefinitionCache
from shared.storage.directory import DirectoryStore
from shared.storage.expiry import ExpiryStore
from shared.storage.group_edges import GroupEdges
from shared.storage.group_members import MemberStore
from shared.storage.groups import GroupStore
from shared.storage.history import HistoryStore
from shared.storage.index import IndexStore
from shared.storage.interface import Storage
from shared.storage.known import KnownStatuses
from shared.storage.messages import Messages, Signer
from shared.storage.pool_vouchers import PoolVouchers
from shared.storage.pools import PoolIndex, PoolStore
from shared.storage.recent_groups import RecentGroupStore
from shared.storage.tasks import TaskStore
from shared.storage.workers import WorkerStore
from shared.usecases.announcer import Announcer, Publisher
from shared.usecases.artifact_expiry import ArtifactExpiry
from shared.usecases.artifacts import Artifacts, Finishing
from shared.usecases.back_off import BackOff
from shared.usecases.clients import ClientAccounts
from shared.usecases.create import CreateTask
from shared.usecases.dependents import Dependents
from shared.usecases.executor import Executor, Stores
from shared.usecases.expiration import Expiration
from shared.usecases.gauges import Gauges
from shared.usecases.group_check import GroupCheck
from shared.usecases.group_expiry import GroupExpiry
from shared.usecases.group_jobs import GroupJobs
from shared.usecases.group_statuses import GroupStatuses
from shared.usecases.groups import Batches, Groups
from shared.usecases.health import Health
from shared.usecases.heartbeat import Ask, Heartbeat, asks_of
from shared.usecases.history import History
from shared.usecases.index import Index
from shared.usecases.lifecycle import Lifecycle
from shared.usecases.membership import Membership
from shared.usecases.objects import Objects
from shared.usecases.pages import Pages
from shared.usecases.poll_urls import PollUrls
from shared.usecases.polling import Poller, PollIntervals, Starvation
from shared.usecases.pool_snapshots import PoolSnapshots
from shared.usecases.pool_views import Directory, PoolViews
from shared.usecases.reading import Reading
from shared.usecases.recent_groups import RecentGroups
from shared.usecases.reconciler import Reconciler
from shared.usecases.resolution import Resolution
from shared.usecases.roles import RoleAccounts
from shared.usecases.task_expiry import TaskExpiry
from shared.usecases.task_queue_states import TaskQueueStates
from shared.usecases.timers import Redelivery, Timers
from shared.usecases.upload_urls import Relay, UploadUrls
from shared.usecases.uploads import Uploads
from shared.usecases.waiting_workers import WaitingWorkers
from shared.usecases.work import Issuer, Work
from shared.usecases.workers import Presence, Workers
from shared.vault import Vault


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


def assemble_artifacts(
    settings: Settings, stores: Stores, storage: Storage, expiry: ExpiryStore, issuer: Issuer
) -> ArtifactServices:
    """The use-cases on the given storage."""
    runtime = stores.runtime
    put = timedelta(seconds=settings.artifact_put_seconds)
    artifacts = ArtifactStore(storage, runtime)
    uploads = Uploads(storage, artifacts, expiry, runtime)
    creation = Artifacts(stores, artifacts, expiry, storage.blobs, put)
    relay = Relay(
        stores.tasks,
        artifacts,
        uploads,
        runtime.now,
        signing_keys=[key.get_secret_value() for key in settings.message_signing_keys],
        root_url=settings.root_url,
        limit=settings.artifact_relay_limit_bytes,
    )
    return ArtifactServices(
        creation=creation,
        finishing=Finishing(stores, artifacts, storage.blobs, creation),
        reading=Reading(
            stores.tasks,
            artifacts,
            uploads,
            storage.access,
            runtime,
            life=timedelta(seconds=settings.artifact_get_seconds),
            public_base_url=settings.public_artifact_base_url,
        ),
        urls=UploadUrls(storage.access, relay, runtime),
        relay=relay,
        objects=Objects(
            artifacts,
            uploads,
            relay,
            storage,
            runtime,
            issuer,
            mode=settings.artifact_upload_mode,
            put=put,
        ),
        uploads=uploads,
        expiry=ArtifactExpiry(stores.tasks, artifacts, uploads, storage.blobs, runtime),
    )


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
    poll_urls: PollUrls
    back_off: BackOff
    timers: Timers
    resolution: Resolution
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
    history: History
    expiration: Expiration
    reconciler: Reconciler
    index: Index
    keyring: TableKeyring
    sign_in: SignIn | None
    """None where no OpenID Connect provider is set up."""
    workload_sign_in: WorkloadSignIn | None
    """None where no issuer of ID tokens of workloads is set up."""
    clients: ClientAccounts
    roles: RoleAccounts


def assemble(
    settings: Settings, runtime: Runtime, storage: Storage, publisher: Publisher, ask_events: Ask | None = None
) -> Services:
    """The use-cases on the given storage and publisher; `ask_events` fails when Service Bus does not answer."""
    delay = timedelta(seconds=settings.deadline_delay_seconds)
    signer = Signer([key.get_secret_value() for key in settings.message_signing_keys])
    messages = Messages(storage, runtime, signer, delay)
    known = KnownStatuses(runtime.now)
    pools = PoolStore(storage, runtime, known)
    starvation = Starvation(pools, runtime, timedelta(seconds=settings.starvation_seconds))
    poller = Poller(messages, pools, runtime, _intervals(settings), starvation)
    back_off = BackOff(runtime.now)

    def wake(task_queue_id: str) -> None:
        poller.wake(task_queue_id)
        back_off.worked(task_queue_id)

    cache = DefinitionCache(settings.definition_cache_bytes, runtime.now)
    stores = Stores(
        tasks=TaskStore(storage, cache, runtime.slugid, known),
        groups=GroupStore(storage, known, runtime.now),
        edges=GroupEdges(storage),
        pools=pools,
        messages=messages,
        announcer=Announcer(publisher, messages, wake, settings.event_size_limit),
        runtime=runtime,
    )
    executor = Executor(stores)
    expiry = ExpiryStore(storage)
    workers, directory = WorkerStore(storage, runtime), DirectoryStore(storage, expiry, runtime)
    pool_index = PoolIndex(storage)
    snapshots = PoolSnapshots(pool_index, runtime)
    index = Index(IndexStore(storage, expiry, runtime))
    recent = RecentGroupStore(storage, runtime)
    group_check = GroupCheck(stores)
    gauges = Gauges(stores, snapshots, storage.queues)
    heartbeat = Heartbeat(
        asks_of(storage) | ({} if ask_events is None else {"Service Bus": ask_events}), time.monotonic
    )
    pages = Pages(stores.tasks)
    reconciler = Reconciler(stores, executor, timedelta(days=settings.pool_queues_days))
    clients, roles = ClientStore(storage.tables, runtime), RoleStore(storage.tables, runtime)
    vault = Vault([key.get_secret_value() for key in settings.access_token_keys])
    keyring = TableKeyring([_root(settings)], clients, roles, vault, runtime.now)
    issuer = Issuer(client_id=settings.root_client_id, access_token=settings.root_access_token.get_secret_value())
    artifacts = assemble_artifacts(settings, stores, storage, expiry, issuer)
    work = Work(
        stores,
        executor,
        poller,
        reconciler,
        Presence(stores, workers, directory, expiry),
        issuer,
        first_claim=settings.first_claim,
        claim_timeout=settings.claim_timeout,
    )
    poll_urls = _poll_urls(settings, runtime, storage, pools)
    return Services(
        settings=settings,
        runtime=runtime,
        stores=stores,
        authenticator=Authenticator(keyring, settings.root_url, runtime.now),
        heartbeat=heartbeat,
        health=Health(heartbeat, storage.queues, expiry, runtime.now, time.monotonic),
        end_polls=poller.end_waits,
        create_task=CreateTask(
            stores,
            executor,
            Membership(stores.groups, MemberStore(storage, known, runtime.now), expiry, recent, runtime),
            expiry,
            timedelta(days=settings.max_task_deadline_days),
        ),
        lifecycle=Lifecycle(stores, executor),
        work=work,
        poll_urls=poll_urls,
        back_off=back_off,
        timers=Timers(stores, executor, group_check, delay),
        resolution=Resolution(stores, Dependents(stores, executor), group_check, artifacts.uploads, index),
        redelivery=Redelivery(stores),
        groups=Groups(stores, pages, GroupStatuses(stores.groups, PoolVouchers(storage, known), known, runtime)),
        recent_groups=RecentGroups(stores.groups, recent),
        group_jobs=GroupJobs(stores, executor),
        batches=Batches(stores, pages),
        artifacts=artifacts,
        directory=Directory(directory),
        task_queue_states=TaskQueueStates(directory, snapshots),
        workers=Workers(stores, executor, workers, directory, pool_index, expiry),
        pool_views=PoolViews(stores, pages, pool_index, snapshots),
        gauges=gauges,
        waiting_workers=WaitingWorkers(runtime, {"claimWork": work.waiting, "pollTaskUrls": poll_urls.waiting}),
        history=History(HistoryStore(storage), gauges, runtime, timedelta(days=settings.history_days)),
        reconciler=reconciler,
        index=index,
        expiration=Expiration(
            expiry,
            TaskExpiry(storage, stores, artifacts.expiry, cache),
            GroupExpiry(storage, stores.groups, recent, runtime),
            workers,
            directory,
            clients,
            artifacts.expiry,
            index,
            runtime,
        ),
        keyring=keyring,
        sign_in=_sign_in(settings),
        workload_sign_in=_workload_sign_in(settings),
        clients=ClientAccounts(clients, keyring, vault, expiry, runtime),
        roles=RoleAccounts(roles, keyring, runtime),
    )


def _poll_urls(settings: Settings, runtime: Runtime, storage: Storage, pools: PoolStore) -> PollUrls:
    return PollUrls(
        storage.access,
        pools,
        runtime,
        life=timedelta(seconds=settings.poll_url_seconds),
        hidden_for=settings.poll_visibility_seconds,
    )


def _sign_in(settings: Settings) -> SignIn | None:
    if not settings.openid_issuer:
        return None
    provider = Provider(
        issuer=settings.openid_issuer,
        client_id=settings.openid_client_id,
        name=settings.openid_name,
        scopes=settings.openid_scopes,
        user_claim=settings.openid_user_claim,
        roles=settings.openid_role_pairs,
    )
    return SignIn(provider, fetch, time.monotonic)


def _workload_sign_in(settings: Settings) -> WorkloadSignIn | None:
    if not settings.openid_workload_issuer:
        return None
    return WorkloadSignIn(
        settings.openid_workload_issuer, settings.root_url, settings.openid_workload_name, fetch, time.monotonic
    )


def _root(settings: Settings) -> Client:
    previous = settings.root_access_token_previous
    return root_client(
        settings.root_client_id,
        settings.root_access_token.get_secret_value(),
        previous.get_secret_value() if previous else None,
    )


def _intervals(settings: Settings) -> PollIntervals:
    return PollIntervals(busy=settings.poll_interval_seconds, idle=settings.idle_poll_interval_seconds)
