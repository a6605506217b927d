"""Components of one process that several use cases share, each made at its first use."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property

from shared.auth.audit import Audit, AuditStore
from shared.auth.clients.ending import EndingCredentials, RefusedCredentials, RefusedStore
from shared.auth.clients.rows import ROOT_CLIENT_ID, Client, ClientStore, root_client
from shared.auth.keyring import TableKeyring
from shared.auth.roles.rows import RoleStore
from shared.base.concurrency import Lookups
from shared.base.settings import Settings
from shared.base.vault import Vault
from shared.index.entries import Index
from shared.index.rows import IndexStore
from shared.overview.gauges import Gauges
from shared.overview.health import Ask, Heartbeat, asks_of
from shared.queue.artifacts.creating import Artifacts, Finishing
from shared.queue.artifacts.objects import Objects
from shared.queue.artifacts.reading import Reading
from shared.queue.artifacts.rows import ArtifactStore
from shared.queue.artifacts.services import ArtifactUseCases
from shared.queue.artifacts.upload_urls import Relay, UploadUrls
from shared.queue.artifacts.uploads import Uploads
from shared.queue.claims.handing_out import GivingBack
from shared.queue.claims.poll_urls import BackOff, PollUrls
from shared.queue.claims.polling import Poller, PollIntervals, Starvation
from shared.queue.claims.work import Issuer, Work
from shared.queue.events.announcer import Announcer, Publisher
from shared.queue.expiry.tasks import ArtifactExpiry
from shared.queue.groups.check import GroupCheck
from shared.queue.groups.listing import Pages
from shared.queue.groups.recent import RecentGroupStore
from shared.queue.groups.store import GroupStore
from shared.queue.pools.directory import DirectoryStore
from shared.queue.pools.index import PoolIndex, PoolSnapshots
from shared.queue.pools.rows import PoolStore
from shared.queue.pools.states import Stalls
from shared.queue.pools.waiting import WaitingStore
from shared.queue.pools.worker_rows import WorkerStore
from shared.queue.pools.workers import Presence
from shared.queue.tasks.definitions import DefinitionCache
from shared.queue.tasks.dependents import Dependents
from shared.queue.tasks.edges import GroupEdges
from shared.queue.tasks.executor import Executor, Stores
from shared.queue.tasks.following import Following
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.messages import Messages, Signer
from shared.queue.tasks.reconciler import Reconciler
from shared.queue.tasks.resolution import Resolution
from shared.queue.tasks.rows import TaskStore
from shared.runtime import Runtime
from shared.store.expiring import ExpiryStore
from shared.store.interface import Storage


class Components:
    """Stores, caches and use cases that several others depend on. Those with dependencies stand above what they depend
    on.
    """

    def __init__(
        self, settings: Settings, runtime: Runtime, storage: Storage, publisher: Publisher, ask_events: Ask | None
    ) -> None:
        self.settings = settings
        self.runtime = runtime
        self.storage = storage
        self._publisher = publisher
        self._ask_events = ask_events

    @cached_property
    def giving_back(self) -> GivingBack:
        return GivingBack(self.stores, self.executor)

    @cached_property
    def work(self) -> Work:
        return Work(
            self.stores,
            self.executor,
            self.giving_back,
            self.poller,
            self.reconciler,
            Presence(self.stores, self.worker_rows, self.directory, self.expiry),
            self.issuer,
            first_claim=self.settings.first_claim,
            claim_timeout=self.settings.claim_timeout,
        )

    @cached_property
    def artifacts(self) -> ArtifactUseCases:
        return _artifacts(self.settings, self.stores, self.storage, self.expiry, self.issuer)

    @cached_property
    def reconciler(self) -> Reconciler:
        return Reconciler(self.stores, self.executor)

    @cached_property
    def executor(self) -> Executor:
        return Executor(self.stores)

    @cached_property
    def following_executor(self) -> Executor:
        """The executor of calls that resolve tasks: this process itself follows those resolutions up."""
        return Executor(self.stores, self.following)

    @cached_property
    def following(self) -> Following:
        return Following(self.resolution, self.stores, self.settings.max_followed_resolutions)

    @cached_property
    def resolution(self) -> Resolution:
        dependents = Dependents(self.stores, self.executor)
        return Resolution(self.stores, dependents, self.group_check, self.artifacts.uploads, self.index)

    @cached_property
    def group_check(self) -> GroupCheck:
        return GroupCheck(self.stores)

    @cached_property
    def pages(self) -> Pages:
        return Pages(self.stores.tasks)

    @cached_property
    def lookups(self) -> Lookups:
        return Lookups()

    @cached_property
    def gauges(self) -> Gauges:
        return Gauges(
            self.stores,
            self.snapshots,
            self.stalls,
            self.storage.queues,
            self.ending_credentials,
            self.refused_credentials,
            self.waiting_rows,
        )

    @cached_property
    def ending_credentials(self) -> EndingCredentials:
        return EndingCredentials(self.clients, self.runtime)

    @cached_property
    def refused_credentials(self) -> RefusedCredentials:
        return RefusedCredentials(RefusedStore(self.storage.tables), self.runtime)

    @cached_property
    def stalls(self) -> Stalls:
        return Stalls(self.directory, self.worker_rows, self.snapshots, self.waiting_rows, self.runtime.now)

    @cached_property
    def waiting_rows(self) -> WaitingStore:
        return WaitingStore(self.storage)

    @cached_property
    def stores(self) -> Stores:
        announcer = Announcer(self._publisher, self.messages, self._wake, self.settings.event_size_limit)
        return Stores(
            tasks=TaskStore(self.storage, self.definitions, self.runtime.slugid, self.known),
            groups=GroupStore(self.storage),
            edges=GroupEdges(self.storage),
            pools=self.pools,
            messages=self.messages,
            announcer=announcer,
            runtime=self.runtime,
        )

    def _wake(self, task_queue_id: str) -> None:
        """Called when this process has made a task of this queue pending."""
        self.poller.wake(task_queue_id)
        self.back_off.worked(task_queue_id)

    @cached_property
    def poller(self) -> Poller:
        settings, runtime = self.settings, self.runtime
        starvation = Starvation(self.pools, runtime, timedelta(seconds=settings.starvation_seconds))
        return Poller(
            self.messages,
            self.pools,
            PollIntervals.of(settings.idle_poll_interval_seconds),
            starvation,
            self.back_off.worked,
            runtime,
        )

    @cached_property
    def back_off(self) -> BackOff:
        return BackOff(self.runtime.now)

    @cached_property
    def heartbeat(self) -> Heartbeat:
        asks = asks_of(self.storage)
        if self._ask_events is not None:
            asks["Service Bus"] = self._ask_events
        return Heartbeat(asks, self.runtime.now)

    @cached_property
    def poll_urls(self) -> PollUrls:
        return PollUrls(
            self.storage.access,
            self.pools,
            self.runtime,
            hidden_for=self.settings.poll_visibility_seconds,
        )

    @cached_property
    def index(self) -> Index:
        return Index(IndexStore(self.storage, self.expiry, self.runtime), self.lookups)

    @cached_property
    def audit(self) -> Audit:
        kept = timedelta(days=self.settings.audit_retention_days)
        return Audit(AuditStore(self.storage), self.expiry, self.runtime, kept)

    @cached_property
    def snapshots(self) -> PoolSnapshots:
        return PoolSnapshots(self.pool_index, self.runtime)

    @cached_property
    def pool_index(self) -> PoolIndex:
        return PoolIndex(self.storage)

    @cached_property
    def keyring(self) -> TableKeyring:
        static = [_root(self.settings)]
        refused = self.refused_credentials.note
        return TableKeyring(static, self.clients, self.roles, self.vault, self.runtime.now, refused)

    @cached_property
    def issuer(self) -> Issuer:
        token = self.settings.root_access_token.get_secret_value()
        return Issuer(client_id=ROOT_CLIENT_ID, access_token=token)

    @cached_property
    def vault(self) -> Vault:
        return Vault([key.get_secret_value() for key in self.settings.access_token_keys])

    @cached_property
    def messages(self) -> Messages:
        signer = Signer([key.get_secret_value() for key in self.settings.message_signing_keys])
        return Messages(self.storage, self.runtime, signer, deadline_delay(self.settings))

    @cached_property
    def pools(self) -> PoolStore:
        return PoolStore(self.storage, self.runtime, self.known)

    @cached_property
    def known(self) -> KnownStatuses:
        return KnownStatuses(self.runtime.now)

    @cached_property
    def definitions(self) -> DefinitionCache:
        return DefinitionCache(self.settings.definition_cache_bytes, self.runtime.now)

    @cached_property
    def expiry(self) -> ExpiryStore:
        return ExpiryStore(self.storage, self.runtime.now)

    @cached_property
    def worker_rows(self) -> WorkerStore:
        return WorkerStore(self.storage, self.runtime)

    @cached_property
    def directory(self) -> DirectoryStore:
        return DirectoryStore(self.storage, self.expiry, self.runtime)

    @cached_property
    def recent_groups(self) -> RecentGroupStore:
        return RecentGroupStore(self.storage, self.runtime)

    @cached_property
    def clients(self) -> ClientStore:
        return ClientStore(self.storage.tables, self.runtime)

    @cached_property
    def roles(self) -> RoleStore:
        return RoleStore(self.storage.tables, self.runtime)


def _root(settings: Settings) -> Client:
    previous = settings.root_access_token_previous
    return root_client(
        ROOT_CLIENT_ID,
        settings.root_access_token.get_secret_value(),
        previous.get_secret_value() if previous else None,
    )


def deadline_delay(settings: Settings) -> timedelta:
    """How long after its deadline a task is resolved."""
    return timedelta(seconds=settings.deadline_delay_seconds)


def _artifacts(
    settings: Settings, stores: Stores, storage: Storage, expiry: ExpiryStore, issuer: Issuer
) -> ArtifactUseCases:
    """The use-cases on the given storage."""
    runtime = stores.runtime
    artifacts = ArtifactStore(storage, runtime)
    uploads = Uploads(storage, artifacts, expiry, runtime)
    creation = Artifacts(stores, artifacts, expiry, storage.blobs)
    relay = Relay(
        stores.tasks,
        artifacts,
        uploads,
        runtime.now,
        signing_keys=[key.get_secret_value() for key in settings.message_signing_keys],
        root_url=settings.relay_root_url,
        limit=settings.artifact_relay_limit_bytes,
    )
    return ArtifactUseCases(
        creation=creation,
        finishing=Finishing(stores, artifacts, storage.blobs, creation),
        reading=Reading(
            stores.tasks,
            artifacts,
            uploads,
            storage.access,
            runtime,
            public_base_url=settings.public_artifact_base_url,
        ),
        urls=UploadUrls(storage.access, relay, runtime),
        relay=relay,
        objects=Objects(artifacts, uploads, storage, runtime, issuer),
        uploads=uploads,
        expiry=ArtifactExpiry(stores.tasks, artifacts, uploads, expiry, storage.blobs, runtime),
    )
