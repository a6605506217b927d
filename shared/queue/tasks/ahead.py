"""Write ahead: what a state needs is written before it commits, and rolled back if the call is refused (design 2.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

from shared.base.concurrency import together
from shared.base.errors import ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.protocol import LATEST_COMMIT, RESOLVED_DELAY
from shared.queue.groups.store import GroupStore
from shared.queue.pools.rows import PoolStore
from shared.queue.tasks import effects
from shared.queue.tasks.effects import Ahead
from shared.queue.tasks.messages import Messages
from shared.queue.tasks.rules import MessageHandle, Task
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import ReceiptLost

AddRow = Callable[[effects.PoolRow], Awaitable[str | None]]
"""Function that indexes a pending run in its pool, as `PoolStore.add_pending` does."""


@dataclass(frozen=True, kw_only=True)
class _Written:
    handle: MessageHandle | None = None
    hint_id: str | None = None
    number: int = 0
    """The group's number as of which an active row was written."""
    roll_back: Callable[[], Awaitable[None]] | None = None
    """Undoes the write; None if another call made the row or message, so that this call must not remove it."""


@dataclass(eq=False, repr=False)
class WriteAhead:
    """What one call has written ahead so far. An effect that is asked for again is not written again."""

    _messages: Messages
    _pools: PoolStore
    _groups: GroupStore
    _runtime: Runtime
    _add_row: AddRow
    _resolved_in: timedelta = RESOLVED_DELAY
    """How long a resolved message that this call puts is hidden."""
    _begun: datetime | None = None
    """The time at which the read began on which the commit will rest; by default that of the first write."""

    def __post_init__(self) -> None:
        self._now = self._runtime.now
        self._written: dict[Ahead, _Written] = {}

    async def ensure(self, wanted: Sequence[Ahead], *, replaces_lost: bool = True) -> None:
        """Carries out the effects that this call has not carried out yet, in parallel. With `replaces_lost`, a message
        of the task that somebody else holds is replaced by a new one. Raises ReceiptLost without it, or if a message
        that should become a lease is not held any more; ServiceUnavailable; StorageUnavailable."""
        missing = [effect for effect in wanted if effect not in self._written]
        if missing:
            self.start_limit()
            self.refuse_late()

        async def write_effect(effect: Ahead) -> None:
            self._written[effect] = await self._carry_out(effect, replaces_lost)

        await together(*map(write_effect, missing))

    def start_limit(self) -> None:
        """Starts the time limit of the commit, unless that has begun already, with the read that it rests on."""
        self._begun = self._begun or self._now()

    def refuse_late(self) -> None:
        """Raises ServiceUnavailable if it is too late to write ahead, or to commit: readers may take what was written
        for orphans by then, and what the call has read may be long over."""
        if self.is_later_than(LATEST_COMMIT):
            raise ServiceUnavailable("the call took too long; send it again")

    def is_later_than(self, limit: timedelta) -> bool:
        """Returns whether so much time has passed since the time limit of the commit has begun."""
        return self._begun is not None and self._now() - self._begun > limit

    def in_force(self, task: Task, wanted: Sequence[Ahead]) -> Task:
        """Returns the task with the handles and the hintId of the messages that were written for it."""
        handles: dict[str, MessageHandle | None] = {}
        hint_id = task.hint_id
        for effect in wanted:
            written = self._written[effect]
            match effect:
                case effects.PutPending() | effects.HoldPending() | effects.TakeLease():
                    handles["pending"] = written.handle
                    hint_id = written.hint_id or hint_id
                case effects.PutClaim():
                    handles["claim"] = written.handle
                case effects.PutDeadline():
                    handles["deadline"] = written.handle
                case effects.AddActive():
                    task = replace(task, opened_as_of=written.number)
                case effects.PutResolved() | effects.AddPendingRow() | effects.SetRowPriority():
                    pass  # the status row names none of them
                case _:
                    assert_never(effect)
        if not handles:
            return task
        return replace(task, handles=replace(task.handles, **handles), hint_id=hint_id)

    def handle(self, effect: Ahead) -> MessageHandle | None:
        """Returns the handle of the message that an effect put or moved; None if it was not written."""
        return self._written[effect].handle if effect in self._written else None

    def existed_before(self, effect: Ahead) -> bool:
        """Returns whether the row or message of an effect existed already, so that this call has only rewritten it."""
        return effect in self._written and self._written[effect].roll_back is None

    def leave(self) -> None:
        """Makes sure that nothing written so far is rolled back: the outcome of the commit that needs it is unknown."""
        self._written.clear()

    async def withdraw(self, keep: Sequence[Ahead] = ()) -> None:
        """Rolls back what this call alone has written ahead, except the effects in `keep`."""
        orphans = [effect for effect in self._written if effect not in keep]
        undone = [self._written.pop(effect).roll_back for effect in orphans]
        await together(*(roll_back() for roll_back in undone if roll_back is not None))

    async def _carry_out(self, effect: Ahead, replaces_lost: bool) -> _Written:
        match effect:
            case effects.PutPending():
                return await self._put_pending(effect, effect.content)
            case effects.HoldPending():
                return await self._hold_pending(effect, replaces_lost)
            case effects.TakeLease():
                return _Written(handle=await self._move_held(effect, effect.handle), hint_id=effect.content.hint_id)
            case effects.PutClaim():
                return await self._put_claim(effect, replaces_lost)
            case effects.PutDeadline():
                return self._new(await self._messages.put_deadline(effect))
            case effects.PutResolved():
                return self._new(await self._messages.put_resolved(effect, self._resolved_in))
            case effects.AddPendingRow():
                return await self._add_pending_row(effect)
            case effects.SetRowPriority():
                return await self._set_row_priority(effect)
            case effects.AddActive():
                return await self._add_active(effect)
            case _:
                assert_never(effect)

    def _new(self, handle: MessageHandle, hint_id: str | None = None) -> _Written:
        return _Written(handle=handle, hint_id=hint_id, roll_back=lambda: self._messages.remove_message(handle))

    def _moved(self, handle: MessageHandle) -> _Written:
        """Returns the record of a message that was moved, whose roll-back shows it. That does no harm even if the
        message has become that of a later run: its receiver decides by the status row."""
        return _Written(handle=handle, roll_back=lambda: self._messages.show(handle))

    async def _put_pending(
        self, effect: effects.PutPending | effects.HoldPending, content: effects.PendingContent
    ) -> _Written:
        await self._pools.queues.ensure_band(content.task_queue_id, effect.priority)
        handle = await self._messages.put_pending(content, effect.priority, effect.visible)
        return self._new(handle, content.hint_id)

    async def _hold_pending(self, effect: effects.HoldPending, replaces_lost: bool) -> _Written:
        if effect.handle is not None:
            try:
                return self._moved(await self._move_held(effect, effect.handle))
            except ReceiptLost:
                if not replaces_lost:
                    raise
                # Somebody else holds the message: from the commit on, it is the new one that counts
        return await self._put_pending(effect, replace(effect.content, hint_id=effect.spare_hint_id))

    async def _move_held(self, effect: effects.HoldPending | effects.TakeLease, handle: MessageHandle) -> MessageHandle:
        return await self._messages.move_pending(handle, effect.content, effect.visible)

    async def _put_claim(self, effect: effects.PutClaim, replaces_lost: bool) -> _Written:
        if effect.handle is not None:
            try:
                return self._moved(await self._messages.move_claim(effect.handle, effect.taken_until))
            except ReceiptLost:
                if not replaces_lost:
                    raise
                # The claim message has just become due. Its handler finds a later takenUntil, and the new message
                # replaces it.
        return self._new(await self._messages.put_claim(effect))

    async def _add_pending_row(self, effect: effects.AddPendingRow) -> _Written:
        # The pool is listed first: if the call dies, only the list leads to the row.
        row = effect.row
        await self._pools.queues.ensure_band(row.task_queue_id, row.priority)
        etag = await self._add_row(row)
        if etag is None:
            return _Written()
        return _Written(roll_back=lambda: self._pools.remove_pool_row(row.task_queue_id, keys.pending(row), etag))

    async def _set_row_priority(self, effect: effects.SetRowPriority) -> _Written:
        pool, row, key = effect.row.task_queue_id, effect.row, keys.pending(effect.row)
        etag = await self._pools.set_priority(pool, key, effect.priority)
        if etag is None:
            return _Written()

        async def roll_back() -> None:
            await self._pools.set_priority(pool, key, row.priority, etag)

        return _Written(roll_back=roll_back)

    async def _add_active(self, effect: effects.AddActive) -> _Written:
        group, known = effect.task_group_id, self._groups.known(effect.task_group_id)
        number = effect.number if known is None else max(effect.number, known.number)
        number, etag = await self._groups.add_active(group, effect.task_id, effect.generation, number)
        if etag is None:
            return _Written(number=number)
        remove = partial(self._groups.remove_active, group, effect.task_id, effect.generation, etag)
        return _Written(number=number, roll_back=remove)
