"""`python -m tools.listen EXCHANGE [PATTERN]…` and `python -m tools.listen filter EXCHANGE PATTERN…`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import sys
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import Annotated, Any

import typer
from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusReceivedMessage

from shared.queue.events.rules import Exchange
from tools.listen.connect import Namespace
from tools.listen.filters import CorrelationRule, Rule, SqlRule, TrueRule, parse_exchange, pattern_for
from tools.listen.patterns import selects
from tools.listen.problems import Trouble, in_words
from tools.listen.reading import as_json, properties_of, read
from tools.listen.subscription import rules_for_any, subscription
from tools.local.output import as_json as printed
from tools.local.output import prepare

ExchangeName = Annotated[str, typer.Argument(metavar="EXCHANGE", help="For example task-pending.")]
Patterns = Annotated[
    list[str] | None, typer.Argument(metavar="PATTERN", help="Routing-key patterns; default: everything.")
]
Words = Annotated[
    list[str] | None,
    typer.Option("--word", metavar="NAME=VALUE", help="Instead of a pattern: words of the primary key, as taskId=…"),
]


def listen(
    context: typer.Context,
    exchange: ExchangeName,
    patterns: Patterns = None,
    word: Words = None,
    count: Annotated[int, typer.Option(help="End after this many messages; 0: never.", min=0)] = 0,
    existing: Annotated[
        str, typer.Option(help="Read this subscription; create and remove none. The right to listen is enough.")
    ] = "",
    idle_minutes: Annotated[
        int, typer.Option(help="Time without a reader after which an abandoned subscription is removed.", min=5)
    ] = 5,
    connection_string: Annotated[
        str, typer.Option(envvar="SERVICEBUS_CONNECTION_STRING", show_envvar=True, show_default=False)
    ] = "",
    namespace: Annotated[
        str, typer.Option(envvar="SERVICEBUS_NAMESPACE", help="Fully qualified; with your own identity.")
    ] = "",
    topic_prefix: Annotated[str, typer.Option(envvar="TOPIC_PREFIX", help="The deployment's prefix of topics.")] = "",
) -> None:
    """Print the messages of an exchange as JSON lines, as they come, until interrupted.

    A subscription is created for it and removed at the end. `listen filter EXCHANGE PATTERN` prints the rules only.
    """
    found, wanted = _wanted(exchange, patterns, word)
    if _is_typed(context, "namespace") and not _is_typed(context, "connection_string"):
        connection_string = ""  # the environment's, or the local stack's
    session = _listen(
        Namespace(connection_string, namespace),
        topic_prefix + found.value,
        wanted,
        rules_for_any(found, wanted),
        existing=existing,
        count=count,
        idle=timedelta(minutes=idle_minutes),
    )
    asyncio.run(_until_interrupted(session))


def show_filter(exchange: ExchangeName, patterns: Patterns = None, word: Words = None) -> None:
    """Print the Service Bus rules that routing-key patterns become, one JSON object a line."""
    found, wanted = _wanted(exchange, patterns, word)
    for rule in rules_for_any(found, wanted):
        print(printed(_as_json(rule)))


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _wanted(exchange: str, patterns: list[str] | None, words: list[str] | None) -> tuple[Exchange, list[str]]:
    found = parse_exchange(exchange)
    if words:
        if patterns:
            raise ValueError("give patterns or words, not both")
        pairs = [word.partition("=") for word in words]
        return found, [pattern_for(found, {name: value for name, _, value in pairs})]
    return found, patterns or ["#"]


def _as_json(rule: Rule) -> dict[str, object]:
    match rule:
        case TrueRule():
            return {"filter": "true"}
        case CorrelationRule(properties):
            return {"filter": "correlation", "properties": dict(properties)}
        case SqlRule(expression):
            return {"filter": "sql", "expression": expression}


async def _listen(
    namespace: Namespace,
    topic: str,
    patterns: list[str],
    rules: tuple[Rule, ...],
    *,
    existing: str,
    count: int,
    idle: timedelta,
) -> None:
    name = existing or f"listen-{uuid.uuid4().hex[:12]}"
    try:
        async with contextlib.AsyncExitStack() as cleanup:
            client, admin = await cleanup.enter_async_context(namespace.clients())
            if not existing:
                await cleanup.enter_async_context(subscription(admin, topic, name, rules, idle))
            print(f"listening to {topic}, subscription {name}", file=sys.stderr, flush=True)
            await read(client, topic, name, _Printer(patterns, count))
    except AzureError as error:
        raise Trouble(in_words(error, topic=topic, existing=existing, namespace=str(namespace))) from error


class _Printer:
    """Prints messages that a pattern selects, up to a number: some may have come before the rules were in place."""

    def __init__(self, patterns: list[str], count: int) -> None:
        self._patterns = patterns
        self._left = count or math.inf

    def __call__(self, message: ServiceBusReceivedMessage) -> bool:
        if any(selects(pattern, properties_of(message)) for pattern in self._patterns):
            print(printed(as_json(message)), flush=True)
            self._left -= 1
        return self._left > 0


async def _until_interrupted(session: Coroutine[Any, Any, None]) -> None:
    """Runs until Ctrl-C, SIGTERM or a reader that goes away ends it in order, so that the subscription is removed."""
    task = asyncio.create_task(session)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError, BrokenPipeError):
        await task


def main(arguments: list[str]) -> None:
    """Runs the command; what goes wrong is a line on the standard error and exit code 1."""
    prepare()
    only_filter = arguments[:1] == ["filter"]
    # Plain help: the boxes give flags a value.
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(show_filter if only_filter else listen)
    name = os.environ.get("STARTED_AS", "python -m tools.listen")
    logging.getLogger("azure.identity").setLevel(logging.ERROR)  # what it warns of is reported in one line
    try:
        app(arguments[only_filter:], prog_name=f"{name} filter" if only_filter else name)
    except (ValueError, Trouble) as error:
        sys.exit(f"listen: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
