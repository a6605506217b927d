"""The documented consumers, fed by the real publisher through subscriptions made from their patterns."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from docs.examples.cancelled_task import RunningTasks
from docs.examples.consume import Handle, consume
from docs.examples.observing_provisioner import PendingRuns
from docs.examples.statistics_monitor import Statistics
from docs.examples.woken_worker import work
from shared.queue.events.publisher import EventPublisher
from shared.queue.events.rendering import EventMessage
from shared.queue.tasks.rules import Resolved, Worker
from tests.promises.events.builders import WORKER, Life
from tests.promises.events.receiving import publishing
from tools.listen.filters import parse_exchange
from tools.listen.subscription import rules_for_any, subscription
from tools.local.service_bus import ServiceBus
from tools.local.service_bus_admin import AsyncPlainHttpTransport

TOPICS = ("task-pending", "task-running", "task-exception", "task-completed", "task-failed")
NAME = "example"


@asynccontextmanager
async def subscribed(patterns: Mapping[str, str]) -> AsyncIterator[tuple[ServiceBusClient, EventPublisher]]:
    """Yields a client and a publisher of a broker that has a subscription for each topic's pattern."""
    with ServiceBus.start(TOPICS) as bus:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(
                ServiceBusAdministrationClient.from_connection_string(
                    bus.connection_string, transport=AsyncPlainHttpTransport()
                )
            )
            for topic, pattern in patterns.items():
                rules = rules_for_any(parse_exchange(topic), [pattern])
                await stack.enter_async_context(subscription(admin, topic, NAME, rules, timedelta(minutes=5)))
            client = ServiceBusClient.from_connection_string(bus.connection_string)
            yield await stack.enter_async_context(client), await stack.enter_async_context(publishing(bus))


@asynccontextmanager
async def running(job: asyncio.Task[None]) -> AsyncIterator[None]:
    """Runs a consumer, and stops it at the end. The SDK misses a cancellation that comes while it connects, and
    connects again: it gets longer each time."""
    try:
        yield
    finally:
        seconds = 1.0
        while not job.done():
            job.cancel()
            await asyncio.wait([job], timeout=seconds)
            seconds *= 2


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met"
        await asyncio.sleep(0.01)


def life(number: int, **changes: Any) -> Life:
    return Life.begin(task_id=f"{number:08d}QACAAAAAAAAAAA", **changes)


async def test_an_observing_provisioner_keeps_the_pending_count_without_polling() -> None:
    pattern = "primary.*.*.*.*.prov.pool.#"
    topics = ("task-pending", "task-running", "task-exception")
    async with subscribed(dict.fromkeys(topics, pattern)) as (client, publisher):
        pending = PendingRuns()
        async with running(asyncio.create_task(consume(client, dict.fromkeys(topics, NAME), pending.handle))):
            waiting = [life(number) for number in range(10)]
            elsewhere = life(99, taskQueueId="prov/other")
            await publisher.publish([message for each in (*waiting, elsewhere) for message in each.schedule()])
            await until(lambda: pending.count == 10)

            await publisher.publish([*waiting[0].claim(), *waiting[1].claim(), *waiting[2].cancel()])
            await until(lambda: pending.count == 7)

            shutdown, again = waiting[0].report_exception(Resolved.WORKER_SHUTDOWN)
            await publisher.publish([shutdown, again])
            await until(lambda: pending.count == 8)

            late = life(50)
            due, (claimed,) = late.schedule(), late.claim()
            await publisher.publish([claimed])
            await publisher.publish([*due, *life(51).schedule()])
            await until(lambda: pending.count == 9)
            pending.forget_before("2100-01-01T00:00:00.000Z")
            assert pending.count == 9


async def test_an_idle_worker_is_woken_by_task_pending() -> None:
    queue: list[dict[str, Any]] = []
    done: list[dict[str, Any]] = []
    asked = 0

    async def claim() -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        claimed, queue[:] = queue[:1], queue[1:]
        return claimed

    async def run(task: dict[str, Any]) -> None:
        done.append(task)

    async with subscribed({"task-pending": "primary.*.*.*.*.prov.pool.#"}) as (client, publisher):
        await publisher.publish(life(0, taskQueueId="prov/other").schedule())
        async with running(asyncio.create_task(work(client, NAME, claim, run))):
            await until(lambda: asked == 1)
            for number in range(1, 4):
                queue.append({"task": number})
                await publisher.publish(life(number).schedule())
                await until(lambda wanted=number: len(done) == wanted)  # type: ignore[misc]
    assert [task["task"] for task in done] == [1, 2, 3]
    assert asked <= 4, "it asks at the start and when it is woken, and not in between"


async def test_a_worker_learns_of_its_cancelled_task() -> None:
    async with subscribed({"task-exception": "primary.*.*.group-1.worker-1.#"}) as (client, publisher):
        mine, ended, others = life(1), life(2), life(3)
        tasks = RunningTasks()
        jobs = {}
        for each, worker in ((mine, WORKER), (ended, WORKER), (others, Worker(worker_group="g", worker_id="w"))):
            each.schedule()
            each.claim(worker)
            job = asyncio.create_task(asyncio.Event().wait())
            jobs[each.task.task_id] = job
            tasks.start({"status": each.task.as_json(), "runId": 0}, job)  # type: ignore[arg-type]
        async with running(asyncio.create_task(consume(client, {"task-exception": NAME}, tasks.handle))):
            await publisher.publish([*others.cancel(), *ended.report_exception(Resolved.INTERNAL_ERROR)])
            await publisher.publish(mine.cancel())
            await until(lambda: jobs[mine.task.task_id].cancelled())
        assert not jobs[ended.task.task_id].done(), "what the worker reported itself is no news to it"
        assert not jobs[others.task.task_id].done(), "the message about another worker's task was not for this one"
        for job in jobs.values():
            job.cancel()


async def feed(handle: Handle, *messages: EventMessage) -> None:
    """Hands messages over twice each, as may happen."""
    for message in messages:
        for _ in range(2):
            await handle(message.topic, json.loads(message.body))


def completed(each: Life) -> EventMessage:
    each.schedule()
    each.claim()
    (message,) = each.report(Resolved.COMPLETED)
    return message


async def test_a_monitor_counts_each_run_once() -> None:
    statistics = Statistics()
    failing, canceled = life(2), life(3)
    failing.schedule()
    failing.claim()
    (failed,) = failing.report(Resolved.FAILED)
    await feed(statistics.handle, completed(life(1)), failed, *canceled.cancel())
    pool = statistics.pools["prov/pool"]
    assert pool.outcomes == {"completed": 1, "failed": 1, "canceled": 1}
    assert (pool.waited, pool.ran) == (120, 120)
