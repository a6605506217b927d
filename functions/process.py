"""What one process of the app keeps: settings, connections, the use-cases on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.observation import TracedPublisher, traced_request
from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.settings import Settings, load_settings
from shared.queue.events.announcer import Publisher
from shared.queue.events.exchanges import TOPICS
from shared.runtime import Runtime
from shared.store.connection import AzureStorage, Endpoints
from shared.store.interface import StorageUnavailable
from shared.telemetry.start import Telemetry, start_telemetry

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential

    from shared.queue.events.publisher import EventPublisher

SETTINGS: Final[Settings] = load_settings()
"""Read when the app is indexed, so that a bad setting stops the start."""

TELEMETRY: Final[Telemetry] = start_telemetry(SETTINGS)

for _warning in SETTINGS.warnings():
    logging.getLogger("taskcluster.settings").warning(_warning, extra={"action": "doubtful_setting"})

log = logging.getLogger("taskcluster.housekeeping")

_LAST_SECONDS = 2.0
"""How long a process that is shut down orderly still follows up resolutions of calls that it has answered."""

_lock = asyncio.Lock()
_services: Services | None = None
_connected: AsyncGenerator[Services, None] | None = None


async def services() -> Services:
    """The process's services, connected at the first call: the clients belong to the worker's event loop."""
    global _services, _connected  # noqa: PLW0603  # the worker library offers no place for what a process keeps
    if _services is None:
        async with _lock:
            if _services is None:
                _connected = connected(SETTINGS)
                _services = await anext(_connected)
    return _services


async def connected(settings: Settings) -> AsyncGenerator[Services, None]:
    """Services on the storage account and the Service Bus namespace that the settings name; just one item.

    It is a generator because the platform does not tell an app that its process ends. When the worker's event loop ends
    in order, it closes generators that are still open, and this one then closes the connections.
    """
    runtime = Runtime(meter=TELEMETRY.meter, tracer=TELEMETRY.tracer)
    async with AsyncExitStack() as connections:
        storage = await connections.enter_async_context(_storage(settings, connections))
        events = _publisher(settings, connections)
        connections.push_async_callback(events.close)
        events.keep_open(TOPICS)
        publisher: Publisher = events
        if TELEMETRY.tracer.is_on:
            publisher = TracedPublisher(events, TELEMETRY.tracer)
        assembled = assemble(settings, runtime, storage.storage, publisher, lambda: events.ask(TOPICS[0]))
        flushing = asyncio.create_task(assembled.history.keep_flushing())
        connections.push_async_callback(_finish, assembled, flushing)
        noting = asyncio.create_task(assembled.refused_credentials.keep_flushing())
        connections.callback(noting.cancel)
        if settings.exports_telemetry:
            reporting = asyncio.create_task(assembled.waiting_workers.keep_reporting())
            connections.callback(reporting.cancel)
        yield assembled


async def _finish(assembled: Services, flushing: asyncio.Task[None]) -> None:
    """Ends background work and writes what this process has counted, before its connections are closed."""
    flushing.cancel()
    await assembled.following.finish(_LAST_SECONDS)
    try:
        await assembled.history.flush()
    except StorageUnavailable:
        log.warning("what was counted since the last minute is lost", extra={"action": "history_lost"})


def _storage(settings: Settings, connections: AsyncExitStack) -> AzureStorage:
    watch = partial(traced_request, TELEMETRY.tracer) if TELEMETRY.tracer.is_on else None
    if settings.storage_connection_string is not None:
        return AzureStorage.from_connection_string(settings.storage_connection_string.get_secret_value(), watch=watch)
    assert settings.storage_account_name is not None, "settings are checked when they are loaded"
    key = settings.storage_account_key
    return AzureStorage(
        Endpoints.of_account(settings.storage_account_name),
        _credential(settings, connections),
        signing_key=None if key is None else key.get_secret_value(),
        watch=watch,
    )


def _publisher(settings: Settings, connections: AsyncExitStack) -> EventPublisher:
    from shared.queue.events.publisher import EventPublisher

    prefix = settings.topic_prefix
    if settings.servicebus_connection_string is not None:
        return EventPublisher.from_connection_string(
            settings.servicebus_connection_string.get_secret_value(), topic_prefix=prefix
        )
    assert settings.servicebus_namespace is not None, "settings are checked when they are loaded"
    return EventPublisher.from_identity(
        settings.servicebus_namespace, _credential(settings, connections), topic_prefix=prefix
    )


def _credential(settings: Settings, connections: AsyncExitStack) -> DefaultAzureCredential:
    from azure.identity.aio import DefaultAzureCredential

    credential = DefaultAzureCredential(managed_identity_client_id=settings.managed_identity_client_id)
    connections.push_async_callback(credential.close)
    return credential
