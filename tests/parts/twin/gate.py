"""Where a request to the twin can be delayed, refused, repeated, or its caller killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import field
from enum import Enum
from typing import TypeVar

from shared.base.frozen import dataclass
from shared.store import counting
from shared.store.counting import Kind
from shared.store.interface import BlobMissing, ReceiptLost, StorageUnavailable, TransactionRefused

T = TypeVar("T")

_TURNS = 8
"""Number of turns of the event loop after which tasks, and those that they start, have made a request."""


class Phase(Enum):
    """When a gate is passed."""

    BEFORE = "before"
    """The request has not been sent: an error raised here leaves no effect."""
    AFTER = "after"
    """The request took effect (or was refused) and the caller has not read the answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request: what it does, to which table, queue or container, and to what in it.

    `subject` is the partition, the message id, or the blob's path; `keys` are the rows of a transaction.
    """

    kind: Kind
    target: str
    subject: str = ""
    keys: tuple[str, ...] = ()


Gate = Callable[[Call, Phase], Awaitable[None] | None]
"""Passed by every request in both phases. May raise StorageUnavailable, Delayed, Resent or Killed, and returns what the
request has to wait for, if anything: most requests wait for nothing, and a coroutine for each costs time."""


class Killed(BaseException):
    """The process died here. Not an Exception, so that no handler of the code under test runs on."""


class Delayed(Exception):
    """Raised before the effect: this try takes effect later, and nobody reads its answer. `keep` gets the effect, to be
    called when it is time. `is_tried_again` says whether the client has sent the request once more by then, so that the
    next try is answered; otherwise the client gives up, and knows no outcome."""

    def __init__(self, keep: Callable[[Callable[[], object]], None], *, is_tried_again: bool) -> None:
        super().__init__()
        self.keep = keep
        self.is_tried_again = is_tried_again


class Resent(Exception):
    """Raised after the effect: the answer is lost and the client sends the same request again, as the SDK does."""


async def open_gate(call: Call, phase: Phase) -> None:
    """Lets everything pass, after some turns of the event loop, so that requests sent side by side overlap."""
    if phase is Phase.BEFORE:
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def chain(*gates: Gate) -> Gate:
    """Returns a gate made of several, passed in this order."""

    def passed(call: Call, phase: Phase) -> Awaitable[None] | None:
        for number, gate in enumerate(gates, 1):
            if (turn := gate(call, phase)) is not None:
                return _passed_after(turn, gates[number:], call, phase) if number < len(gates) else turn
        return None

    return passed


async def _passed_after(turn: Awaitable[None], gates: Sequence[Gate], call: Call, phase: Phase) -> None:
    await turn
    if (following := chain(*gates)(call, phase)) is not None:
        await following


async def perform(gate: Gate, call: Call, effect: Callable[[], T]) -> T:
    """Carries out one request: it is counted once, goes through the gate, and has its effect all at once."""
    begun = counting.begin(call.kind, call.target)
    try:
        while True:
            try:
                if (turn := gate(call, Phase.BEFORE)) is not None:
                    await turn
            except Delayed as delayed:
                delayed.keep(effect)
                if not delayed.is_tried_again:
                    raise StorageUnavailable("no answer") from None
                counting.retried()
                continue
            refusal: Exception | None = None
            try:
                answer = effect()
            except (TransactionRefused, ReceiptLost, BlobMissing, ValueError) as error:
                refusal = error
            try:
                if (turn := gate(call, Phase.AFTER)) is not None:
                    await turn
            except Resent:
                counting.retried()
                continue
            if refusal is not None:
                raise refusal
            return answer
    finally:
        counting.end(begun)


_process: ContextVar[str] = ContextVar("_process", default="")


async def as_process(name: str, work: Awaitable[T]) -> T:
    """Does the work as the process of that name, which `Kill` kills as a whole. The default has no name."""
    token = _process.set(name)
    try:
        return await work
    finally:
        _process.reset(token)


def process_name() -> str:
    """Returns the process that is at work."""
    return _process.get()


@dataclass
class Kill:
    """A gate that kills one process at its request `number` (from 1; 0: never), in one phase, and keeps it dead.

    `calls` lists the requests of that process so far: run once without a kill to learn how many points there are.
    """

    number: int = 0
    phase: Phase = Phase.BEFORE
    process: str = ""
    calls: list[Call] = field(default_factory=list)
    _dead: bool = False

    def __call__(self, call: Call, phase: Phase) -> None:
        """Counts requests, and kills the process when it is time."""
        if _process.get() != self.process:
            return
        if self._dead:
            raise Killed(f"{self.process} is dead")
        if phase is Phase.BEFORE:
            self.calls.append(call)
        # Requests run side by side, so the one that comes out is looked up, not the last one that went in.
        hit = 0 < self.number <= len(self.calls) and self.calls[self.number - 1] is call
        if hit and phase is self.phase:
            self._dead = True
            raise Killed(f"{phase.value} request {self.number}, {call}")


@dataclass
class Fail:
    """A gate that makes requests fail: the first `times` that `chosen` accepts, with `error` (a 503 by default)."""

    chosen: Callable[[Call], bool]
    phase: Phase = Phase.BEFORE
    times: int = 1
    error: Callable[[], Exception] = StorageUnavailable

    def __call__(self, call: Call, phase: Phase) -> None:
        """Fails while there is a failure left."""
        if phase is self.phase and self.times > 0 and self.chosen(call):
            self.times -= 1
            raise self.error()


@dataclass
class RandomFaults:
    """A gate with chances of trouble for each request, decided by `chance`; `sleep` is the clock's."""

    chance: random.Random
    refused: float = 0.0
    """Chance that a request is answered 503 without an effect."""
    lost: float = 0.0
    """Chance that the answer to an effect is lost, and StorageUnavailable is raised."""
    resent: float = 0.0
    """Chance that the client repeats a request by itself after its effect."""
    delayed: float = 0.0
    delay: float = 1.0
    """The longest delay of a request, in seconds."""
    sleep: Callable[[float], Awaitable[None]] | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Decides by chance what happens to the request."""
        if self.sleep is not None and self.chance.random() < self.delayed:
            await self.sleep(self.chance.random() * self.delay)
        if phase is Phase.BEFORE:
            self._maybe(self.refused, StorageUnavailable)
        else:
            self._maybe(self.lost, StorageUnavailable)
            self._maybe(self.resent, Resent)

    def _maybe(self, chance: float, error: type[Exception]) -> None:
        if chance and self.chance.random() < chance:
            raise error()
