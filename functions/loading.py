"""Loads beside the first calls what they need and an index of the functions does not: the SDKs, a third of a start."""

from __future__ import annotations

import threading
from importlib import import_module

from shared.base.settings import Settings

_SDKS = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "shared.queue.events.publisher",
    "azure.storage.queue.aio",
    "shared.store.pipeline",
    "azure.storage.blob.aio",
)
"""In the order in which calls need them."""


def load_sdks(settings: Settings) -> threading.Thread:
    """Begins at once. Code that needs a module sooner waits for it, as Python's imports do."""
    identity = settings.storage_connection_string is None or settings.servicebus_connection_string is None
    names = (*(["azure.identity.aio"] if identity else []), *_SDKS)

    def load() -> None:
        for name in names:
            import_module(name)

    thread = threading.Thread(target=load, name="load-sdks")
    thread.start()
    return thread
