"""What a world asks of the storage account that it lies on: the services, and a look inside that makes no request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from shared.store.interface import Row, Storage
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Gate


class CommittedBlob(Protocol):
    """A blob as the account holds it."""

    @property
    def content(self) -> bytes: ...

    @property
    def etag(self) -> str: ...


class HeldMessage(Protocol):
    """A message as the account holds it, hidden or not."""

    @property
    def text(self) -> str: ...

    @property
    def visible(self) -> datetime: ...

    @property
    def message_id(self) -> str: ...

    @property
    def pop_receipt(self) -> str: ...


class Account(Protocol):
    """The in-memory twin, or Azurite."""

    def connect(self) -> Storage:
        """The services, as another process sees them."""
        ...

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """All rows of a table, or of one partition, in order."""
        ...

    def messages(self, queue: str) -> Sequence[HeldMessage]:
        """The messages of a queue, hidden ones too."""
        ...

    def committed(self, container: str) -> Mapping[str, CommittedBlob]:
        """The blobs of a container by path."""
        ...

    def staged(self, container: str, path: str) -> Collection[str]:
        """The ids of a blob's blocks that wait for their commit."""
        ...


OpenAccount = Callable[[VirtualClock, Gate], Account]
"""Makes an empty account whose time is the clock's and whose every request passes the gate."""
