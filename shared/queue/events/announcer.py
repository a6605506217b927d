"""Acknowledged means announced: events go out, or a pointer to them is kept until they do (design 2.5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from shared.base import remembered
from shared.base.concurrency import together
from shared.base.memo import Memo
from shared.queue.events.breaker import EventsUnavailable
from shared.queue.events.rendering import EventMessage, render, render_group
from shared.queue.events.rules import ArtifactEvent, Event, Exchange, GroupEvent, Snapshot, TaskEvent
from shared.queue.tasks.internal_messages import MalformedMessage
from shared.queue.tasks.messages import Messages
from shared.queue.tasks.rows import Loaded
from shared.store.columns import Columns
from shared.store.interface import StorageUnavailable


class Publisher(Protocol):
    """Sends messages to their topics."""

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Sends the messages, and returns when all are accepted. Raises EventsUnavailable after a bounded wait."""
        ...


class Announcer:
    """Announces what has been committed."""

    def __init__(self, publisher: Publisher, messages: Messages, wake: Callable[[str], None], size_limit: int) -> None:
        """Takes the function `wake`, which is called with each task queue that got a pending run in this process, and
        the most bytes of an event."""
        self._publisher = publisher
        self._messages = messages
        self.wake = wake
        self._size_limit = size_limit
        self._sent: Memo[str, bool] = Memo(remembered.SENT)

    async def announce(self, events: Sequence[TaskEvent], loaded: Loaded) -> None:
        """Publishes a task's events, or keeps pointers to them. Raises StorageUnavailable when neither works."""
        if any(event.exchange is Exchange.TASK_PENDING for event in events):
            self.wake(loaded.task.task_queue_id)
        await self._send([self.rendered(event, loaded) for event in events])

    async def announce_again(self, events: Sequence[TaskEvent], loaded: Loaded) -> None:
        """Announces events as `announce` does that an earlier call may have announced. Those that this process knows to
        be announced are skipped."""
        messages = [self.rendered(event, loaded) for event in events]
        await self._send([message for message in messages if message.message_id not in self._sent])

    async def announce_group(self, event: GroupEvent) -> None:
        """Publishes a group's event, or keeps a pointer to it. Raises StorageUnavailable when neither works."""
        await self._send([render_group(event)])

    async def publish(self, event: Event, loaded: Loaded | None) -> None:
        """Publishes without a pointer to fall back on. Raises EventsUnavailable."""
        if isinstance(event, GroupEvent):
            await self._publisher.publish([render_group(event)])
        elif loaded is not None:
            await self._publisher.publish([self.rendered(event, loaded)])

    def rendered(self, event: TaskEvent, loaded: Loaded) -> EventMessage:
        """Returns the message of a task's event."""
        return render(event, loaded.definition, loaded.task, self._size_limit)

    async def _send(self, messages: Sequence[EventMessage]) -> None:
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
