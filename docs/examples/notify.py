"""Passes on events of tasks to mail and to Teams, as their routes ask: a function app of its own, this file its
function_app.py.

Routes are those of Taskcluster's Notify service, `notify.<kind>.<address>.on-<event>`, and they mean the same: an event
is `defined`, `pending`, `running`, `completed`, `failed` or `exception`; `transition` for all of them, `resolved` or
`any` for the last three. Nobody is told of a task that was cancelled or did not run before its deadline. Here a kind is
what an app setting NOTIFY_<KIND>_URL leads to, such as the address of a Logic App's trigger *When an HTTP request is
received*, whose next action is *Send an email* or *Post message in a chat or channel*. Texts of `extra.notify`, which
are in no event, are not read.

Subscription on each topic with the patterns `route.notify.email.#` and `route.notify.teams.#` (docs/ecosystem.md). What
cannot be passed on is tried again by Service Bus, and dead-lettered in the end. `./dev example notify` tries it without
Functions: it prints what it passes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import azure.functions as func
import requests

SECONDS = 30
_ROUTE = re.compile(r"\.notify\.(?P<kind>[a-z-]+)\.(?P<address>.+)\.on-(?P<event>[a-z]+)\.")
_ENDS = {"completed": "is completed", "failed": "has failed", "exception": "could not be run"}
_WORDS = {"defined": "is defined", "pending": "is pending", "running": "is running", **_ENDS}
_UNTOLD = ("canceled", "deadline-exceeded")
"""Reasons of exceptions of which nobody is told: what Notify is configured with."""

TOPICS = tuple(f"task-{event}" for event in _WORDS)
PATTERNS = ("route.notify.email.#", "route.notify.teams.#")

app = func.FunctionApp()


@dataclass(frozen=True)
class Notice:
    """What is to be said to somebody; `id` is the same when the event comes twice."""

    id: str
    kind: str
    address: str
    subject: str
    text: str
    link: str


def notices(topic: str, event: Mapping[str, Any], routes: str, root_url: str) -> Iterator[Notice]:
    """Those that an event of a topic asks for. `routes` is the property of the message: `|.<route>.|.<route>.|`."""
    status, run_id, name = event["status"], event.get("runId"), topic.removeprefix("task-")
    task_id, run = status["taskId"], {} if run_id is None else status["runs"][run_id]
    reason = run.get("reasonResolved", name)
    if reason in _UNTOLD or (name in _ENDS and status["state"] != name):
        return  # the latter is retried
    for found in filter(None, map(_ROUTE.fullmatch, routes.strip("|").split("|"))):
        if found["event"] in (name, "transition", *(("any", "resolved") if name in _ENDS else ())):
            yield Notice(
                id=f"{task_id}/{run_id}/{name}/{found['address']}",
                kind=found["kind"],
                address=found["address"],
                subject=f"Task {task_id} {_WORDS[name]}",
                text=f"{'Task' if run_id is None else f'Run {run_id}'} in {status['taskQueueId']}: {reason}.",
                link=f"{root_url}/tasks/{task_id}",
            )


def send(notice: Notice, url: str) -> None:
    """Raises OSError unless it is accepted."""
    requests.post(url, json=asdict(notice), timeout=SECONDS).raise_for_status()


def pass_on(topic: str, event: Mapping[str, Any], routes: str) -> list[Notice]:
    """Sends the notices of one event, and returns them. Kinds without a setting are not sent."""
    found = list(notices(topic, event, routes, os.environ["TASKCLUSTER_ROOT_URL"].rstrip("/")))
    for notice in found:
        url = os.environ.get(f"NOTIFY_{notice.kind.replace('-', '_').upper()}_URL")
        if url:
            send(notice, url)
    return found


def notify(topic: str, message: func.ServiceBusMessage) -> None:
    """What a topic's trigger calls with one event."""
    pass_on(topic, json.loads(message.get_body()), str(message.application_properties.get("routes", "")))


def _triggered_by(topic: str) -> None:
    @app.function_name(f"notify_{topic.replace('-', '_')}")
    @app.service_bus_topic_trigger("message", connection="ServiceBus", topic_name=topic, subscription_name="notify")
    def _(message: func.ServiceBusMessage) -> None:
        notify(topic, message)


for _topic in TOPICS:
    _triggered_by(_topic)


async def main() -> None:
    """Passes on events as they come, and prints each notice."""
    from docs.examples.program import parser, subscribed, until_interrupted
    from tools.listen.reading import properties_of, read

    parser(__doc__).parse_args()

    def showing(topic: str) -> Callable[[Any], bool]:
        def show(message: Any) -> bool:
            for notice in pass_on(topic, json.loads(str(message)), properties_of(message).get("routes", "")):
                print(f"{notice.kind} {notice.address}: {notice.subject}", flush=True)
            return True

        return show

    async with subscribed(dict.fromkeys(TOPICS, PATTERNS)) as (client, subscriptions):

        async def follow() -> None:
            names = zip(TOPICS, subscriptions.items(), strict=True)
            await asyncio.gather(*(read(client, topic, name, showing(event)) for event, (topic, name) in names))

        await until_interrupted(follow())


if __name__ == "__main__":
    from docs.examples.program import run

    run(main())
