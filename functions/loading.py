"""Loads the SDKs in parallel with the first calls. Indexing does not need them, and they take a third of a start."""

from __future__ import annotations

import gc
import threading
from importlib import import_module

from shared.base.settings import Settings

SDKS = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "shared.queue.events.publisher",
    "shared.store.pipeline",
    "azure.storage.blob.aio",
    "azure.storage.queue",
)
"""The modules of the SDKs, in the order in which calls need them."""

_YOUNG_OBJECTS = 10_000
"""Number of objects that are allocated and not freed before a garbage collection. With Python's default of 700,
collections take a fifth of a createTask, and they find few reference cycles."""


def load_sdks(settings: Settings) -> threading.Thread:
    """Starts a thread that loads the SDKs. Code that imports a module before that waits for it, as for any import."""
    identity = settings.storage_connection_string is None or settings.servicebus_connection_string is None
    names = (*(["azure.identity.aio"] if identity else []), *SDKS)

    def load() -> None:
        for name in names:
            import_module(name)
        # The loaded modules are never freed. Without `freeze`, a full collection would scan their 120,000 objects and
        # stop all calls for 50 ms.
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)

    thread = threading.Thread(target=load, name="load-sdks")
    thread.start()
    return thread
