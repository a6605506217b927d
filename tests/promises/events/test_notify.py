"""Notifications that tasks ask for: which, what they say, and how the real clients send them."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.communication.email.aio import EmailClient
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.servicebus.aio import ServiceBusClient
from hypothesis import given
from hypothesis import strategies as st
from taskcluster.aio import Queue
from taskcluster.exceptions import TaskclusterFailure

from notify import notices, sending
from notify.sending import ConfigurationError, Message, Notifier, Settings
from shared.queue.events.rendering import EventMessage, render_group
from shared.queue.events.rules import Exchange
from shared.queue.tasks.rules import Resolved
from tests.promises.events.builders import GROUP_ID, Life, definition, group_event
from tests.promises.events.receiving import publishing
from tools.local.service_bus import ServiceBus

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ROOT_URL = "https://queue.example.com"
MAIL, SLACK, TEAMS = "notify.email.me@example.com", "notify.slack-channel.C012", "notify.teams.builds"
ID = "AAAAAAAAQACAAAAAAAAAAA"
EVENTS = ["any", "completed", "defined", "exception", "failed", "pending", "resolved", "running", "transition"]


def _event(state: str, reason: str | None = None) -> dict[str, Any]:
    runs = [{"state": state, "reasonResolved": reason}] if reason or state == "running" else []
    return {"status": {"taskId": ID, "taskGroupId": GROUP_ID, "state": state, "runs": runs}}


def _task(*routes: str, **changes: Any) -> dict[str, Any]:
    return {**definition(routes=list(routes)).body, **changes}


@pytest.mark.parametrize(
    ("topic", "state", "reason", "told"),
    [
        ("task-defined", "unscheduled", None, ["defined", "transition"]),
        ("task-pending", "pending", None, ["pending", "transition"]),
        ("task-running", "running", None, ["running", "transition"]),
        ("task-completed", "completed", "completed", ["any", "completed", "resolved", "transition"]),
        ("task-failed", "failed", "failed", ["any", "failed", "resolved", "transition"]),
        ("task-exception", "exception", "malformed-payload", ["any", "exception", "resolved", "transition"]),
        ("task-exception", "exception", "canceled", []),
        ("task-exception", "exception", "deadline-exceeded", []),
        ("task-exception", "pending", "claim-expired", []),
    ],
)
def test_who_is_told_of_what(topic: str, state: str, reason: str | None, told: list[str]) -> None:
    """The same events lead to notifications as by Taskcluster's Notify: none of what somebody has cancelled, and all of
    what is on its way for on-transition."""
    event = _event(state, reason)
    routes = [f"notify.email.{name}@example.com.on-{name}" for name in (*EVENTS, "group-resolved")]
    others = ["notify.pulse.a.on-any", "notify.matrix-room.!a:b.on-any", "index.a", "notify.email.on-any"]
    found = notices.asked_for(topic, _task(*routes, *others)) if notices.about(topic, event) else []
    assert found == [("email", f"{name}@example.com") for name in told]


def test_a_groups_end_is_told_to_whom_its_decision_task_names() -> None:
    event = {"taskGroupId": GROUP_ID, "schedulerId": "s"}
    task = _task(f"{MAIL}.on-group-resolved", f"{MAIL}.on-group-resolved", f"{TEAMS}.on-any")
    assert notices.about("task-group-resolved", event) == GROUP_ID
    (notice,) = notices.notices("task-group-resolved", event, task, ROOT_URL, "m", {"failed": 2, "completed": 198})
    assert notice.subject == "Group resolved: n, 198 completed, 2 failed"
    assert notice.link == f"{ROOT_URL}/tasks/groups/{GROUP_ID}"


def test_a_tasks_own_texts_are_used_without_computing_anything() -> None:
    email = {
        "subject": "${task.metadata.name} ${status.state}",
        "content": "${status.runs} ${nothing.at.all} $${taskId} ${range(0, 1000000000)}",
        "link": {"text": "log of ${taskId}", "href": "${rootUrl}/log/${taskId}"},
    }
    task = _task(f"{MAIL}.on-failed", f"{SLACK}.on-failed", extra={"notify": {"email": email, "slackText": "*oh*"}})
    mail, chat = notices.notices("task-failed", _event("failed", "failed"), task, ROOT_URL, "m")
    assert (mail.subject, mail.link, mail.link_text) == ("n failed", f"{ROOT_URL}/log/{ID}", f"log of {ID}")
    assert mail.text.endswith(f" ${{nothing.at.all}} ${ID} ${{range(0, 1000000000)}}")
    assert (chat.text, chat.link) == ("*oh*", f"{ROOT_URL}/tasks/{ID}")
    email["link"] = {"text": "x", "href": "javascript:alert(1)"}
    (mail, _) = notices.notices("task-failed", _event("failed", "failed"), task, ROOT_URL, "m")
    assert mail.link == ""


_JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=5
)


@given(texts=st.lists(st.text(), min_size=4, max_size=4), extra=_JSON, kind=st.sampled_from([MAIL, SLACK, TEAMS]))
def test_no_text_of_a_task_becomes_anything_but_text(texts: list[str], extra: Any, kind: str) -> None:
    metadata = dict(zip(("name", "description", "owner", "source"), texts, strict=True))
    task = _task(f"{kind}.on-failed", metadata=metadata, extra={"notify": extra})
    (notice,) = notices.notices("task-failed", _event("failed", "failed"), task, ROOT_URL, "m")
    assert notice.subject.isprintable() or not notice.subject.isascii()
    assert not {"\n", "\r", "\u202e", "\0"} & {*notice.subject}
    if kind == MAIL:
        assert notices.mail(notice, "s@example.com")["content"].keys() == {"subject", "plainText"}
        return
    sent = json.dumps(notices.chat(notice))
    assert '"mrkdwn"}' not in sent
    assert '"TextBlock"' not in sent
    assert "<!channel>" not in sent.replace(json.dumps(notice.text)[1:-1], "")


def test_mail_goes_to_plain_addresses_of_configured_domains_alone() -> None:
    domains = frozenset({"example.com"})
    assert all(notices.allowed(each, domains) for each in ("me@example.com", "Me.Too+ci@EXAMPLE.com"))
    evil = ["me@sub.example.com", "me@example.com.evil.org", "you@evil.org,me@example.com", "me@evil.org\n@example.com"]
    assert not any(notices.allowed(each, domains) for each in (*evil, "a b@example.com", "@example.com", "example.com"))
    assert not notices.allowed("me@example.com", frozenset())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHANNELS", '{"teams": {"a": "http://hooks.example.com"}}'),
        ("CHANNELS", '{"matrix-room": {"a": "https://hooks.example.com"}}'),
        ("CHANNELS", "@Microsoft.KeyVault(SecretUri=https://v.vault.azure.net/secrets/notify-channels/)"),
        ("TASKCLUSTER_ACCESS_TOKEN", "@Microsoft.KeyVault(SecretUri=x)"),
    ],
)
def test_settings_that_would_send_nothing_or_openly_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError):
        Settings.read({"TASKCLUSTER_ROOT_URL": ROOT_URL, name: value})


class Stub:
    """A stub of the Queue, Communication Services and web hooks; `status` answers by the path's end."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Any, Any]] = []
        self.status: dict[str, int] = {}
        self.tasks: dict[str, Any] = {}
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        end = request.path.rpartition("/")[2]
        if request.method == "POST":
            self.got.append((end, await request.json(), request.headers))
            return web.Response(status=self.status.get(end, 202), headers={"Operation-Location": f"{self.url}/done"})
        if end == "list":
            states = ["completed", "failed"] if "continuationToken" in request.query else ["completed"] * 2
            more = {} if "continuationToken" in request.query else {"continuationToken": "t"}
            return web.json_response({"tasks": [{"status": {"state": each}} for each in states], **more})
        status = self.status.get(end, 200 if end in self.tasks else 404)
        return web.json_response(self.tasks.get(end, {"message": "no"}), status=status)


@asynccontextmanager
async def standing(denied: str = "") -> AsyncIterator[tuple[Stub, Notifier, list[float]]]:
    """Yields a stub, a notifier with the real clients before it, and the pauses that it makes."""
    stub, pauses = Stub(), list[float]()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    hooks = {"slack-channel": {"C012": f"{stub.url}/slack"}, "teams": {"builds": f"{stub.url}/teams"}}
    given_ = {"TASKCLUSTER_ROOT_URL": stub.url, "MAIL_SENDER": "DoNotReply@mail.example", "MAIL_DOMAINS": "example.com"}
    settings = Settings.read({**given_, "DENIED": denied, "CHANNELS": json.dumps(hooks)})

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    key = AzureKeyCredential("a2V5")
    async with aiohttp.ClientSession() as http, EmailClient(stub.url, key, retry_total=0) as mails:
        queue = Queue({"rootUrl": stub.url, "credentials": {}, "maxRetries": 0}, session=http)
        try:
            yield stub, Notifier(settings, queue, http, mails, pause, now=lambda: NOW), pauses
        finally:
            await runner.cleanup()


def failed(*routes: str, task_id: str = ID) -> tuple[dict[str, Any], EventMessage]:
    """Returns a definition, and the event of its task's failure."""
    life = Life.begin(task_id=task_id, routes=list(routes))
    life.schedule()
    life.claim()
    return dict(life.definition.body), life.report(Resolved.FAILED)[0]


def message_of(event: EventMessage, **changes: Any) -> Message:
    return replace(Message(event.topic, event.body, event.message_id, NOW, 1), **changes)


async def test_mail_and_chat_are_sent_and_mail_is_recognised_when_it_is_repeated() -> None:
    task, event = failed(f"{MAIL}.on-failed", f"{SLACK}.on-any", f"{TEAMS}.on-any", "notify.email.x@evil.org.on-any")
    async with standing() as (stub, notifier, _):
        stub.tasks[ID] = task
        await notifier.handle(message_of(event))
        await notifier.handle(message_of(event, delivery=2))
        assert [end for end, *_ in stub.got] == ["emails:send", "slack", "teams"], (
            "a process remembers what it has sent"
        )
        notifier._sent.clear()
        await notifier.handle(message_of(event, delivery=3))
    first, again = (each for each in stub.got if each[0] == "emails:send")
    assert first[1]["recipients"] == {"to": [{"address": "me@example.com"}]}
    assert first[1]["content"]["subject"] == f"Task failed: n - {ID}"
    for header in ("Operation-Id", "Repeatability-Request-ID", "Repeatability-First-Sent"):
        assert first[2][header] == again[2][header]
    assert first[2]["Repeatability-First-Sent"] == "Thu, 01 Jan 2026 12:00:00 GMT"
    assert stub.got[1][1]["blocks"][0]["text"]["type"] == "plain_text"
    assert stub.got[2][1]["attachments"][0]["content"]["body"][0]["inlines"][0]["text"].startswith("Task failed: n")


async def test_a_repeat_that_comes_late_says_that_it_was_first_sent_lately() -> None:
    """A repeat that comes late says that it was first sent lately: Communication Services refuses one that is older
    than five minutes."""
    task, event = failed(f"{MAIL}.on-failed")
    async with standing() as (stub, notifier, _):
        stub.tasks[ID] = task
        for ago in (0, 3, 5, 6):
            notifier._sent.clear()
            await notifier.handle(message_of(event, enqueued=NOW - timedelta(minutes=ago)))
    sent = [(each["Repeatability-Request-ID"], each["Repeatability-First-Sent"][17:25]) for _, _, each in stub.got]
    assert [at for _, at in sent] == ["12:00:00", "11:57:00", "11:59:00", "11:58:00"]
    assert sent[0][0] == sent[1][0] != sent[2][0] == sent[3][0]


async def test_what_is_denied_or_too_much_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    task, event = failed(f"{MAIL}.on-failed", f"{SLACK}.on-any", "notify.teams.unknown.on-any")
    async with standing(denied="email.me@example.com") as (stub, notifier, _):
        stub.tasks[ID] = task
        for number in range(sending.MOST + 1):
            await notifier.handle(message_of(event, id=f"message-{number}"))
    assert [end for end, *_ in stub.got] == ["slack"] * sending.MOST
    assert "too many" in caplog.text
    assert "example.com" not in caplog.text, "logs name nobody"


async def test_a_groups_tasks_are_counted_over_all_pages() -> None:
    group = group_event(Exchange.TASK_GROUP_RESOLVED)
    async with standing() as (stub, notifier, pauses):
        await notifier.handle(message_of(render_group(group)))
        assert stub.got == [], "a group without a decision task"
        stub.status[GROUP_ID] = 403
        with pytest.raises(TaskclusterFailure):
            await notifier.handle(message_of(render_group(group)))
        stub.status.clear()
        stub.tasks[GROUP_ID] = _task(f"{MAIL}.on-group-resolved")
        await notifier.handle(message_of(render_group(group)))
    assert pauses == [2], "a definition that may not be read is tried again"
    assert stub.got[0][1]["content"]["subject"] == "Group resolved: n, 3 completed, 1 failed"


async def test_what_fails_is_delivered_again_and_kept_as_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails is delivered again by the subscription, becomes a dead letter, and is logged for the alert; who was
    told already is not told again."""
    monkeypatch.setattr(sending, "LAST_DELIVERY", 3)
    task, event = failed(f"{MAIL}.on-failed", f"{TEAMS}.on-failed")
    _, other = failed("index.a", task_id="BBBBBBBBQACAAAAAAAAAAA")
    rule = {"name": "$Default", "sql": "routes LIKE '%|.notify.%'"}
    topic = {"name": "task-failed", "subscriptions": [{"name": "notify", "maxDeliveryCount": 3, "rules": [rule]}]}
    with ServiceBus.start([topic]) as bus:
        async with publishing(bus) as publisher, standing() as (stub, notifier, pauses):
            stub.tasks[ID], stub.status["emails:send"] = task, 429
            await publisher.publish([other])
            await publisher.publish([event])
            async with (
                ServiceBusClient.from_connection_string(bus.connection_string) as client,
                client.get_subscription_receiver("task-failed", "notify") as receiver,
            ):
                for delivery in (1, 2, 3):
                    (taken,) = await receiver.receive_messages(max_message_count=1, max_wait_time=30)
                    given_ = Message("task-failed", str(taken).encode(), str(taken.message_id), NOW, delivery)
                    assert (taken.delivery_count or 0) + 1 == delivery
                    with pytest.raises(HttpResponseError):
                        await notifier.handle(given_)
                    await receiver.abandon_message(taken)
            async with (
                ServiceBusClient.from_connection_string(bus.connection_string) as client,
                client.get_subscription_receiver("task-failed", "notify", sub_queue="deadletter") as receiver,
            ):
                (dead,) = await receiver.receive_messages(max_message_count=1, max_wait_time=30)
                assert json.loads(str(dead))["status"]["taskId"] == ID
    assert [end for end, *_ in stub.got] == ["emails:send", "teams", "emails:send", "emails:send"]
    assert pauses == [2, 4]
    (given_up,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    assert given_up.getMessage().startswith("Given up: notifications")


def test_the_app_is_triggered_by_its_subscription_on_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC_PREFIX", "exchange/v1/")
    app = importlib.reload(importlib.import_module("notify.function_app")).app
    found = [json.loads(str(each))["bindings"][0] for each in app.get_functions()]
    assert {each["topicName"] for each in found} == {f"exchange/v1/{topic}" for topic in notices.TOPICS}
    assert {(each["type"], each["subscriptionName"], each["connection"]) for each in found} == {
        ("serviceBusTrigger", "notify", "ServiceBus")
    }
