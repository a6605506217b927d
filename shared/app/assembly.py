"""Puts the use cases together: what each is made of. What several have in common is in parts.py."""

from __future__ import annotations

import time
from datetime import timedelta

from shared.app.parts import Parts, deadline_delay
from shared.app.services import Services
from shared.auth.authenticate import Authenticator
from shared.auth.clients.accounts import ClientAccounts
from shared.auth.roles.accounts import RoleAccounts
from shared.auth.sign_in.openid import Provider, SignIn, WorkloadSignIn, fetch
from shared.base.settings import Settings
from shared.overview.health import Ask, Health
from shared.overview.history import History
from shared.overview.operations import Operations
from shared.queue.claims.poll_urls import WaitingWorkers
from shared.queue.events.announcer import Publisher
from shared.queue.expiry.failures import ExpiryFailures, UnsentEvents
from shared.queue.expiry.groups import GroupExpiry, MemberExpiry
from shared.queue.expiry.job import Expiration
from shared.queue.expiry.tasks import TaskExpiry
from shared.queue.groups.jobs import GroupJobs
from shared.queue.groups.listing import Batches, Groups
from shared.queue.groups.members import MemberStore
from shared.queue.groups.membership import Membership
from shared.queue.groups.recent import RecentGroups
from shared.queue.groups.statuses import GroupStatuses
from shared.queue.pools.index import PoolVouchers
from shared.queue.pools.states import TaskQueueStates
from shared.queue.pools.views import Directory, PoolViews
from shared.queue.pools.workers import Workers
from shared.queue.tasks.create import CreateTask
from shared.queue.tasks.due import Redelivery, Timers
from shared.queue.tasks.lifecycle import Lifecycle
from shared.runtime import Runtime
from shared.store.interface import Storage


def assemble(
    settings: Settings, runtime: Runtime, storage: Storage, publisher: Publisher, ask_events: Ask | None = None
) -> Services:
    """The use-cases on the given storage and publisher; `ask_events` fails when Service Bus does not answer."""
    parts = Parts(settings, runtime, storage, publisher, ask_events)
    stores = parts.stores
    return Services(
        settings=settings,
        runtime=runtime,
        stores=stores,
        authenticator=Authenticator(parts.keyring, settings.root_url, runtime.now),
        memory=parts.definitions.memory,
        heartbeat=parts.heartbeat,
        health=Health(
            parts.heartbeat,
            storage.queues,
            parts.expiry,
            parts.ending_credentials,
            parts.refused_credentials,
            parts.stalls,
            runtime.now,
        ),
        end_polls=parts.poller.end_waits,
        create_task=_create_task(parts),
        lifecycle=Lifecycle(stores, parts.following_executor),
        work=parts.work,
        giving_back=parts.giving_back,
        poll_urls=parts.poll_urls,
        back_off=parts.back_off,
        timers=Timers(stores, parts.following_executor, parts.group_check, deadline_delay(settings)),
        resolution=parts.resolution,
        following=parts.following,
        redelivery=Redelivery(stores),
        groups=Groups(stores, parts.pages, _group_statuses(parts)),
        recent_groups=RecentGroups(stores.groups, parts.recent_groups, parts.lookups),
        group_jobs=GroupJobs(stores, parts.executor),
        batches=Batches(stores, parts.pages, parts.lookups),
        artifacts=parts.artifacts,
        directory=Directory(parts.directory),
        task_queue_states=TaskQueueStates(
            parts.directory,
            parts.snapshots,
            parts.stalls,
            parts.worker_rows,
            parts.history_rows,
            parts.lookups,
            runtime.now,
        ),
        workers=Workers(stores, parts.executor, parts.worker_rows, parts.directory, parts.pool_index, parts.expiry),
        pool_views=PoolViews(stores, parts.pages, parts.lookups, parts.pool_index, parts.snapshots, parts.stalls),
        gauges=parts.gauges,
        waiting_workers=WaitingWorkers(
            runtime, {"claimWork": parts.poller.waiting, "pollTaskUrls": parts.poll_urls.waiting}
        ),
        refused_credentials=parts.refused_credentials,
        history=History(parts.history_rows, parts.gauges, runtime),
        operations=Operations(storage.queues, parts.expiry, parts.pools, parts.history_rows, runtime),
        reconciler=parts.reconciler,
        index=parts.index,
        expiration=_expiration(parts),
        keyring=parts.keyring,
        audit=parts.audit,
        sign_in=_sign_in(parts),
        workload_sign_in=_workload_sign_in(settings),
        clients=ClientAccounts(parts.clients, parts.keyring, parts.vault, parts.expiry, runtime),
        roles=RoleAccounts(parts.roles, parts.keyring, runtime),
    )


def _create_task(parts: Parts) -> CreateTask:
    members = MemberStore(parts.storage, parts.known, parts.runtime.now)
    membership = Membership(parts.stores.groups, members, parts.expiry, parts.recent_groups, parts.runtime)
    longest = timedelta(days=parts.settings.max_task_deadline_days)
    return CreateTask(parts.stores, parts.executor, membership, parts.expiry, longest)


def _group_statuses(parts: Parts) -> GroupStatuses:
    vouchers = PoolVouchers(parts.storage, parts.known)
    return GroupStatuses(parts.stores.groups, vouchers, parts.known, parts.runtime)


def _expiration(parts: Parts) -> Expiration:
    storage, stores, runtime = parts.storage, parts.stores, parts.runtime
    unsent_events, failures = UnsentEvents(storage.queues, runtime), ExpiryFailures(runtime)
    tasks = TaskExpiry(storage, stores, parts.artifacts.expiry, parts.definitions, unsent_events)
    members = MemberExpiry(storage, stores, tasks, parts.expiry, unsent_events, failures)
    return Expiration(
        parts.expiry,
        tasks,
        members,
        GroupExpiry(storage, stores.groups, parts.recent_groups, members, unsent_events, runtime),
        parts.worker_rows,
        parts.directory,
        parts.clients,
        parts.artifacts.expiry,
        parts.index,
        unsent_events,
        parts.audit,
        failures,
        runtime,
    )


def _sign_in(parts: Parts) -> SignIn | None:
    settings = parts.settings
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
    return SignIn(provider, fetch, time.monotonic, parts.expiry.id_token, parts.runtime.now)


def _workload_sign_in(settings: Settings) -> WorkloadSignIn | None:
    if not settings.openid_workload_issuer:
        return None
    return WorkloadSignIn(
        settings.openid_workload_issuer, settings.root_url, settings.openid_workload_name, fetch, time.monotonic
    )
