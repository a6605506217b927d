"""Counts of waiting workers in this process, for autoscalers other than KEDA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from shared.runtime import Runtime
from shared.telemetry.instruments import WAITING_WORKERS

Way = Literal["claimWork", "pollTaskUrls"]
"""How a worker waits: in a call, or by polling with URLs that it was given."""

REPORT_SECONDS = 60.0
MOST = 500
"""Task queues that are reported for each way: those with the most waiting workers."""


class WaitingWorkers:
    """Reports how many workers wait in each task queue."""

    def __init__(self, runtime: Runtime, ways: Mapping[Way, Callable[[], Counter[str]]]) -> None:
        """`ways`: for each way the number of workers that wait now, by task queue."""
        self._meter = runtime.meter
        self._sleep = runtime.sleep
        self._ways = ways

    def of_task_queue(self, task_queue_id: str) -> dict[Way, int]:
        """How many workers wait in a task queue, as far as this process knows."""
        return {way: count()[task_queue_id] for way, count in self._ways.items()}

    async def keep_reporting(self) -> None:
        """Reports every minute, for as long as the process lives: exporters want it of each process."""
        while True:
            await self._sleep(REPORT_SECONDS)
            self.report()

    def report(self) -> None:
        """Sets the gauge of this process. A task queue in which no one waits any more is reported once more, with 0."""
        for way, count in self._ways.items():
            waiting = dict(count().most_common(MOST))
            for labels, before in self._meter.of(WAITING_WORKERS).items():
                if labels[2] != way or "/".join(labels[:2]) in waiting:
                    continue
                if before:
                    self._meter.set(WAITING_WORKERS, 0, *labels)
                else:
                    self._meter.forget(WAITING_WORKERS, labels)
            for task_queue_id, number in waiting.items():
                self._meter.set(WAITING_WORKERS, number, *task_queue_id.split("/", 1), way)
