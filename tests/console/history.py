"""A day of samples in the history of a deployment, as the timer would have taken them."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from shared.queue.pools.load import MINUTES, Figures, HistoryStore, Sample, class_of, floor
from shared.runtime import utc_now
from shared.store.connection import AzureStorage

SAMPLES = 288


def record_history(connection_string: str, task_queue_id: str) -> None:
    """Writes them, in a thread of its own: the browser's event loop is in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _record(connection_string, task_queue_id)).result()


async def _record(connection_string: str, task_queue_id: str) -> None:
    async with AzureStorage.from_connection_string(connection_string) as account:
        store, last = HistoryStore(account.storage), floor(utc_now(), MINUTES)
        for number in range(SAMPLES):
            figures = _figures(number)
            time = last - MINUTES * (SAMPLES - 1 - number)
            await store.add("minutes", Sample(time=time, total=figures, queues={task_queue_id: figures}))


def _figures(number: int) -> Figures:
    """A working day: busiest after two thirds, with a queue while there are more tasks than workers."""
    load = 0.5 + 0.5 * math.sin((number / SAMPLES - 0.42) * 2 * math.pi)
    arriving = round(60 * load + 5 + 4 * math.sin(number))
    running, pending = min(arriving, 40), max(arriving - 40, 0) * 3
    waited = 4 + timedelta(minutes=pending / 10).total_seconds()
    return Figures(
        pending=pending,
        claimed=running,
        oldest=round(waited * 1.4) if pending else 0,
        completed=round(running * 0.9),
        failed=round(running * 0.06),
        exception=number % 7 == 0,
        waits=Counter({class_of(waited): running, class_of(waited * 3): running // 10}),
    )
