"""Requests that take effect after their client has gone on, and processes that freeze before a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from shared.base.errors import ApiError
from shared.queue.tasks.rules import Resolved, State
from shared.store import keys
from shared.store.counting import Kind
from shared.store.interface import BlobMissing, ReceiptLost, StorageUnavailable, TransactionRefused
from tests.parts.twin.gate import Call, Delayed, Killed, Phase, process_name
from tests.promises.simulator.running import VICTIM
from tests.promises.simulator.situations import GROUP
from tests.promises.simulator.topics import SERVICE_BUS
from tests.promises.simulator.world import World

READS = frozenset({Kind.TABLE_READ, Kind.QUEUE_PEEK, Kind.BLOB_READ})
ANOTHER_TASK = "xxxxxxxxQxCxxxxxxxxxxA"
"""Id of a task that keeps the group unresolved until the late request has taken effect."""
GIVES_UP_AFTER = 8.0
"""Seconds after which a client knows no outcome, however often it has tried."""
SENDS_AGAIN_AFTER = 5.0
"""Seconds after which a client tries again."""


def _is_write(call: Call) -> bool:
    """Whether the request changes the account."""
    return call.kind not in READS and call.target != SERVICE_BUS


TOOK_EFFECT = "took effect"

How = Literal["lost", "doubled"]
"""What the client of a late request does: it gives up, or tries again and reads the answer to that."""
End = Literal["report", "cancel"]
"""How the tasks end before the late request takes effect."""


@dataclass
class LateRequest:
    """A gate: the victim's write of that number (from 1; 0: none) takes effect when `land` is called."""

    number: int
    how: How = "lost"
    world: World | None = None
    """The world, to be set before the victim acts."""
    calls: list[Call] = field(default_factory=list)
    """The victim's writes so far."""
    hit: Call | None = None
    outcome: str = "not sent"
    _effect: Callable[[], object] | None = None

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts writes, and holds one back when it is its turn."""
        if process_name() != VICTIM or phase is not Phase.BEFORE or self.hit is not None or not _is_write(call):
            return
        self.calls.append(call)
        if len(self.calls) != self.number:
            return
        assert self.world is not None
        self.hit = call
        is_tried_again = self.how == "doubled"
        await self.world.clock.sleep(SENDS_AGAIN_AFTER if is_tried_again else GIVES_UP_AFTER)
        raise Delayed(self._keep, is_tried_again=is_tried_again)

    def _keep(self, effect: Callable[[], object]) -> None:
        self._effect = effect

    def land(self) -> None:
        """Lets the request take effect, or be refused; nobody reads its answer."""
        if self._effect is None:
            return
        assert self.world is not None
        assert self.hit is not None
        try:
            self._effect()
            self.outcome = TOOK_EFFECT
        except (TransactionRefused, ReceiptLost, BlobMissing, ValueError) as refusal:
            self.outcome = f"was refused: {refusal!r}"
        self._effect = None
        if self.hit.kind is Kind.TABLE_WRITE and self.hit.target == keys.TASKS:
            self.world.history.note(self.hit.subject)


Waking = Literal["goes on", "dies", "dies alone"]
"""What a frozen process does later: it goes on, dies right after its request, or dies with what it has sent beside
it."""


@dataclass
class Frozen:
    """A gate: the victim's process stands still before its write of that number until it is released."""

    number: int
    waking: Waking = "goes on"
    calls: list[Call] = field(default_factory=list)
    hit: Call | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    _dead: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts writes, stands still, and dies when it is time."""
        if process_name() != VICTIM:
            return
        self._die_if_dead()
        if phase is Phase.AFTER:
            if self.hit is call and self.waking != "goes on":
                self._dead.set()
            self._die_if_dead()
        elif not _is_write(call):
            await self._stand_still()
        else:
            self.calls.append(call)
            if len(self.calls) == self.number:
                self.hit = call
                self.reached.set()
                await self.released.wait()
            else:
                await self._stand_still()
                if self.hit is not None and self.waking == "dies alone":
                    # Sent beside the request that takes effect: the process dies before this one leaves it.
                    await self._dead.wait()
                    self._die_if_dead()

    async def _stand_still(self) -> None:
        if self.hit is not None:
            await self.released.wait()
            self._die_if_dead()

    def _die_if_dead(self) -> None:
        if self._dead.is_set():
            raise Killed("frozen, woken up and dead")


async def everything_else_ends(world: World, how: End, late: float) -> None:
    """Adds one more task to the group, resolves and follows up all others, and lets `late` seconds pass."""
    await refusable(world.create(ANOTHER_TASK, taskGroupId=GROUP))
    for _ in range(3):
        await refusable(world.claim(32))
        for task_id, task in sorted(world.tasks().items()):
            if task_id == ANOTHER_TASK or task.is_resolved:
                continue
            if how == "cancel":
                await refusable(_cancel(world, task_id))
            elif task.state is State.RUNNING:
                await refusable(world.services.lifecycle.report(task_id, task.last_run_id, Resolved.COMPLETED))
        await world.drain(4)
    await world.drain(late)


async def the_last_task_ends(world: World) -> None:
    """Ends the last task that was left."""
    task = world.tasks().get(ANOTHER_TASK)
    if task is None:
        return
    if task.state is State.RUNNING:
        await world.services.lifecycle.report(ANOTHER_TASK, task.last_run_id, Resolved.COMPLETED)
    else:
        await _cancel(world, ANOTHER_TASK)


async def _cancel(world: World, task_id: str) -> None:
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(task_id))


async def refusable(call: Awaitable[object]) -> None:
    """Awaits a call that may be refused."""
    try:
        await call
    except (ApiError, StorageUnavailable):
        return
