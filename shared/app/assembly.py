"""Creates the use cases of a process from storage, publisher and settings."""

from __future__ import annotations

import time
from datetime import timedelta

from shared.app.services import Services
from shared.auth.audit import Audit
from shared.auth.authenticate import Authenticator
from shared.auth.clients.accounts import ClientAccounts
from shared.auth.clients.ending import EndingCredentials, RefusedCredentials
from shared.auth.clients.rows import ROOT_CLIENT_ID, Client, ClientStore
from shared.auth.keyring import TableKeyring
from shared.auth.openid import IdTokens, SignIn, WorkloadSignIn, fetch
from shared.auth.roles.accounts import RoleAccounts
from shared.auth.roles.rows import RoleStore
from shared.base.concurrency import Lookups
from shared.base.settings import Settings
from shared.base.vault import Vault
from shared.index.entries import Index
from shared.overview.gauges import Gauges
from shared.overview.health import Ask, Health, Heartbeat, asks_of
from shared.overview.operations import Operations
from shared.queue.artifacts.creating import Artifacts
from shared.queue.artifacts.objects import Objects
from shared.queue.artifacts.reading import Reading
from shared.queue.artifacts.rows import ArtifactStore
from shared.queue.artifacts.upload_urls import UploadUrls
from shared.queue.artifacts.uploads import Uploads
from shared.queue.claims.handing_out import GivingBack
from shared.queue.claims.poll_urls import BackOff, PollUrls, WaitingWorkerCounts
from shared.queue.claims.polling import Poller
from shared.queue.claims.work import Issuer, Work
from shared.queue.events.announcer import Announcer, Publisher
from shared.queue.expiry.groups import GroupExpiry
from shared.queue.expiry.job import LISTED, Expiration, Expire, UnsentEvents, expire_client, nothing_else
from shared.queue.expiry.tasks import TaskExpiry
from shared.queue.groups.check import GroupCheck
from shared.queue.groups.jobs import GroupJobs
from shared.queue.groups.listing import Batches, Groups
from shared.queue.groups.membership import Membership
from shared.queue.groups.recent import RecentGroups
from shared.queue.groups.store import GroupStore
from shared.queue.pools.directory import DirectoryKind, DirectoryStore
from shared.queue.pools.index import PoolIndex
from shared.queue.pools.rows import PoolStore
from shared.queue.pools.states import TaskQueueStates, WaitingStore
from shared.queue.pools.views import PoolViews
from shared.queue.pools.worker_rows import WorkerStore
from shared.queue.pools.workers import Workers
from shared.queue.services import ArtifactUseCases
from shared.queue.tasks.create import CreateTask
from shared.queue.tasks.definitions import Definitions
from shared.queue.tasks.dependents import Dependents
from shared.queue.tasks.due import DueMessages, Redelivery
from shared.queue.tasks.edges import GroupEdges
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.following import Following
from shared.queue.tasks.known import GroupStatuses, KnownStatuses
from shared.queue.tasks.lifecycle import Lifecycle
from shared.queue.tasks.messages import Messages
from shared.queue.tasks.reconciler import Reconciler
from shared.queue.tasks.resolution import Resolution
from shared.queue.tasks.rows import TaskStore
from shared.runtime import Runtime
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import Storage


def assemble(
    settings: Settings, runtime: Runtime, storage: Storage, publisher: Publisher, ask_events: Ask | None = None
) -> Services:
    """Returns the use cases on this storage and publisher. `ask_events` raises when Service Bus does not answer."""
    now, lookups = runtime.now, Lookups()
    deadline_delay = timedelta(seconds=settings.deadline_delay_seconds)
    expiry = ExpiryStore(storage, now)
    known = KnownStatuses(now)
    definitions = Definitions(storage.tables, settings.definition_cache_bytes, now)
    signing_keys = [key.get_secret_value() for key in settings.message_signing_keys]
    messages = Messages(storage, runtime, signing_keys, deadline_delay)
    pool_rows = PoolStore(storage, runtime, known)
    pool_index = PoolIndex(storage, runtime)
    worker_rows = WorkerStore(storage, runtime)
    waiting_rows = WaitingStore(storage)
    directory = DirectoryStore(storage, expiry, runtime)
    states = TaskQueueStates(directory, pool_index, worker_rows, waiting_rows, lookups, now)

    client_rows = ClientStore(storage.tables, runtime)
    role_rows = RoleStore(storage.tables, runtime)
    ending = EndingCredentials(client_rows, runtime)
    refused = RefusedCredentials(storage.tables, runtime)
    vault = Vault([key.get_secret_value() for key in settings.access_token_keys])
    root_token, previous = settings.root_access_token.get_secret_value(), settings.root_access_token_previous
    root = Client(
        client_id=ROOT_CLIENT_ID,
        access_token=root_token,
        scopes=("*",),
        retired_tokens=(previous.get_secret_value(),) if previous else (),
    )
    keyring = TableKeyring([root], client_rows, role_rows, vault, now, refused.note_refusal)
    issuer = Issuer(client_id=ROOT_CLIENT_ID, access_token=root_token)
    audit_log = Audit(storage, expiry, runtime, timedelta(days=settings.audit_retention_days))

    back_off = BackOff(now)
    poller = Poller(
        messages,
        pool_rows,
        settings.idle_poll_interval_seconds,
        timedelta(seconds=settings.starvation_seconds),
        back_off.worked,
        runtime,
    )
    poll_urls = PollUrls(storage.access, pool_rows, runtime, hidden_for=settings.poll_visibility_seconds)

    def wake(task_queue_id: str) -> None:
        """Called with a task queue of which this process has made a task pending."""
        poller.wake(task_queue_id)
        back_off.worked(task_queue_id)

    stores = Stores(
        tasks=TaskStore(storage, definitions, runtime.slugid, known),
        groups=GroupStore(storage),
        edges=GroupEdges(storage),
        pools=pool_rows,
        messages=messages,
        announcer=Announcer(publisher, messages, wake, settings.event_size_limit),
        runtime=runtime,
    )
    recent_groups = RecentGroups(storage, stores.groups, lookups, runtime)
    executor = Executor(stores)
    group_check = GroupCheck(stores)
    reconciler = Reconciler(stores, executor)
    giving_back = GivingBack(stores, executor)
    artifact_rows = ArtifactStore(storage, runtime)
    artifacts = _artifacts(settings, stores, storage, expiry, issuer, artifact_rows)
    index = Index(storage, expiry, runtime, lookups)
    resolution = Resolution(stores, Dependents(stores, executor), group_check, artifacts.uploads, index.task_completed)
    following = Following(resolution, stores, settings.max_followed_resolutions)
    # The executor of calls that resolve tasks: this process itself follows those resolutions up.
    following_executor = Executor(stores, following.follow_up_commit, following.delay)
    workers = Workers(stores, executor, worker_rows, directory, pool_index, expiry)
    membership = Membership(storage, stores.groups, known, expiry, recent_groups, runtime)
    group_statuses = GroupStatuses(stores.groups, pool_index, known, runtime)

    unsent_events = UnsentEvents(storage.queues, runtime)
    tasks_expiry = TaskExpiry(storage, stores, artifact_rows, artifacts.uploads, expiry, unsent_events)
    groups_expiry = GroupExpiry(storage, stores, tasks_expiry, expiry, group_check, recent_groups, unsent_events)

    expired: dict[str, Expire] = {
        "task": groups_expiry.task,
        keys.SWEPT_GROUP: groups_expiry.group,
        LISTED: groups_expiry.expire_listed_group,
        "worker": worker_rows.expire,
        **dict.fromkeys(DirectoryKind, directory.expire),
        "client": expire_client(client_rows, audit_log, now),
        "artifact": tasks_expiry.artifact,
        "upload": tasks_expiry.upload,
        "strays": tasks_expiry.strays,
        keys.INDEX_SWEEP: index.sweep,
        keys.AUDIT_SWEEP: audit_log.expire,
        keys.EXCHANGED: nothing_else,
    }

    asks = asks_of(storage)
    if ask_events is not None:
        asks["Service Bus"] = ask_events
    heartbeat = Heartbeat(asks, now)
    sign_in = workload_sign_in = None
    if settings.openid_issuer:
        sign_in = SignIn(
            tokens=IdTokens(settings.openid_issuer, settings.openid_client_id, fetch, time.monotonic),
            name=settings.openid_name,
            user_claim=settings.openid_user_claim,
            roles=settings.openid_role_pairs,
            first_exchange=expiry.id_token,
            now=now,
        )
    if settings.openid_workload_issuer:
        tokens = IdTokens(settings.openid_workload_issuer, settings.root_url, fetch, time.monotonic)
        workload_sign_in = WorkloadSignIn(tokens, settings.openid_workload_name, keyring.roles)
    return Services(
        settings=settings,
        runtime=runtime,
        stores=stores,
        authenticator=Authenticator(keyring, settings.root_url, now),
        memory=definitions.memory,
        heartbeat=heartbeat,
        health=Health(heartbeat, storage.queues, expiry, ending, refused, states, now),
        end_polls=poller.end_waits,
        create_task=CreateTask(stores, executor, membership, timedelta(days=settings.max_task_deadline_days)),
        lifecycle=Lifecycle(stores, following_executor),
        work=Work(
            stores,
            executor,
            giving_back,
            poller,
            reconciler,
            workers,
            issuer,
            first_claim=settings.first_claim,
            claim_timeout=settings.claim_timeout,
        ),
        giving_back=giving_back,
        poll_urls=poll_urls,
        back_off=back_off,
        due=DueMessages(stores, following_executor, group_check, deadline_delay),
        resolution=resolution,
        following=following,
        redelivery=Redelivery(stores),
        groups=Groups(stores, group_statuses),
        recent_groups=recent_groups,
        group_jobs=GroupJobs(stores, executor),
        batches=Batches(stores, lookups),
        artifacts=artifacts,
        directory=directory,
        task_queue_states=states,
        workers=workers,
        pool_views=PoolViews(stores, lookups, pool_index, states),
        gauges=Gauges(stores, pool_index, states, storage.queues, ending, refused, waiting_rows),
        waiting_workers=WaitingWorkerCounts(runtime, {"claimWork": poller.waiting, "pollTaskUrls": poll_urls.waiting}),
        refused_credentials=refused,
        operations=Operations(storage.queues, expiry, pool_rows, waiting_rows, runtime),
        reconciler=reconciler,
        index=index,
        expiration=Expiration(expiry, unsent_events, expired, runtime),
        keyring=keyring,
        audit=audit_log,
        sign_in=sign_in,
        workload_sign_in=workload_sign_in,
        clients=ClientAccounts(client_rows, keyring, vault, expiry, runtime),
        roles=RoleAccounts(role_rows, keyring, runtime),
    )


def _artifacts(
    settings: Settings, stores: Stores, storage: Storage, expiry: ExpiryStore, issuer: Issuer, artifacts: ArtifactStore
) -> ArtifactUseCases:
    runtime = stores.runtime
    uploads = Uploads(storage, artifacts, expiry, runtime)
    urls = UploadUrls(
        stores.tasks,
        artifacts,
        uploads,
        storage.access,
        runtime.now,
        signing_keys=[key.get_secret_value() for key in settings.message_signing_keys],
        root_url=settings.relay_root_url,
        limit=settings.artifact_relay_limit_bytes,
    )
    return ArtifactUseCases(
        creation=Artifacts(stores, artifacts, expiry, storage.blobs),
        reading=Reading(
            stores.tasks,
            artifacts,
            uploads,
            storage.access,
            runtime,
            public_base_url=settings.public_artifact_base_url,
        ),
        urls=urls,
        objects=Objects(artifacts, uploads, storage, runtime, issuer),
        uploads=uploads,
    )
