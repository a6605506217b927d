"""What one process of the app keeps: settings, connections, the use-cases on them."""

from __future__ import annotations

import asyncio
import logging
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
from shared.telemetry.start import Telemetry, start_telemetry

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential

    from shared.queue.events.publisher import EventPublisher

SETTINGS: Final[Settings] = load_settings()
"""The settings, which are read when the app is indexed, so that a bad setting stops the start."""

TELEMETRY: Final[Telemetry] = start_telemetry(SETTINGS)

for _warning in SETTINGS.warnings():
    logging.getLogger("taskcluster.settings").warning(_warning, extra={"action": "doubtful_setting"})

_services: Services | None = None
_background: list[asyncio.Task[None]] = []
"""Tasks that run until the process ends. The platform ends it without notice: what was noted in the last minute is lost
then, and what follows a resolution is left to its message."""


async def services() -> Services:
    """Returns the process's services, connected at the first call: the clients belong to the worker's event loop."""
    global _services  # noqa: PLW0603  # the worker library offers no place for what a process keeps
    if _services is None:
        _services = _connect(SETTINGS)
    return _services


def _connect(settings: Settings) -> Services:
    """Services on the storage account and the Service Bus namespace that the settings name."""
    runtime = Runtime(meter=TELEMETRY.meter, tracer=TELEMETRY.tracer)
    events = _publisher(settings)
    events.keep_open(TOPICS)
    publisher: Publisher = TracedPublisher(events, TELEMETRY.tracer) if TELEMETRY.tracer else events
    storage = _storage(settings).storage
    assembled = assemble(settings, runtime, storage, publisher, lambda: events.ask(TOPICS[0]))
    work = [assembled.refused_credentials.keep_flushing()]
    if settings.exports_telemetry:
        work.append(assembled.waiting_workers.keep_reporting())
    _background.extend(map(asyncio.create_task, work))
    return assembled


def _storage(settings: Settings) -> AzureStorage:
    watch = partial(traced_request, TELEMETRY.tracer) if TELEMETRY.tracer else None
    if settings.storage_connection_string is not None:
        return AzureStorage.from_connection_string(settings.storage_connection_string.get_secret_value(), watch=watch)
    assert settings.storage_account_name is not None, "settings are checked when they are loaded"
    key = settings.storage_account_key
    return AzureStorage(
        Endpoints.of_account(settings.storage_account_name),
        _credential(settings),
        signing_key=None if key is None else key.get_secret_value(),
        watch=watch,
    )


def _publisher(settings: Settings) -> EventPublisher:
    from shared.queue.events.publisher import EventPublisher

    prefix = settings.topic_prefix
    if settings.servicebus_connection_string is not None:
        return EventPublisher.from_connection_string(
            settings.servicebus_connection_string.get_secret_value(), topic_prefix=prefix
        )
    assert settings.servicebus_namespace is not None, "settings are checked when they are loaded"
    return EventPublisher.from_identity(settings.servicebus_namespace, _credential(settings), topic_prefix=prefix)


def _credential(settings: Settings) -> DefaultAzureCredential:
    from azure.identity.aio import DefaultAzureCredential

    return DefaultAzureCredential(managed_identity_client_id=settings.managed_identity_client_id)
