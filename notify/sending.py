"""Sends what an event asks for: mail by Communication Services, chat by web hooks of configured channels."""

from __future__ import annotations

import json
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import aiohttp
from azure.communication.email.aio import EmailClient
from azure.core.exceptions import AzureError
from taskcluster.exceptions import TaskclusterFailure, TaskclusterRestFailure

from notify.notices import CHATS, GROUP_TOPIC, Notice, about, allowed, asked_for, chat, mail, notices

LAST_DELIVERY = 30
"""Number of deliveries after which a message becomes a dead letter: `maxDeliveryCount` of
infra/modules/notify.bicep."""
PAUSE = timedelta(seconds=100)
"""The longest time between two deliveries: they go on for three quarters of an hour. Shorter than a lock lasts."""
REPEAT = timedelta(minutes=4)
"""Communication Services recognises a repeated request for five minutes after it says that it was first sent."""
TIMEOUT = timedelta(seconds=20)
REMEMBERED = 1000
"""The most notices that a process remembers as sent."""
MOST, WITHIN = 50, timedelta(minutes=10)
"""The most notices that a process sends to one address in this time, as Notify does. If a graph goes wrong, its owner
is not told of each task."""
_FAILURES = (AzureError, aiohttp.ClientError, TimeoutError, TaskclusterFailure)
_REFERENCE = "@Microsoft.KeyVault("
_log = logging.getLogger("notify")


class ConfigurationError(ValueError):
    """A setting is unusable; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is configured: docs/ecosystem.md."""

    root_url: str
    mail_sender: str = ""
    mail_domains: frozenset[str] = frozenset()
    channels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """URLs of web hooks, by the kind of route and the name of the channel."""
    denied: frozenset[str] = frozenset()

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Settings:
        """Reads the app settings. Raises ConfigurationError."""
        for name in ("CHANNELS", "TASKCLUSTER_ACCESS_TOKEN"):
            if given.get(name, "").startswith(_REFERENCE):
                raise ConfigurationError(f"{name}: the platform has not read its secret in the vault")
        channels = json.loads(given.get("CHANNELS") or "{}")
        for kind, urls in channels.items():
            for name, url in urls.items():
                there = urlsplit(url)
                if kind not in CHATS or not (there.scheme == "https" or there.hostname == "127.0.0.1"):
                    raise ConfigurationError(f"CHANNELS: {kind}.{name} is no web hook by HTTPS, or of no known kind")
        return cls(
            root_url=given["TASKCLUSTER_ROOT_URL"].rstrip("/"),
            mail_sender=given.get("MAIL_SENDER", ""),
            mail_domains=frozenset(_words(given.get("MAIL_DOMAINS", "").lower())),
            channels=channels,
            denied=frozenset(_words(given.get("DENIED", "").lower())),
        )


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


@dataclass(frozen=True)
class Message:
    """A message of a topic, as a trigger gets it."""

    topic: str
    body: bytes
    id: str
    enqueued: datetime
    delivery: int
    """Number of this delivery, counted from 1."""


@dataclass
class Notifier:
    """Connections through which a process sends notices, and what it remembers of sent ones."""

    settings: Settings
    queue: Any
    """The public client, which has no type hints."""
    http: aiohttp.ClientSession
    mails: EmailClient | None
    pause: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _sent: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _recent: dict[str, deque[datetime]] = field(default_factory=lambda: defaultdict(deque))

    async def handle(self, message: Message) -> None:
        """Sends what a message asks for. Raises the first failure, after all were tried and some time has passed, since
        Service Bus delivers the message again at once."""
        try:
            failures = await self._try(message)
        except _FAILURES as error:
            failures = [error]
        if failures:
            if message.delivery >= LAST_DELIVERY:
                _log.error("Given up: notifications of message %s of %s", message.id, message.topic)
            else:
                await self.pause(min(2.0**message.delivery, PAUSE.total_seconds()))
            raise failures[0]

    async def _try(self, message: Message) -> list[Exception]:
        event = json.loads(message.body)
        task_id = about(message.topic, event)
        task = task_id and await self._definition(task_id)
        if not task or not asked_for(message.topic, task):
            return []
        states = await self._states(event["taskGroupId"]) if message.topic == GROUP_TOPIC else None
        failures: list[Exception] = []
        for notice in notices(message.topic, event, task, self.settings.root_url, message.id, states):
            if notice.id in self._sent or not self._may(notice):
                continue
            try:
                await (self._mail(notice, message) if notice.kind == "email" else self._post(notice))
            except _FAILURES as error:
                failures.append(error)
            else:
                self._remember(notice)
        return failures

    async def _definition(self, task_id: str) -> dict[str, Any] | None:
        """Returns the definition of a task; None if there is none, as for a group without a decision task."""
        try:
            found: dict[str, Any] = await self.queue.task(task_id)
        except TaskclusterRestFailure as error:
            if error.status_code == 404:
                return None
            raise
        return found

    async def _states(self, group_id: str) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        query: dict[str, str] = {}
        while True:
            page = await self.queue.listTaskGroup(group_id, query=query)
            counts.update(each["status"]["state"] for each in page["tasks"])
            if "continuationToken" not in page:
                return counts
            query = {"continuationToken": page["continuationToken"]}

    def _may(self, notice: Notice) -> bool:
        """Whether the configuration lets a notice be sent. If it does not, the notice is not tried again."""
        where = f"{notice.kind}.{notice.address}".lower()
        known = notice.address in self.settings.channels.get(notice.kind, {})
        if notice.kind == "email":
            known = self.mails is not None and allowed(notice.address, self.settings.mail_domains)
        recent = self._recent[where]
        while recent and self.now() - recent[0] > WITHIN:
            recent.popleft()
        if known and where not in self.settings.denied and len(recent) < MOST:
            return True
        why = "are too many" if len(recent) >= MOST else "are denied or lead to what is not configured"
        _log.warning("Notifications by notify.%s %s: %s", notice.kind, why, notice.link)
        return False

    def _remember(self, notice: Notice) -> None:
        self._sent[notice.id] = None
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        self._recent[f"{notice.kind}.{notice.address}".lower()].append(self.now())

    async def _mail(self, notice: Notice, message: Message) -> None:
        """Sends mail, and is content when it is accepted. A repeat in time has the id of the first request, and sends
        no second mail: https://learn.microsoft.com/rest/api/communication/repeatable-requests"""
        assert self.mails is not None, "mail is configured"
        window = max(0, (self.now() - message.enqueued) // REPEAT)
        request_id = str(uuid5(NAMESPACE_URL, f"{notice.id}/{window}"))
        headers = {
            "Repeatability-Request-ID": request_id,
            "Repeatability-First-Sent": format_datetime(message.enqueued + window * REPEAT, usegmt=True),
        }
        body = mail(notice, self.settings.mail_sender)
        await self.mails.begin_send(body, operation_id=request_id, headers=headers, polling=False)

    async def _post(self, notice: Notice) -> None:
        url = self.settings.channels[notice.kind][notice.address]
        timeout = aiohttp.ClientTimeout(total=TIMEOUT.total_seconds())
        async with self.http.post(url, json=chat(notice), timeout=timeout, allow_redirects=False) as answer:
            if answer.status >= 300:
                # Without the URL, which is a secret.
                raise aiohttp.ClientError(f"the web hook of {notice.kind}.{notice.address} answers {answer.status}")
