"""Sends requests in rounds, so that the depth of a call is counted exactly, however busy the machine is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any, TypeVar

from shared.store.http_connections import Connections
from shared.store.interface import Storage
from shared.store.pipeline import Transport
from shared.store.wire import Patience, Request, StorageAnswer
from tests.parts.twin import MemoryStorage, VirtualClock
from tests.parts.twin.gate import Call, Phase, open_gate

T = TypeVar("T")


class Rounds:
    """Holds each answer until every request under way has its own. What follows one of them then begins beside what
    follows the others. Otherwise a slow answer would let what depends on a quick one begin, and end, before it: one
    level more for all that comes after, though nothing waits for it."""

    def __init__(self) -> None:
        self.exchange = _Exchange(self)
        self.transport = _Transport(self)
        self._under_way = 0
        self._held: list[asyncio.Future[None]] = []

    async def take(self, sending: Awaitable[T]) -> T:
        """Sends a request; returns when its round is over."""
        self._under_way += 1
        try:
            answer = await sending
        except BaseException:
            self._under_way -= 1
            self._end_round()
            raise
        turn = asyncio.get_running_loop().create_future()
        self._held.append(turn)
        self._end_round()
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._held:
                self._held.remove(turn)
                self._under_way -= 1
                self._end_round()
            raise
        return answer

    def _end_round(self) -> None:
        if len(self._held) < self._under_way:
            return
        self._under_way = 0
        held, self._held = self._held, []
        for turn in held:
            if not turn.done():
                turn.set_result(None)


class _Exchange(Connections):
    """Sends hot requests in rounds."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(Patience())
        self._rounds = rounds

    async def exchange(self, request: Request) -> StorageAnswer:
        return await self._rounds.take(super().exchange(request))


class _Transport(Transport):
    """Sends requests of the SDKs in rounds."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(Patience())
        self._rounds = rounds

    async def send(self, request: Any, **options: Any) -> Any:
        return await self._rounds.take(super().send(request, **options))


class _PresentTime(VirtualClock):
    """The clock of the machine."""

    def exact(self) -> datetime:
        return datetime.now(UTC)


def twin_in_rounds() -> Storage:
    """Returns the in-memory twin as an account whose time is the present."""
    rounds = Rounds()

    async def gate(call: Call, phase: Phase) -> None:
        if phase is Phase.AFTER:
            await rounds.take(open_gate(call, Phase.BEFORE))

    return MemoryStorage(_PresentTime(), gate=gate).storage
