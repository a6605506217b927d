"""Puts the use cases together: what each is made of. What several have in common is in components.py."""

from __future__ import annotations

import time
from datetime import timedelta

from shared.app.components import Components, deadline_delay
from shared.app.services import Services
from shared.auth.authenticate import Authenticator
from shared.auth.clients.accounts import ClientAccounts
from shared.auth.roles.accounts import RoleAccounts
from shared.auth.sign_in.openid import Provider, SignIn, WorkloadSignIn, fetch
from shared.base.settings import Settings
from shared.overview.health import Ask, Health
from shared.overview.operations import Operations
from shared.queue.claims.poll_urls import WaitingWorkerCounts
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
    """The use cases on the given storage and publisher. `ask_events` is a probe that raises when Service Bus does not
    answer.
    """
    components = Components(settings, runtime, storage, publisher, ask_events)
    stores = components.stores
    return Services(
        settings=settings,
        runtime=runtime,
        stores=stores,
        authenticator=Authenticator(components.keyring, settings.root_url, runtime.now),
        memory=components.definitions.memory,
        heartbeat=components.heartbeat,
        health=Health(
            components.heartbeat,
            storage.queues,
            components.expiry,
            components.ending_credentials,
            components.refused_credentials,
            components.stalls,
            runtime.now,
        ),
        end_polls=components.poller.end_waits,
        create_task=_create_task(components),
        lifecycle=Lifecycle(stores, components.following_executor),
        work=components.work,
        giving_back=components.giving_back,
        poll_urls=components.poll_urls,
        back_off=components.back_off,
        timers=Timers(stores, components.following_executor, components.group_check, deadline_delay(settings)),
        resolution=components.resolution,
        following=components.following,
        redelivery=Redelivery(stores),
        groups=Groups(stores, components.pages, _group_statuses(components)),
        recent_groups=RecentGroups(stores.groups, components.recent_groups, components.lookups),
        group_jobs=GroupJobs(stores, components.executor),
        batches=Batches(stores, components.pages, components.lookups),
        artifacts=components.artifacts,
        directory=Directory(components.directory),
        task_queue_states=TaskQueueStates(
            components.directory,
            components.snapshots,
            components.stalls,
            components.worker_rows,
            components.lookups,
            runtime.now,
        ),
        workers=Workers(
            stores,
            components.executor,
            components.worker_rows,
            components.directory,
            components.pool_index,
            components.expiry,
        ),
        pool_views=PoolViews(
            stores, components.pages, components.lookups, components.pool_index, components.snapshots, components.stalls
        ),
        gauges=components.gauges,
        waiting_workers=WaitingWorkerCounts(
            runtime, {"claimWork": components.poller.waiting, "pollTaskUrls": components.poll_urls.waiting}
        ),
        refused_credentials=components.refused_credentials,
        operations=Operations(storage.queues, components.expiry, components.pools, components.waiting_rows, runtime),
        reconciler=components.reconciler,
        index=components.index,
        expiration=_expiration(components),
        keyring=components.keyring,
        audit=components.audit,
        sign_in=_sign_in(components),
        workload_sign_in=_workload_sign_in(components),
        clients=ClientAccounts(components.clients, components.keyring, components.vault, components.expiry, runtime),
        roles=RoleAccounts(components.roles, components.keyring, runtime),
    )


def _create_task(components: Components) -> CreateTask:
    members = MemberStore(components.storage, components.known)
    membership = Membership(
        components.stores.groups, members, components.expiry, components.recent_groups, components.runtime
    )
    longest = timedelta(days=components.settings.max_task_deadline_days)
    return CreateTask(components.stores, components.executor, membership, components.expiry, longest)


def _group_statuses(components: Components) -> GroupStatuses:
    vouchers = PoolVouchers(components.storage, components.known)
    return GroupStatuses(components.stores.groups, vouchers, components.known, components.runtime)


def _expiration(components: Components) -> Expiration:
    storage, stores, runtime = components.storage, components.stores, components.runtime
    unsent_events, failures = UnsentEvents(storage.queues, runtime), ExpiryFailures(runtime)
    tasks = TaskExpiry(storage, stores, components.artifacts.expiry, components.definitions, unsent_events)
    members = MemberExpiry(storage, stores, tasks, components.expiry, unsent_events, failures)
    return Expiration(
        components.expiry,
        tasks,
        members,
        GroupExpiry(
            storage, stores.groups, components.group_check, components.recent_groups, members, unsent_events, runtime
        ),
        components.worker_rows,
        components.directory,
        components.clients,
        components.artifacts.expiry,
        components.index,
        unsent_events,
        components.audit,
        failures,
        runtime,
    )


def _sign_in(components: Components) -> SignIn | None:
    settings = components.settings
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
    return SignIn(provider, fetch, time.monotonic, components.expiry.id_token, components.runtime.now)


def _workload_sign_in(components: Components) -> WorkloadSignIn | None:
    settings = components.settings
    if not settings.openid_workload_issuer:
        return None
    return WorkloadSignIn(
        settings.openid_workload_issuer,
        settings.root_url,
        settings.openid_workload_name,
        components.keyring.granting,
        fetch,
        time.monotonic,
    )
