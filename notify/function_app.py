"""The function app that sends notifications: a trigger for each topic. In its package this file lies beside notify/."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import aiohttp
import azure.functions as func
from azure.communication.email.aio import EmailClient
from azure.identity.aio import ManagedIdentityCredential
from taskcluster.aio import Queue

from notify.notices import TOPICS
from notify.sending import TIMEOUT, Message, Notifier, Settings

SUBSCRIPTION = "notify"
"""Name of the subscription on each topic, as in infra/modules/notify.bicep."""

app = func.FunctionApp()
_prefix = os.environ.get("TOPIC_PREFIX", "")
_made: list[Notifier] = []


def _notifier() -> Notifier:
    """Returns the notifier of this process, which is made in its event loop."""
    if not _made:
        settings, seconds = Settings.read(os.environ), TIMEOUT.total_seconds()
        client_id = os.environ.get("TASKCLUSTER_CLIENT_ID")
        credentials = (
            {"clientId": client_id, "accessToken": os.environ["TASKCLUSTER_ACCESS_TOKEN"]} if client_id else {}
        )
        http = aiohttp.ClientSession()
        endpoint, mails = os.environ.get("MAIL_ENDPOINT"), None
        if endpoint and settings.mail_domains:
            identity = ManagedIdentityCredential(client_id=os.environ["MANAGED_IDENTITY_CLIENT_ID"])
            # The subscription tries again, and not the client.
            mails = EmailClient(endpoint, identity, retry_total=0, connection_timeout=seconds, read_timeout=seconds)
        queue = Queue({"rootUrl": settings.root_url, "credentials": credentials, "maxRetries": 1}, session=http)
        _made.append(Notifier(settings, queue, http, mails, asyncio.sleep))
    return _made[0]


async def _told(topic: str, message: func.ServiceBusMessage) -> None:
    assert message.message_id and message.enqueued_time_utc, "Service Bus gives each message both"
    given = Message(
        topic, message.get_body(), message.message_id, message.enqueued_time_utc, message.delivery_count or 1
    )
    await _notifier().handle(given)


def _triggered_by(topic: str) -> None:
    @app.function_name(f"notify-{topic}")
    @app.service_bus_topic_trigger(
        "message",
        connection="ServiceBus",
        topic_name=f"{_prefix}{topic}",
        subscription_name=SUBSCRIPTION,
    )
    async def notify(message: func.ServiceBusMessage) -> None:
        await partial(_told, topic)(message)


for _topic in TOPICS:
    _triggered_by(_topic)
