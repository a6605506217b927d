"""What was announced during a chaos run, received as any subscriber receives it."""

import asyncio
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from shared.queue.events.exchanges import TOPICS

SUBSCRIPTION = "chaos"
LONGEST_CONNECTION = 30.0
"""Seconds after which a receiver is opened anew."""
AT_ONCE = {"link", "reference", "error"}
"""Types of artifacts that are announced when they are created (contract 7.5)."""
Occasion = tuple[str, str, int | None]
"""The topic; the task, task group or artifact (`<task>/<name>`); and the run, if the event names one."""


class Announced:
    """Receives from one subscription on every topic, in a thread of its own, until `close`."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._sent: defaultdict[Occasion, set[int]] = defaultdict(set)
        self._lock = threading.Lock()
        self._runner = asyncio.Runner()
        self._receiving: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="announced", daemon=True)
        self._thread.start()

    def counts(self) -> Counter[Occasion]:
        """Returns how often each occasion was sent. A redelivered message counts once, by its sequence number."""
        with self._lock:
            return Counter({occasion: len(numbers) for occasion, numbers in self._sent.items()})

    def close(self) -> None:
        """Ends the thread."""
        self._runner.get_loop().call_soon_threadsafe(self._cancel)
        self._thread.join(30)

    def _cancel(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()

    def _run(self) -> None:
        with self._runner, suppress(asyncio.CancelledError):
            self._runner.run(self._receive_all())

    async def _receive_all(self) -> None:
        self._receiving = asyncio.current_task()
        await asyncio.gather(*(self._receive(topic) for topic in TOPICS))

    async def _receive(self, topic: str) -> None:
        """Receives on one topic. A connection that a fault has cut may fail, or stay silent, so it is opened anew.
        Messages that were not settled are delivered again."""
        while True:
            with suppress(ServiceBusError, TimeoutError):
                async with (
                    asyncio.timeout(LONGEST_CONNECTION),
                    ServiceBusClient.from_connection_string(self._connection_string) as client,
                    client.get_subscription_receiver(topic, SUBSCRIPTION) as receiver,
                ):
                    async for message in receiver:
                        self._note(topic, json.loads(str(message)), message.sequence_number or 0)
                        await receiver.complete_message(message)

    def _note(self, topic: str, body: Mapping[str, Any], number: int) -> None:
        subject = body["status"]["taskId"] if "status" in body else body["taskGroupId"]
        if "artifact" in body:
            subject = f"{subject}/{body['artifact']['name']}"
        with self._lock:
            self._sent[topic, subject, body.get("runId")].add(number)


def expected(statuses: Iterable[Mapping[str, Any]], task_group_ids: Iterable[str]) -> Counter[Occasion]:
    """Returns what must have been announced of tasks that have all been completed, and of their groups."""
    occasions: list[Occasion] = [("task-group-resolved", group, None) for group in task_group_ids]
    for status in statuses:
        task_id = status["taskId"]
        occasions.append(("task-defined", task_id, None))
        for run in status["runs"]:
            ended = "task-completed" if run["state"] == "completed" else "task-exception"
            topics = ["task-pending", *(["task-running"] if "started" in run else []), ended]
            occasions += [(topic, task_id, run["runId"]) for topic in topics]
    return Counter(occasions)


def expected_of_artifacts(
    task_id: str, run: Mapping[str, Any], artifacts: Iterable[Mapping[str, Any]]
) -> tuple[set[Occasion], set[Occasion]]:
    """Returns what must have been announced of a run's artifacts, and what may have been.

    An artifact is announced after it is stored. The worker that is not answered repeats its call, unless it is lost.
    """
    occasions: set[Occasion] = {
        ("artifact-created", f"{task_id}/{each['name']}", run["runId"])
        for each in artifacts
        if each["storageType"] in AT_ONCE
    }
    return (occasions, set()) if run["state"] == "completed" else (set(), occasions)


def differences(counted: Counter[Occasion], wanted: Collection[Occasion], possible: Collection[Occasion]) -> list[str]:
    """Returns a line for each occasion that was not announced once, or was and should not have been."""
    lines = [f"announced {counted[one]} times: {one}" for one in wanted if counted[one] != 1]
    lines += [f"announced {counted[one]} times: {one}" for one in possible if counted[one] > 1]
    known = {*wanted, *possible}
    return lines + [f"announced without a reason: {one}" for one in counted if one not in known]
