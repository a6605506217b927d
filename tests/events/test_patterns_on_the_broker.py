"""Subscriptions made from translated patterns receive what topic exchanges would give them."""

from __future__ import annotations

import asyncio
import base64
import random
from contextlib import AsyncExitStack
from datetime import timedelta

from azure.servicebus.aio.management import ServiceBusAdministrationClient

from shared.queue.events.rendering import EventMessage
from shared.queue.events.rules import Exchange
from tests.events.builders import Life
from tests.events.receiving import publishing, received
from tests.events.topic_patterns import selects
from tools.listen.subscription import rules_for_any, subscription
from tools.local.service_bus import ServiceBus
from tools.local.service_bus_admin import AsyncPlainHttpTransport

TOPIC = Exchange.TASK_PENDING.value
PATTERNS = [
    "primary.*.*.*.*.my-provisioner.my-worker.#",
    "primary.#.group-c.#",
    "route.index.project.*.latest",
    "route.notify.by-email",
    "route.index.#",
    "route.#.latest",
    "route.index.*.main.#",
    "route.a_b.*",
    "route.it's.100%.|.~.\\",
    "route.index.#.latest",
    "*.index.project.#",
    "#.my-worker.#",
    "route.Index.#",
    "#",
]
ROUTES = [
    "index.project.main.latest",
    "index.project.other.latest",
    "index.project.main.other.latest",
    "index.project.main",
    "Index.project.main.latest",
    "index.other.main.latest",
    "notify.by-email",
    "notify.by-email.latest",
    "latest",
    "a_b.x",
    "aXb.x",
    "it's.100%.|.~.\\",
    "it's.100x.|.~.\\",
    "project.a.latest",
]


def mixed_messages(count: int) -> list[tuple[EventMessage, list[str]]]:
    """Messages of many tasks in several pools and groups, each with some of the routes; always the same."""
    chance = random.Random(20)
    messages = []
    for number in range(count):
        routes = chance.sample(ROUTES, chance.choice([0, 0, 1, 2, 5]))
        provisioner, worker = chance.choice(["my-provisioner", "other"]), chance.choice(["my-worker", "other"])
        life = Life.begin(
            task_id=base64.urlsafe_b64encode(number.to_bytes(16, "big")).rstrip(b"=").decode(),
            routes=routes,
            taskQueueId=f"{provisioner}/{worker}",
            taskGroupId=chance.choice(["group-a", "group-b", "group-c"]),
        )
        (message,) = life.schedule()
        messages.append((message, routes))
    return messages


async def test_each_pattern_selects_what_the_reference_selects() -> None:
    messages = mixed_messages(2000)
    with ServiceBus.start([TOPIC]) as bus:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(
                ServiceBusAdministrationClient.from_connection_string(
                    bus.connection_string, transport=AsyncPlainHttpTransport()
                )
            )
            for index, pattern in enumerate(PATTERNS):
                rules = rules_for_any(Exchange.TASK_PENDING, [pattern])
                await stack.enter_async_context(subscription(admin, TOPIC, f"s{index}", rules, timedelta(minutes=5)))
            publisher = await stack.enter_async_context(publishing(bus))
            await publisher.publish([message for message, _ in messages])
            await asyncio.gather(*(compare(bus, f"s{i}", pattern, messages) for i, pattern in enumerate(PATTERNS)))


async def compare(bus: ServiceBus, name: str, pattern: str, messages: list[tuple[EventMessage, list[str]]]) -> None:
    """What lies in the subscription is what the reference selects, one copy each."""
    wanted = [m.message_id for m, routes in messages if selects(pattern, m.properties, routes)]
    assert wanted, "the pattern is worth testing"
    assert bus.state()["topics"][TOPIC]["subscriptions"][name]["active"] == len(wanted), pattern
    got = await received(bus, TOPIC, len(wanted), name)
    assert sorted(str(message.message_id) for message in got) == sorted(wanted), pattern
