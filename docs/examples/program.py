"""What makes programs of the examples: `./dev example NAME` runs one on the local stack, or where the environment says.

A program makes subscriptions of its own for as long as it runs. On Azure that needs the right to manage the topics; a
service reads a subscription that was created with the deployment of its own (docs/events.md).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import taskcluster
from azure.core.exceptions import AzureError
from azure.servicebus.aio import ServiceBusClient

from docs.examples.consume import end
from tools.listen.connect import Namespace
from tools.listen.filters import parse_exchange
from tools.listen.subscription import rules_for_any, subscription

IDLE = timedelta(minutes=5)
"""Time without a reader after which Service Bus removes the subscription of a program that was killed."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser for the command line of the program as it was started, which shows the first paragraph of a
    module's text."""
    return argparse.ArgumentParser(
        prog=os.environ.get("STARTED_AS"), description=(description or "").partition("\n\n")[0]
    )


def queue() -> Any:
    """Returns the queue's client, with the root URL and the credentials of the environment."""
    return taskcluster.Queue(taskcluster.optionsFromEnvironment())


@asynccontextmanager
async def subscribed(patterns: Mapping[str, Sequence[str]]) -> AsyncIterator[tuple[ServiceBusClient, dict[str, str]]]:
    """A client, and a subscription (value) of each topic (key) for the routing-key patterns of its exchange.

    Raises ValueError if the environment names no namespace, and what the SDK raises.
    """
    namespace = Namespace(os.environ.get("SERVICEBUS_CONNECTION_STRING"), os.environ.get("SERVICEBUS_NAMESPACE"))
    name = f"example-{uuid.uuid4().hex[:12]}"
    async with AsyncExitStack() as cleanup:
        client, admin = await cleanup.enter_async_context(namespace.clients())
        subscriptions = {}
        for exchange, wanted in patterns.items():
            topic = os.environ.get("TOPIC_PREFIX", "") + exchange
            rules = rules_for_any(parse_exchange(exchange), wanted)
            await cleanup.enter_async_context(subscription(admin, topic, name, rules, IDLE))
            subscriptions[topic] = name
        print(f"listening to {', '.join(subscriptions)}", file=sys.stderr, flush=True)
        yield client, subscriptions


async def until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Awaits the work, or its end after Ctrl-C or SIGTERM. Raises what the work raises."""
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    task, waiting = asyncio.create_task(work), asyncio.create_task(interrupted.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    await end([task, waiting])
    if not task.cancelled():
        task.result()


def run(program: Coroutine[Any, Any, None]) -> None:
    """Runs a program to its end; what a user can mend is one line on standard error and exit code 1."""
    try:
        asyncio.run(program)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, AzureError, taskcluster.exceptions.TaskclusterFailure) as error:
        sys.exit(str(error).partition("\n")[0])
