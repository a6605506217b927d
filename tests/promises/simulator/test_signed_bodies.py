"""The body that a caller has signed is the one that counts, also if no body arrives (contract 11.4)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import azure.functions as func
import mohawk
import pytest

from shared.auth.clients.rows import ROOT_CLIENT_ID
from tests.promises.simulator.queue_host import App
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import World, settings, unordered

URL = f"https://tc.example.com/api/queue/v1/task/{A}/cancel"
CONTEXT: Any = SimpleNamespace(invocation_id="1", trace_context=SimpleNamespace(trace_parent=None))


def cancel_task(world: World, arrives: bytes = b"{}") -> func.HttpRequest:
    """Returns a request of the root client that is signed for an empty object, and arrives with this body."""
    token = settings().root_access_token.get_secret_value()
    root = {"id": ROOT_CLIENT_ID, "key": token, "algorithm": "sha256"}
    signed = mohawk.Sender(
        root,
        URL,
        "POST",
        content="{}",
        content_type="application/json",
        _timestamp=str(int(world.clock.now().timestamp())),
    ).request_header
    headers = {"authorization": signed, "content-type": "application/json", "x-original-url": URL}
    return func.HttpRequest(method="POST", url=URL, headers=headers, body=arrives)


@pytest.mark.parametrize(
    ("arrives", "status"), [(b"{}", 200), (b"", 401), (b"[]", 401)], ids=["as signed", "without a body", "another body"]
)
def test_the_body_that_arrives_is_the_one_that_was_signed(
    app: App, monkeypatch: pytest.MonkeyPatch, arrives: bytes, status: int
) -> None:
    from functions import http  # reads its settings, which `app` has set

    world = unordered()
    monkeypatch.setattr(app.messages.process, "services", AsyncMock(return_value=world.services))

    async def story() -> func.HttpResponse:
        await world.create(A)
        return await http.respond(cancel_task(world, arrives), CONTEXT)

    (answer,) = world.run(story())
    assert answer.status_code == status, json.loads(answer.get_body())
