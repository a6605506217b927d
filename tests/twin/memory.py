"""The three services of an account in memory."""

from __future__ import annotations

from shared.storage.interface import Storage
from tests.twin.access import MemoryAccess
from tests.twin.blobs import MemoryBlobs
from tests.twin.clock import VirtualClock
from tests.twin.gate import Call, Gate, Phase, open_gate
from tests.twin.queues import Disorder, MemoryQueues
from tests.twin.tables import MemoryTables


class MemoryStorage:
    """An account. `storage` is what the use-cases see; `gate` may be changed at any time (default: open)."""

    def __init__(
        self, clock: VirtualClock | None = None, *, gate: Gate = open_gate, disorder: Disorder | None = None
    ) -> None:
        self.clock = clock or VirtualClock()
        self.gate = gate
        self.tables = MemoryTables(self.clock, self._pass)
        self.queues = MemoryQueues(self.clock, self._pass, disorder)
        self.blobs = MemoryBlobs(self._pass)
        self.storage = Storage(tables=self.tables, queues=self.queues, blobs=self.blobs, access=MemoryAccess())

    async def _pass(self, call: Call, phase: Phase) -> None:
        await self.gate(call, phase)
