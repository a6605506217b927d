"""Passes on tasks that ended to mail and to Teams, as their routes ask: a function app of its own, this file its
function_app.py.

Routes are those of Taskcluster's Notify service: `notify.<kind>.<address>.on-<event>`. Here a kind is what an app
setting NOTIFY_<KIND>_URL leads to, such as the address of a Logic App's trigger *When an HTTP request is received*,
whose next action is *Send an email* or *Post message in a chat or channel*. An event is `completed`, `failed` or
`exception`, or `any` and `resolved` for all of them.

Subscription on each topic with the patterns `route.notify.email.#` and `route.notify.teams.#` (docs/ecosystem.md). What
cannot be passed on is tried again by Service Bus, and dead-lettered in the end. `./dev example notify` tries it without
Functions: it prints what it passes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import azure.functions as func
import requests

SECONDS = 30
_ROUTE = re.compile(r"\.notify\.(?P<kind>[a-z]+)\.(?P<address>.+)\.on-(?P<event>[a-z]+)\.")
_WORDS = {"completed": "is completed", "failed": "has failed", "exception": "could not be run"}
_ALWAYS = ("any", "resolved")

TOPICS = ("task-completed", "task-failed", "task-exception")
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


def notices(event: Mapping[str, Any], routes: str, root_url: str) -> Iterator[Notice]:
    """Those that an event asks for. `routes` is the property of the message: `|.<route>.|.<route>.|`."""
    status, run_id = event["status"], event.get("runId")
    task_id, state = status["taskId"], status["state"]
    if state not in _WORDS:
        return  # it is retried
    run = status["runs"][run_id] if run_id is not None else {}
    for found in filter(None, map(_ROUTE.fullmatch, routes.strip("|").split("|"))):
        if found["event"] in (*_ALWAYS, state):
            yield Notice(
                id=f"{task_id}/{run_id}/{found['address']}",
                kind=found["kind"],
                address=found["address"],
                subject=f"Task {task_id} {_WORDS[state]}",
                text=f"Run {run_id} in {status['taskQueueId']}: {run.get('reasonResolved', state)}.",
                link=f"{root_url}/tasks/{task_id}",
            )


def send(notice: Notice, url: str) -> None:
    """Raises OSError unless it is accepted."""
    requests.post(url, json=asdict(notice), timeout=SECONDS).raise_for_status()


def pass_on(event: Mapping[str, Any], routes: str) -> list[Notice]:
    """Sends the notices of one event, and returns them. Kinds without a setting are not sent."""
    found = list(notices(event, routes, os.environ["TASKCLUSTER_ROOT_URL"].rstrip("/")))
    for notice in found:
        url = os.environ.get(f"NOTIFY_{notice.kind.upper()}_URL")
        if url:
            send(notice, url)
    return found


def notify(message: func.ServiceBusMessage) -> None:
    """What the trigger calls with one event."""
    pass_on(json.loads(message.get_body()), str(message.application_properties.get("routes", "")))


for _topic in TOPICS:
    _name = f"notify_{_topic.replace('-', '_')}"
    _trigger = app.service_bus_topic_trigger(
        "message", connection="ServiceBus", topic_name=_topic, subscription_name="notify"
    )
    app.function_name(_name)(_trigger(notify))


async def main() -> None:
    """Passes on events as they come, and prints each notice."""
    from docs.examples.program import parser, subscribed, until_interrupted
    from tools.listen.reading import properties_of, read

    parser(__doc__).parse_args()

    def show(message: Any) -> bool:
        for notice in pass_on(json.loads(str(message)), properties_of(message).get("routes", "")):
            print(f"{notice.kind} {notice.address}: {notice.subject}", flush=True)
        return True

    async with subscribed(dict.fromkeys(TOPICS, PATTERNS)) as (client, subscriptions):

        async def follow() -> None:
            await asyncio.gather(*(read(client, topic, name, show) for topic, name in subscriptions.items()))

        await until_interrupted(follow())


if __name__ == "__main__":
    from docs.examples.program import run

    run(main())
