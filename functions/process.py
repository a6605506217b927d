"""What one process of the app keeps: settings, connections, the use-cases on them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from azure.identity.aio import DefaultAzureCredential

from shared.events.publisher import EventPublisher
from shared.runtime import Runtime
from shared.services import Services, assemble
from shared.settings import Settings, load_settings
from shared.storage.connection import AzureStorage, Endpoints
from shared.telemetry.start import Telemetry, start_telemetry
from shared.telemetry.traced import TracedPublisher, TracingPolicy
from shared.usecases.announcer import Publisher

SETTINGS: Final[Settings] = load_settings()
"""Read when the app is indexed, so that a bad setting stops the start."""

TELEMETRY: Final[Telemetry] = start_telemetry(SETTINGS)

_lock = asyncio.Lock()
_services: Services | None = None


async def services() -> Services:
    """The process's services, connected at the first call: the clients belong to the worker's event loop."""
    global _services  # noqa: PLW0603  # the worker library offers no place of its own for what a process keeps
    if _services is None:
        async with _lock:
            if _services is None:
                _services = connect(SETTINGS)
    return _services


def connect(settings: Settings) -> Services:
    """Services on the storage account and the Service Bus namespace that the settings name."""
    runtime = Runtime(meter=TELEMETRY.meter, tracer=TELEMETRY.tracer)
    publisher: Publisher = _publisher(settings)
    if TELEMETRY.tracer.is_on:
        publisher = TracedPublisher(publisher, TELEMETRY.tracer)
    return assemble(settings, runtime, _storage(settings).storage, publisher)


def _storage(settings: Settings) -> AzureStorage:
    watch = partial(TracingPolicy, TELEMETRY.tracer) if TELEMETRY.tracer.is_on else None
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
    prefix, timeout = settings.topic_prefix, settings.publish_timeout_seconds
    if settings.servicebus_connection_string is not None:
        return EventPublisher.from_connection_string(
            settings.servicebus_connection_string.get_secret_value(), topic_prefix=prefix, timeout=timeout
        )
    assert settings.servicebus_namespace is not None, "settings are checked when they are loaded"
    return EventPublisher.from_identity(
        settings.servicebus_namespace, _credential(settings), topic_prefix=prefix, timeout=timeout
    )


def _credential(settings: Settings) -> DefaultAzureCredential:
    return DefaultAzureCredential(managed_identity_client_id=settings.managed_identity_client_id)
