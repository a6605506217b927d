"""Messages in internal queues that this service did not write, or that speak of what is not there.

None of them does harm: what cannot be read ends in the poison queue, whose depth is a metric
(tests/promises/telemetry), and what is readable and about nothing is dropped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueClient

from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import (
    CLAIM_QUEUE,
    DEADLINE_QUEUE,
    EVENTS_QUEUE,
    GROUP_QUEUE,
    INTERNAL_QUEUES,
    RESOLVED_QUEUE,
    encode_body,
)
from shared.queue.tasks.messages import poison_queue
from tests.promises.host.projections import settle
from tests.promises.host.service import Service, eventually, in_future

LONG_AGO = -3600
"""Seconds from now to a time before which nothing can be under way any more."""


@pytest.mark.parametrize("queue", INTERNAL_QUEUES)
def test_what_cannot_be_read_is_poison(service: Service, queue: str) -> None:
    task_id = service.create()
    body = _body(queue, task_id, in_future(LONG_AGO))
    texts = [
        "*** not base64 ***",
        base64.b64encode(b"not JSON").decode(),
        encode_body({}),
        base64.b64encode(b"[]").decode(),
        *(encode_body({**body, name: {"of": "another type"}}) for name in body),
        *(encode_body({name: value for name, value in body.items() if name != missing}) for missing in body),
    ]
    before = service.status(task_id)
    for text in [*texts, base64.b64encode(b"\xff\xfe is no text").decode()]:
        _queue(service, queue).send_message(text)
    texts.append(base64.b64encode("\ufffd\ufffd is no text".encode()).decode())
    poison = _queue(service, poison_queue(queue))
    eventually(lambda: set(texts) <= _texts(poison), 30, lambda: f"not poison: {set(texts) - _texts(poison)}")
    assert service.status(task_id) == before
    settle(service.running, [task_id])


def test_what_is_about_nothing_is_dropped(service: Service) -> None:
    task_id = service.create()
    before = service.status(task_id)
    texts = {
        queue: encode_body(_body(queue, new_slugid(), in_future(LONG_AGO)))
        for queue in INTERNAL_QUEUES
        if queue != EVENTS_QUEUE
    }
    for queue, text in texts.items():
        _queue(service, queue).send_message(text)
    eventually(
        lambda: not any(text in _texts(_queue(service, queue)) for queue, text in texts.items()),
        otherwise=lambda: "an internal message was not taken",
    )
    assert service.status(task_id) == before
    (claim,) = service.claim()
    service.queue.reportCompleted(task_id, claim["runId"])
    settle(service.running, [task_id])
    poisoned = [q for q, text in texts.items() if text in _texts(_queue(service, poison_queue(q)))]
    assert poisoned == []


def _body(queue: str, task_id: str, put: str) -> Mapping[str, Any]:
    """Returns what the service itself would put there about a task, with every field that must be there."""
    bodies: Mapping[str, Mapping[str, Any]] = {
        CLAIM_QUEUE: {"taskId": task_id, "runId": 0, "put": put, "started": put},
        DEADLINE_QUEUE: {"taskId": task_id, "taskGroupId": task_id, "schedulerId": "-", "put": put},
        RESOLVED_QUEUE: {"taskId": task_id, "runId": 0, "put": put},
        EVENTS_QUEUE: {"pointer": json.dumps({"of": "nothing"})},
        GROUP_QUEUE: {"taskGroupId": task_id, "kind": "cancel", "number": 1, "listed": "nowhere"},
    }
    return bodies[queue]


def _queue(service: Service, name: str) -> QueueClient:
    connection = service.running.stack.environment["AZURE_STORAGE_CONNECTION_STRING"]
    return QueueClient.from_connection_string(connection, name)


def _texts(queue: QueueClient) -> set[str]:
    """Returns the texts of the visible messages, which stay."""
    try:
        return {str(message.content) for message in queue.peek_messages(32)}
    except ResourceNotFoundError:
        return set()
