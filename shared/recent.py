"""What a process remembers to save requests, in bounded memory: forgetting costs a request, never a mistake."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping of at most `capacity` entries; the one that was set least recently is dropped for a new one."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Forgets an entry, if there is one."""
        return self._entries.pop(key, None)

    def items(self) -> Iterable[tuple[K, V]]:
        """All entries, the one that was set least recently first."""
        return self._entries.items()

    def __len__(self) -> int:
        return len(self._entries)
