"""Loads beside the first calls what they need and an index of the functions does not: the SDKs, a third of a start."""

from __future__ import annotations

import gc
import threading
from importlib import import_module

from shared.base.settings import Settings

SDKS = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "shared.queue.events.publisher",
    "azure.storage.queue.aio",
    "shared.store.pipeline",
    "azure.storage.blob.aio",
)
"""In the order in which calls need them."""

_YOUNG_OBJECTS = 10_000
"""Objects that a process makes, and has not freed, between two collections of garbage: Python's 700 are a fifth of a
createTask, and what is in a cycle is little."""


def load_sdks(settings: Settings) -> threading.Thread:
    """Begins at once. Code that needs a module sooner waits for it, as Python's imports do."""
    identity = settings.storage_connection_string is None or settings.servicebus_connection_string is None
    names = (*(["azure.identity.aio"] if identity else []), *SDKS)

    def load() -> None:
        for name in names:
            import_module(name)
        # What is loaded stays. A full collection would go through its 120,000 objects, and no call goes on for 50 ms.
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)

    thread = threading.Thread(target=load, name="load-sdks")
    thread.start()
    return thread
