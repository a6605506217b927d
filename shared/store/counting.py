"""Counts the storage requests of a call, and how many of them follow one another (design 6).

    with counting() as operations:
        await some_call()
    assert operations.total <= 6 and operations.depth <= 2

The recorder is shared by the SDKs' clients (`pipeline.Tries`) and by the tests' in-memory twin (`recorded`), so that a
budget holds for both. It follows a call into the tasks that the call starts. Without `counting` nothing is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from enum import StrEnum

from shared.base.frozen import dataclass


class Kind(StrEnum):
    """The kinds of requests, by the letters of design 6."""

    TABLE_READ = "R"
    TABLE_WRITE = "W"
    QUEUE_PUT = "P"
    QUEUE_GET = "G"
    QUEUE_PEEK = "K"
    QUEUE_LENGTH = "L"
    QUEUE_UPDATE = "U"
    QUEUE_DELETE = "D"
    BLOB_READ = "BR"
    BLOB_WRITE = "BW"
    MAKE = "M"
    """Creation of a table, a queue or a container: only while a process is cold."""


_LOOKS = frozenset({Kind.TABLE_READ, Kind.QUEUE_GET, Kind.QUEUE_PEEK, Kind.QUEUE_LENGTH, Kind.BLOB_READ})


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """One logical request: its kind, its resource, and its level (see `Operations.depth`)."""

    kind: Kind
    target: str
    level: int


@dataclass
class Operations:
    """The storage requests of one call. A request that is sent again after a failure counts once; `retries` counts the
    repeats."""

    requests: list[CountedRequest] = field(default_factory=list)
    retries: int = 0
    is_over: bool = False
    """Whether the call has been answered. What other calls have taken over from it is not recorded any more."""
    _finished: int = 0

    @property
    def total(self) -> int:
        """Returns how many requests were made."""
        return len(self.requests)

    @property
    def counts(self) -> Counter[Kind]:
        """Returns how many requests of each kind were made."""
        return Counter(request.kind for request in self.requests)

    @property
    def has_changed(self) -> bool:
        """Whether a request was more than a look; receiving messages is a look, too."""
        return any(request.kind not in _LOOKS for request in self.requests)

    @property
    def depth(self) -> int:
        """Sequential round trips: a request's level is 1 + the highest level of those finished before it started."""
        return max((request.level for request in self.requests), default=0)

    def begin(self, kind: Kind, target: str) -> int:
        """Records a request that starts now; returns its level for `end`."""
        level = self._finished + 1
        self.requests.append(CountedRequest(kind, target, level))
        return level

    def end(self, level: int) -> None:
        """Notes that a request of that level has its answer, or will never have one."""
        self._finished = max(self._finished, level)


_recorders: ContextVar[tuple[Operations, ...]] = ContextVar("_recorders", default=())


@contextmanager
def counting() -> Iterator[Operations]:
    """Records the storage requests made inside the context, by this task and by the tasks it starts. Nested contexts
    each record all requests made inside them."""
    operations = Operations()
    token = _recorders.set((*_recorders.get(), operations))
    try:
        yield operations
    finally:
        operations.is_over = True
        _recorders.reset(token)


Begun = Sequence[tuple[Operations, int]]
"""Every recorder of a request that is under way, with the request's level there."""


def begin(kind: Kind, target: str) -> Begun:
    """Records the start of one logical request. Returns what `end` takes."""
    return [(operations, operations.begin(kind, target)) for operations in _recorders.get() if not operations.is_over]


def end(begun: Begun) -> None:
    """Notes that a request has its answer, or will never have one."""
    for operations, level in begun:
        operations.end(level)


@contextmanager
def recorded(kind: Kind, target: str) -> Iterator[None]:
    """Records one logical request, which runs inside the context."""
    begun = begin(kind, target)
    try:
        yield
    finally:
        end(begun)


def retried() -> None:
    """Notes that the request that runs now is sent once more."""
    for operations in _recorders.get():
        operations.retries += 1
