"""What operators see and do over HTTP (contract 2.7)."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueClient

from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES, RESOLVED_QUEUE, encode_body
from shared.queue.tasks.messages import poison_queue
from tests.promises.host.service import Service, eventually, in_future, refused

LONG_AGO = -3600


@pytest.mark.endpoint("operations")
@pytest.mark.endpoint("listPoisonMessages")
@pytest.mark.endpoint("redrivePoisonMessages")
@pytest.mark.endpoint("deletePoisonMessages")
def test_what_was_given_up_is_looked_at_redriven_and_deleted(service: Service) -> None:
    task_id = new_slugid()
    body = {"taskId": task_id, "runId": 0, "put": in_future(LONG_AGO), "secret": "of nobody", "attempts": 5}
    unreadable = base64.b64encode(b"not JSON at all").decode()
    connection = service.running.stack.environment["AZURE_STORAGE_CONNECTION_STRING"]
    with QueueClient.from_connection_string(connection, poison_queue(RESOLVED_QUEUE)) as poison:
        with suppress(ResourceExistsError):
            poison.create_queue()
        readable_id = poison.send_message(encode_body(body)).id
        unreadable_id = poison.send_message(unreadable).id
        foreign_id = poison.send_message(encode_body({"x": 1})).id
    looked = service.call("GET", "operations")
    assert [each["queue"] for each in looked["queues"]] == list(INTERNAL_QUEUES)
    assert {each["queue"]: each["poison"] for each in looked["queues"]}[RESOLVED_QUEUE] >= 2

    path = f"poison-messages/{RESOLVED_QUEUE}"
    found = {each["messageId"]: each for each in service.call("GET", path)["messages"]}
    assert found[readable_id]["about"] == {name: body[name] for name in ("taskId", "runId", "put", "attempts")}
    readable = [found[each]["readable"] for each in (readable_id, unreadable_id, foreign_id)]
    assert readable == [True, False, False]
    assert "of nobody" not in str(found)

    stays = service.call("POST", f"{path}/redrive", {"messageId": unreadable_id})
    assert stays == {"moved": 0, "left": 1}, "what cannot be read stays"
    assert service.call("POST", f"{path}/redrive", {"messageId": readable_id}) == {"moved": 1, "left": 0}
    assert service.call("POST", f"{path}/redrive", {"messageId": readable_id}) == {"moved": 0, "left": 0}
    for each in (unreadable_id, foreign_id):
        assert service.call("POST", f"{path}/delete", {"messageId": each}) == {"moved": 1, "left": 0}
    eventually(
        lambda: {readable_id, unreadable_id, foreign_id}.isdisjoint(
            each["messageId"] for each in service.call("GET", path)["messages"]
        )
    )
    with refused(404, "ResourceNotFound"):
        service.call("GET", "poison-messages/pending")
    for method, where in (("GET", "operations"), ("GET", path), ("POST", f"{path}/delete")):
        with refused(403, "InsufficientScopes"):
            service.anonymous._makeHttpRequest(method, where, {} if method == "POST" else None)
