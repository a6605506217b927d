"""Acknowledged means announced: events go out, or a pointer to them is kept until they do (design 2.5). Importing this
does not load the Service Bus SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from typing import Any, Protocol

from shared.base import remembered
from shared.base.concurrency import together
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.retrying import SERVICE_BUS, Retries
from shared.queue.events.rendering import EventMessage, render, render_group
from shared.queue.events.rules import ArtifactEvent, Event, Exchange, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.queue.tasks.messages import Messages
from shared.queue.tasks.rows import Loaded
from shared.store.columns import Columns
from shared.store.interface import StorageUnavailable


class EventsUnavailable(ServiceError):
    """Not every message was accepted. `unsent` are those that were not, though one of them may still arrive."""

    def __init__(self, unsent: Sequence[EventMessage], reason: str) -> None:
        super().__init__(f"{len(unsent)} messages could not be sent: {reason}")
        self.unsent = tuple(unsent)


@dataclass(eq=False, repr=False)
class Breaker:
    """A circuit breaker that opens after `threshold` failures in a row. Not thread-safe. While it is open, nothing is
    tried until a pause is over. Then it lets a single attempt through, the probe: success closes the breaker, and
    failure starts a longer pause."""

    _monotonic: Callable[[], float]
    _: KW_ONLY
    threshold: int = 1
    retries: Retries = SERVICE_BUS

    def __post_init__(self) -> None:
        self._failures = 0
        self._pause = 0.0
        self._retry_at = 0.0
        self._probe: object | None = None

    @property
    def is_open(self) -> bool:
        """Whether there were `threshold` failures in a row, and no success since."""
        return self._pause > 0

    @property
    def pause_left(self) -> float:
        """Seconds until an attempt may be made; 0 if one may be made now."""
        return max(0.0, self._retry_at - self._monotonic()) if self.is_open else 0.0

    def blocks(self) -> bool:
        """Returns whether an attempt must not be made now."""
        return self.is_open and (self._probe is not None or self.pause_left > 0)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Returns a context manager for an attempt that `blocks` allowed; `succeeded` and `failed` take its outcome."""
        token = object()
        if self.is_open:
            self._probe = token
        try:
            yield
        finally:
            if self._probe is token:
                self._probe = None

    def succeeded(self) -> None:
        """Closes the breaker: an attempt worked."""
        self._failures = 0
        self._pause = 0.0
        self._probe = None

    def failed(self) -> None:
        """Counts a failed attempt. A late failure of one that began before the breaker opened changes nothing."""
        if self.is_open and self._probe is None:
            return
        self._failures += 1
        self._probe = None
        if self._failures >= self.threshold:
            self._pause = self.retries.after(self._pause) or self.retries.first
            self._retry_at = self._monotonic() + self._pause


class Publisher(Protocol):
    """Sends messages to their topics."""

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Sends the messages, and returns when all are accepted. Raises EventsUnavailable after a bounded wait."""
        ...


class Announcer:
    """Announces what has been committed."""

    def __init__(self, publisher: Publisher, messages: Messages, wake: Callable[[str], None], size_limit: int) -> None:
        """Takes a function to call with each task queue that got a pending run here, and the most bytes of an event."""
        self._publisher = publisher
        self._messages = messages
        self.wake = wake
        self._size_limit = size_limit
        self._sent: Memo[str, bool] = Memo(remembered.SENT)

    async def announce(self, events: Sequence[TaskEvent], loaded: Loaded) -> None:
        """Publishes a task's events, or keeps pointers to them. Raises StorageUnavailable when neither works."""
        if any(event.exchange is Exchange.TASK_PENDING for event in events):
            self.wake(loaded.task.task_queue_id)
        await self._send_all([self.rendered(event, loaded) for event in events])

    async def announce_again(self, events: Sequence[TaskEvent], loaded: Loaded) -> None:
        """Announces events that an earlier call may have announced, except those that this process knows to be."""
        messages = [self.rendered(event, loaded) for event in events]
        await self._send_all([message for message in messages if message.message_id not in self._sent])

    async def announce_group(self, event: GroupEvent) -> None:
        """Publishes a group's event, or keeps a pointer to it. Raises StorageUnavailable when neither works."""
        await self._send_all([render_group(event)])

    async def publish(self, event: Event, loaded: Loaded | None) -> None:
        """Publishes without a pointer to fall back on. Raises EventsUnavailable."""
        if isinstance(event, GroupEvent):
            await self._publisher.publish([render_group(event)])
        elif loaded is not None:
            await self._publisher.publish([self.rendered(event, loaded)])

    def rendered(self, event: TaskEvent, loaded: Loaded) -> EventMessage:
        """Returns the message of a task's event."""
        return render(event, loaded.definition, loaded.task, self._size_limit)

    async def _send_all(self, messages: Sequence[EventMessage]) -> None:
        if not messages:
            return
        try:
            await self._publisher.publish(messages)
        except EventsUnavailable as error:
            await together(*(self._messages.put_pointer(to_json(message.event)) for message in error.unsent))
        for message in messages:
            self._sent[message.message_id] = True


_TASK = Columns(TaskEvent, without={"artifact", "snapshot"})
_ARTIFACT = Columns(ArtifactEvent)
_SNAPSHOT = Columns(Snapshot)
_GROUP = Columns(GroupEvent)


def to_json(event: Event) -> str:
    """Returns the pointer to an event, as it lies in the `events` queue: its name, and what the status row forgets."""
    if isinstance(event, GroupEvent):
        return json.dumps(_GROUP.encode(event), separators=(",", ":"))
    fields: dict[str, Any] = {**_TASK.encode(event)}
    if event.artifact is not None:
        fields["artifact"] = _ARTIFACT.encode(event.artifact)
    if event.snapshot is not None:
        fields["then"] = _SNAPSHOT.encode(event.snapshot)
    return json.dumps(fields, separators=(",", ":"))


def from_json(text: str) -> Event:
    """Returns the event of a pointer. Raises MalformedMessage for what `to_json` has not written."""
    try:
        body = json.loads(text)
        if "taskGroupId" in body:
            return _GROUP.decode(body)
        artifact = _ARTIFACT.decode(body["artifact"]) if "artifact" in body else None
        snapshot = _SNAPSHOT.decode(body["then"]) if "then" in body else None
        return _TASK.decode(body, artifact=artifact, snapshot=snapshot)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, StorageUnavailable) as error:
        raise MalformedMessage("not a pointer to an event") from error
