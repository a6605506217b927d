"""Counts the storage requests of a call, and how many of them follow one another (design 6).

    with counting() as operations:
        await some_call()
    assert operations.total <= 6 and operations.depth <= 2

The recorder is shared by the SDKs' clients (`pipeline.Tries`) and by the tests' in-memory twin (`recorded`), so that a
budget holds for both. It follows a call into the tasks that the call starts. Without `counting` nothing is recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from enum import StrEnum

from shared.base.frozen import dataclass


class Kind(StrEnum):
    """What a request does, by the letters of design 6."""

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
    """One logical request: what it does, to which resource, and its level (see `Operations.depth`)."""

    kind: Kind
    target: str
    level: int


@dataclass
class Operations:
    """The storage requests of one call.

    A request that is sent again after a failure counts once; `retries` counts the repeats.
    """

    requests: list[CountedRequest] = field(default_factory=list)
    retries: int = 0
    is_over: bool = False
    """The call has been answered. What others have taken over of it is not recorded any more."""
    _finished: int = 0

    @property
    def total(self) -> int:
        """How many requests were made."""
        return len(self.requests)

    @property
    def counts(self) -> Counter[Kind]:
        """How many requests of each kind."""
        return Counter(request.kind for request in self.requests)

    @property
    def has_changed(self) -> bool:
        """Whether a request was more than a look: messages that are received are looks, too."""
        return any(request.kind not in _LOOKS for request in self.requests)

    @property
    def depth(self) -> int:
        """Sequential round trips: a request's level is 1 + the highest level of those finished before it started."""
        return max((request.level for request in self.requests), default=0)

    def begin(self, kind: Kind, target: str) -> int:
        """Record a request that starts now; returns its level for `end`."""
        level = self._finished + 1
        self.requests.append(CountedRequest(kind, target, level))
        return level

    def end(self, level: int) -> None:
        """The request of that level has its answer, or will never have one."""
        self._finished = max(self._finished, level)


_recorders: ContextVar[tuple[Operations, ...]] = ContextVar("_recorders", default=())


@contextmanager
def counting() -> Iterator[Operations]:
    """Record the storage requests made inside, by this task and by the tasks it starts. Nested contexts each record all
    requests made inside them.
    """
    operations = Operations()
    token = _recorders.set((*_recorders.get(), operations))
    try:
        yield operations
    finally:
        operations.is_over = True
        _recorders.reset(token)


Begun = Sequence[tuple[Operations, int]]
"""Who records a request that is under way, and its level there."""


def begin(kind: Kind, target: str) -> Begun:
    """One logical request starts; `end` takes what this returns."""
    return [(operations, operations.begin(kind, target)) for operations in _recorders.get() if not operations.is_over]


def end(begun: Begun) -> None:
    """The request has its answer, or will never have one."""
    for operations, level in begun:
        operations.end(level)


@contextmanager
def recorded(kind: Kind, target: str) -> Iterator[None]:
    """One logical request runs inside."""
    begun = begin(kind, target)
    try:
        yield
    finally:
        end(begun)


def retried() -> None:
    """The request that runs now is sent once more."""
    for operations in _recorders.get():
        operations.retries += 1
