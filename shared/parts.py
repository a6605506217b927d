"""The parts of one process that several use cases have in common, each made at its first use."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property

from shared.auth.client_store import ClientStore
from shared.auth.clients import ROOT_CLIENT_ID, Client, root_client
from shared.auth.keyring import TableKeyring
from shared.auth.refused_store import RefusedStore
from shared.auth.role_store import RoleStore
from shared.runtime import Runtime
from shared.services.queue import ArtifactUseCases
from shared.settings import Settings
from shared.storage.artifacts import ArtifactStore
from shared.storage.audit import AuditStore
from shared.storage.definitions import DefinitionCache
from shared.storage.directory import DirectoryStore
from shared.storage.expiry import ExpiryStore
from shared.storage.group_edges import GroupEdges
from shared.storage.groups import GroupStore
from shared.storage.history import HistoryStore
from shared.storage.index import IndexStore
from shared.storage.interface import Storage
from shared.storage.known import KnownStatuses
from shared.storage.messages import Messages, Signer
from shared.storage.pool_index import PoolIndex
from shared.storage.pools import PoolStore
from shared.storage.recent_groups import RecentGroupStore
from shared.storage.tasks import TaskStore
from shared.storage.workers import WorkerStore
from shared.usecases.announcer import Announcer, Publisher
from shared.usecases.artifact_expiry import ArtifactExpiry
from shared.usecases.artifacts import Artifacts, Finishing
from shared.usecases.audit import Audit
from shared.usecases.back_off import BackOff
from shared.usecases.credentials import EndingCredentials, RefusedCredentials
from shared.usecases.dependents import Dependents
from shared.usecases.executor import Executor, Stores
from shared.usecases.following import Following
from shared.usecases.gauges import Gauges
from shared.usecases.giving_back import GivingBack
from shared.usecases.group_check import GroupCheck
from shared.usecases.heartbeat import Ask, Heartbeat, asks_of
from shared.usecases.index import Index
from shared.usecases.objects import Objects
from shared.usecases.pages import Lookups, Pages
from shared.usecases.poll_urls import PollUrls
from shared.usecases.polling import Poller, PollIntervals, Starvation
from shared.usecases.pool_snapshots import PoolSnapshots
from shared.usecases.reading import Reading
from shared.usecases.reconciler import Reconciler
from shared.usecases.resolution import Resolution
from shared.usecases.stalls import Stalls
from shared.usecases.upload_urls import Relay, UploadUrls
from shared.usecases.uploads import Uploads
from shared.usecases.work import Issuer, Work
from shared.usecases.workers import Presence
from shared.vault import Vault


class Parts:
    """Stores, caches and use cases that others use; those that use others come first."""

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
        """Of calls whose resolutions this process follows up itself."""
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
        )

    @cached_property
    def ending_credentials(self) -> EndingCredentials:
        return EndingCredentials(self.clients, self.runtime)

    @cached_property
    def refused_credentials(self) -> RefusedCredentials:
        return RefusedCredentials(RefusedStore(self.storage.tables), self.runtime)

    @cached_property
    def stalls(self) -> Stalls:
        return Stalls(self.directory, self.worker_rows, self.snapshots, self.history_rows, self.runtime.now)

    @cached_property
    def history_rows(self) -> HistoryStore:
        return HistoryStore(self.storage)

    @cached_property
    def stores(self) -> Stores:
        announcer = Announcer(self._publisher, self.messages, self._wake, self.settings.event_size_limit)
        return Stores(
            tasks=TaskStore(self.storage, self.definitions, self.runtime.slugid, self.known),
            groups=GroupStore(self.storage, self.known, self.runtime.now),
            edges=GroupEdges(self.storage),
            pools=self.pools,
            messages=self.messages,
            announcer=announcer,
            runtime=self.runtime,
        )

    def _wake(self, task_queue_id: str) -> None:
        """A task of this queue has become pending in this process."""
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
    """How long after a task's deadline it is resolved."""
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
        root_url=settings.root_url,
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
        objects=Objects(
            artifacts,
            uploads,
            relay,
            storage,
            runtime,
            issuer,
            mode=settings.artifact_upload_mode,
        ),
        uploads=uploads,
        expiry=ArtifactExpiry(stores.tasks, artifacts, uploads, expiry, storage.blobs, runtime),
    )
