"""What one process of the app keeps: settings, telemetry, connections, the use-cases on them."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import get_tracer

from functions.observation import TracedPublisher, traced_request
from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.ids import new_slugid
from shared.base.settings import Settings, load_settings
from shared.queue.events.announcer import Publisher
from shared.queue.events.exchanges import TOPICS
from shared.runtime import Runtime
from shared.store.connection import AzureStorage, Endpoints
from shared.store.interface import Storage
from shared.telemetry.instruments import SCOPE
from shared.telemetry.logs import structure_logs
from shared.telemetry.meter import Meter

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential

    from shared.queue.events.publisher import EventPublisher

SETTINGS: Final[Settings] = load_settings()
"""The settings, which are read when the app is indexed, so that a bad setting stops the start."""

METER: Final = Meter(new_slugid())
TRACER: Final = get_tracer(SCOPE) if SETTINGS.exports_telemetry else None
"""Receives the spans of calls. They go nowhere until the exporter has been loaded."""


def _export() -> None:
    """Starts the exporters. If one cannot be loaded, that is logged: the service does not depend on it."""
    try:
        from shared.telemetry.export import start_export

        start_export(SETTINGS, METER)
    except Exception:
        logging.getLogger("taskcluster.telemetry").exception(
            "telemetry is not exported", extra={"action": "telemetry_failed"}
        )


structure_logs()
if SETTINGS.exports_telemetry:  # exporters take a second or more to load, so that is beside the first calls
    threading.Thread(target=_export, name="telemetry", daemon=True).start()
for _warning in SETTINGS.warnings():
    logging.getLogger("taskcluster.settings").warning(_warning, extra={"action": "doubtful_setting"})

_services: Services | None = None
_background: list[asyncio.Task[None]] = []
"""Tasks that run until the process ends. The platform ends it without notice: what was noted in the last minute is lost
then, and what follows a resolution is left to its message."""


async def services() -> Services:
    """Returns the process's services, on the storage account and the Service Bus namespace that the settings name.
    They are connected at the first call: the clients belong to the worker's event loop."""
    global _services  # noqa: PLW0603  # the worker library offers no place for what a process keeps
    if _services is None:
        events = _publisher(SETTINGS)
        events.keep_open(TOPICS)
        publisher: Publisher = TracedPublisher(events, TRACER) if TRACER else events
        runtime = Runtime(meter=METER, tracer=TRACER)
        _services = assemble(SETTINGS, runtime, _storage(SETTINGS), publisher, lambda: events.ask(TOPICS[0]))
        work = [_services.refused_credentials.keep_flushing()]
        if SETTINGS.exports_telemetry:
            work.append(_services.waiting_workers.keep_reporting())
        _background.extend(map(asyncio.create_task, work))
    return _services


def _storage(settings: Settings) -> Storage:
    watch = partial(traced_request, TRACER) if TRACER else None
    if settings.storage_connection_string is not None:
        text = settings.storage_connection_string.get_secret_value()
        return AzureStorage.from_connection_string(text, watch=watch).storage
    assert settings.storage_account_name is not None, "settings are checked when they are loaded"
    endpoints, key = Endpoints.of_account(settings.storage_account_name), settings.storage_account_key
    signing_key = None if key is None else key.get_secret_value()
    return AzureStorage(endpoints, _credential(settings), signing_key=signing_key, watch=watch).storage


def _publisher(settings: Settings) -> EventPublisher:
    from shared.queue.events.publisher import EventPublisher

    prefix = settings.topic_prefix
    if settings.servicebus_connection_string is not None:
        text = settings.servicebus_connection_string.get_secret_value()
        return EventPublisher.from_connection_string(text, topic_prefix=prefix)
    assert settings.servicebus_namespace is not None, "settings are checked when they are loaded"
    return EventPublisher.from_identity(settings.servicebus_namespace, _credential(settings), topic_prefix=prefix)


def _credential(settings: Settings) -> DefaultAzureCredential:
    from azure.identity.aio import DefaultAzureCredential

    return DefaultAzureCredential(managed_identity_client_id=settings.managed_identity_client_id)
