"""The in-memory twin of the storage: what `shared.store.interface` promises, on a virtual clock.

    clock = VirtualClock()
    memory = MemoryStorage(clock)
    await memory.storage.queues.put_message("q", "text", visible_in=60)
    clock.advance(60)

`memory.tables`, `.queues` and `.blobs` also let a test look inside without a request. Every request passes a gate
before and after it takes effect (`tests.parts.twin.gate`), where faults are let in; `tests.parts.twin.driver` runs
several coroutines in every order, or in one that a seed chooses. A differential test holds the twin to Azurite.
"""

from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.driver import Deadlock, Simulation, explore, sample
from tests.parts.twin.gate import (
    Call,
    Fail,
    Gate,
    Kill,
    Killed,
    Phase,
    RandomFaults,
    Resent,
    as_process,
    chain,
    open_gate,
)
from tests.parts.twin.memory import MemoryStorage
from tests.parts.twin.queues import Disorder

__all__ = [
    "Call",
    "Deadlock",
    "Disorder",
    "Fail",
    "Gate",
    "Kill",
    "Killed",
    "MemoryStorage",
    "Phase",
    "RandomFaults",
    "Resent",
    "Simulation",
    "VirtualClock",
    "as_process",
    "chain",
    "explore",
    "open_gate",
    "sample",
]
