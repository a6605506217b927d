"""A world in which one call is watched: what it asks for, and what its process dies of or stands still at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from shared.base.errors import ApiError
from shared.queue.tasks.due import Postponed
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Call, Killed, Phase, as_process, process_name
from tests.promises.simulator.world import World

LOOKER = "looker"
"""The process whose call is watched."""
SLOW = 5.0
"""Seconds until a slow read is answered."""
At = Callable[[Call], bool]
"""Function that chooses a request of a process."""


def commit(call: Call) -> bool:
    """Whether the request writes a task's status."""
    return keys.TASK_STATUS in call.keys and call.kind is Kind.TABLE_WRITE


def of_pool(call: Call) -> bool:
    """Whether the request writes index rows."""
    return call.target == keys.POOLS and call.kind is Kind.TABLE_WRITE


def of_group(call: Call) -> bool:
    """Whether the request writes rows of a group."""
    return call.target == keys.GROUPS and call.kind is Kind.TABLE_WRITE


class Probe(World):
    """A world whose calls are made one request after the other."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        """What the looker has asked for: the kind of each request, and the table, queue or container."""
        self.slow_task = ""
        """A task for whose reads the looker waits."""
        self._dies_at: At | None = None
        self._waits: tuple[At, float] | None = None
        super().__init__(Simulation.scripted([]), self._pass)

    async def _pass(self, call: Call, phase: Phase) -> None:
        name = process_name()
        if phase is Phase.AFTER:
            if name == LOOKER and (call.kind, call.target, call.subject) == (
                Kind.TABLE_READ,
                keys.TASKS,
                self.slow_task,
            ):
                await self.clock.sleep(SLOW)
            return
        if name == "dying" and self._dies_at is not None and self._dies_at(call):
            raise Killed
        if name == LOOKER:
            if self._waits is not None and self._waits[0](call):
                _, seconds = self._waits
                self._waits = None
                await self.clock.sleep(seconds)
            self.requests.append(f"{call.kind.name} {call.target}")

    async def dies(self, work: Awaitable[Any], at: At = commit) -> None:
        """Lets the call's process die before the first request that is chosen."""
        self._dies_at = at
        try:
            await as_process("dying", work)
        except Killed:
            return
        raise AssertionError("the call has made no such request")

    def look(
        self, work: Coroutine[Any, Any, Any], waits: tuple[At, float] | None = None, only: Sequence[str] = ()
    ) -> str:
        """Returns the call's answer or error, what it has asked for (`only` requests that begin so), and announced.
        With `waits` the call stands still for that many seconds before that request."""
        self._waits = waits
        published = len(self.topics.messages)
        (answer,) = self.simulation.outcomes(as_process(LOOKER, work))
        if isinstance(answer, BaseException):
            if not isinstance(answer, ApiError | StorageUnavailable | Postponed):
                raise answer
            answer = type(answer).__name__
        told = answer if isinstance(answer, str | int | list | tuple) else type(answer).__name__
        asked = [each for each in self.requests if not only or each.startswith(tuple(only))]
        topics = [message.topic for message in self.topics.messages[published:]]
        return f"{told}: {', '.join(asked)}; {', '.join(topics)}"
