"""Follows a resolution up in the process that has committed it, with its message as the backup (design 5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial

from opentelemetry.trace import INVALID_SPAN

from shared.base import bounds
from shared.base.errors import ServiceUnavailable
from shared.base.protocol import FOLLOWED_DELAY, RESOLVED_DELAY
from shared.base.shares import Room, Scarce
from shared.queue.tasks.ahead import WriteAhead
from shared.queue.tasks.effects import Ahead, PutResolved
from shared.queue.tasks.executor import Stores
from shared.queue.tasks.internal_messages import ResolvedBody
from shared.queue.tasks.resolution import Resolution
from shared.queue.tasks.rules import MessageHandle, Task
from shared.store.interface import StorageUnavailable

log = logging.getLogger("taskcluster.resolution")
_LONGEST_WAIT = FOLLOWED_DELAY / 2
"""How long a resolution waits for its turn. By then its message will soon be visible, and is left to do the work."""
_LEFT = {"action": "resolution_left"}


class Following:
    """Does the work of a resolved message right after the call that has committed, and then removes the message.

    No caller waits for this work, and the platform may stop the process in the middle of it. So it is only an early
    handler: whatever it leaves undone is done when the message is handled. No more than `at_once` go on at a time;
    those that would wait for too long are left to their messages."""

    def __init__(self, resolution: Resolution, stores: Stores, at_once: int) -> None:
        """Takes the number of resolutions that are followed up at a time; none if it is 0."""
        self._resolution = resolution
        self._stores = stores
        self._most_waiting = at_once * bounds.RESOLUTIONS_WAITING_FOR_EACH
        self._places = Scarce(
            at_once,
            Room(self._most_waiting),
            partial(ServiceUnavailable, "too many resolutions"),
            longest_wait=_LONGEST_WAIT.total_seconds(),
        )
        self._under_way: set[asyncio.Task[None]] = set()

    def delay(self) -> timedelta:
        """Returns how long the message of a resolution that is about to be committed is hidden."""
        return FOLLOWED_DELAY if self._places.waiting < self._most_waiting else RESOLVED_DELAY

    def follow_up_commit(self, task: Task, effects: Sequence[Ahead], ahead: WriteAhead) -> None:
        """Follows up what was committed, if it is a resolution, in its turn. Returns at once."""
        if not task.is_resolved or not self._most_waiting:
            return
        for effect in effects:
            if isinstance(effect, PutResolved) and (handle := ahead.handle(effect)) is not None:
                now = self._stores.runtime.now()
                message = ResolvedBody(
                    task_id=effect.task_id, run_id=effect.run_id, put=now, at_deadline=effect.at_deadline
                )
                following = asyncio.create_task(self._follow(message, handle))
                self._under_way.add(following)
                following.add_done_callback(self._under_way.discard)

    async def _follow(self, message: ResolvedBody, handle: MessageHandle) -> None:
        fields: dict[str, str | int] = {"taskId": message.task_id, "runId": message.run_id}
        tracer = self._stores.runtime.tracer
        with suppress(ServiceUnavailable):
            async with self._places.hold():
                began = (
                    tracer.start_as_current_span("resolved", attributes=fields) if tracer else nullcontext(INVALID_SPAN)
                )
                with began as span:
                    is_done = await self._is_done(message, handle)
                    span.set_attribute("outcome", "done" if is_done else "left")

    async def _is_done(self, message: ResolvedBody, handle: MessageHandle) -> bool:
        """Does the work. Returns False if it is left to the message."""
        try:
            await self._resolution.resolved_due(message)
            await self._stores.messages.remove_message(handle)
        except (StorageUnavailable, ServiceUnavailable) as failure:
            reason = type(failure).__name__
            log.warning("the resolution of task %s is left to its message: %s", message.task_id, reason, extra=_LEFT)
            return False
        except Exception:
            log.exception("the resolution of task %s is left to its message", message.task_id, extra=_LEFT)
            return False
        return True

    async def finish(self, seconds: float) -> None:
        """Waits up to `seconds` until nothing is under way. The rest is cancelled, and left to its messages."""
        if not self._under_way:
            return
        _, left = await asyncio.wait(self._under_way, timeout=seconds)
        for each in left:
            each.cancel()
        if left:
            await asyncio.wait(left)
