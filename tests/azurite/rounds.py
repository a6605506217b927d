"""Requests to a real account in rounds, so that the depth of a call is counted exactly, however busy the machine is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from shared.storage.pipeline import Transport
from shared.storage.wire import Answer, Patience, Request

T = TypeVar("T")


class Rounds(Transport):
    """Holds each answer until every request under way has its own.

    What follows one of them then begins beside what follows the others. Without this, a slow answer lets what depends
    on another one begin, and end, before it: a level more for all that comes after, though nothing waits for it.
    """

    def __init__(self) -> None:
        super().__init__(Patience())
        self._under_way = 0
        self._held: list[asyncio.Future[None]] = []

    async def send(self, request: Any, **options: Any) -> Any:
        """Sends a request of the SDKs; returns when its round is over."""
        return await self._in_round(super().send(request, **options))

    async def exchange(self, request: Request) -> Answer:
        """Sends a hot request; returns when its round is over."""
        return await self._in_round(super().exchange(request))

    async def _in_round(self, sending: Awaitable[T]) -> T:
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
