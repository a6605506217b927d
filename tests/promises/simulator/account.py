"""The storage account that a world lies on: its services, and a look inside that makes no request."""

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
    """The account of a world: the in-memory twin, or Azurite."""

    def connect(self) -> Storage:
        """Returns the services, as another process sees them."""
        ...

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """Returns all rows of a table, or of one partition, in order."""
        ...

    def messages(self, queue: str) -> Sequence[HeldMessage]:
        """Returns the messages of a queue, hidden ones too."""
        ...

    def committed(self, container: str) -> Mapping[str, CommittedBlob]:
        """Returns the blobs of a container by path."""
        ...

    def staged(self, container: str, path: str) -> Collection[str]:
        """Returns the ids of a blob's blocks that wait for their commit."""
        ...


OpenAccount = Callable[[VirtualClock, Gate], Account]
"""Function that makes an empty account with the time of the clock, whose every request passes the gate."""
