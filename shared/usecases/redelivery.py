"""Events that could not be sent when they happened (design 2.5)."""

from __future__ import annotations

from shared.domain.events import Event, TaskEvent
from shared.usecases.executor import Stores


class Redelivery:
    """Sends what pointers in the `events` queue stand for."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def event_due(self, event: Event) -> None:
        """Renders and publishes the event as of then; one of a task that has expired is dropped.

        Raises EventsUnavailable, StorageUnavailable.
        """
        loaded = await self._stores.tasks.load(event.task_id) if isinstance(event, TaskEvent) else None
        await self._stores.announcer.publish(event, loaded)
