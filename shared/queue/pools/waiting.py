"""The row that names the task queues in which tasks wait and none runs, as the timer has seen them last (design 10)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.store import keys
from shared.store.interface import Storage, Upsert

_PARTITION, _KEY = "task-queues", "waiting"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Task queues, those in which a task has waited longest first, and when they were looked at."""

    task_queue_ids: Sequence[str]
    time: datetime


class WaitingStore:
    """Reads and writes that row: one request each. Raises StorageUnavailable."""

    def __init__(self, storage: Storage) -> None:
        self._tables = storage.tables

    async def put(self, waiting: Waiting) -> None:
        """Replaces what was seen before: a late write is replaced by the next one."""
        values = {"taskQueueIds": json.dumps(list(waiting.task_queue_ids)), "time": format_date(waiting.time)}
        await self._tables.transact(keys.HEALTH, _PARTITION, [Upsert(_KEY, dict(values))])

    async def latest(self) -> Waiting | None:
        """What was seen last; None until the timer has run for the first time."""
        row = await self._tables.get(keys.HEALTH, _PARTITION, _KEY)
        if row is None:
            return None
        ids = json.loads(str(row.values["taskQueueIds"]))
        return Waiting(task_queue_ids=ids, time=parse_date(str(row.values["time"])))

    async def noted(self) -> datetime | None:
        """When it was seen last."""
        waiting = await self.latest()
        return None if waiting is None else waiting.time
