"""The three services of an account in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence

from shared.store.interface import Row, Storage
from tests.parts.twin.access import MemoryAccess
from tests.parts.twin.blobs import MemoryBlobs, StoredBlob
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Call, Gate, Phase, open_gate
from tests.parts.twin.queues import Disorder, MemoryQueues, StoredMessage
from tests.parts.twin.tables import MemoryTables


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

    def connect(self) -> Storage:
        """Returns the services, the same for every process: they keep nothing of their own."""
        return self.storage

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """Returns all rows of a table, or of one partition, in order, without a counted request."""
        return self.tables.rows(table, partition)

    def messages(self, queue: str) -> Sequence[StoredMessage]:
        """Returns all messages of a queue, hidden ones too, without a counted request."""
        return self.queues.messages(queue)

    def committed(self, container: str) -> Mapping[str, StoredBlob]:
        """Returns the blobs of a container by path, without a counted request."""
        return self.blobs.blobs(container)

    def staged(self, container: str, path: str) -> Collection[str]:
        """Returns the ids of a blob's blocks that wait for their commit, without a counted request."""
        return self.blobs.staged(container, path)

    def state(self) -> str:
        """Returns all that is there as text, which is equal for accounts of the same state, without a request."""
        return f"{self.tables.state()} {self.queues.state()} {self.blobs.state()}"

    def _pass(self, call: Call, phase: Phase) -> Awaitable[None] | None:
        return self.gate(call, phase)
