"""Handlers cannot answer callers that they have not authorised (contract 1.5), or hold a call for ever."""

from __future__ import annotations

import asyncio
import json
from unittest.mock import AsyncMock

import azure.functions as func
import pytest

from shared.api.endpoint import Call
from tests.promises.simulator.queue_host import App
from tests.promises.simulator.situations import A
from tests.promises.simulator.test_signed_bodies import CONTEXT, cancel_task
from tests.promises.simulator.world import unordered


@pytest.mark.parametrize("authorises", [True, False])
def test_a_handler_that_has_not_authorised_its_caller_answers_nobody(
    app: App, monkeypatch: pytest.MonkeyPatch, authorises: bool
) -> None:
    from functions import http  # reads its settings, which `app` has set

    world = unordered()
    monkeypatch.setattr(app.messages.process, "services", AsyncMock(return_value=world.services))
    if not authorises:
        monkeypatch.setattr(Call, "authorise", AsyncMock())

    async def story() -> func.HttpResponse:
        await world.create(A)
        return await http.respond(cancel_task(world), CONTEXT)

    (answer,) = world.run(story())
    body = json.loads(answer.get_body())
    if authorises:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, body["code"]) == (500, "InternalServerError")
        assert A not in body["message"]


def test_a_call_that_takes_too_long_is_answered_before_the_platform_ends_the_process(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functions import http  # reads its settings, which `app` has set

    world = unordered()
    monkeypatch.setattr(app.messages.process, "services", AsyncMock(return_value=world.services))
    monkeypatch.setattr(http, "LONGEST_CALL", 0.01)
    monkeypatch.setattr(http._Handling, "_handled", lambda *_: asyncio.Event().wait())
    (answer,) = world.run(http.respond(cancel_task(world), CONTEXT))
    body = json.loads(answer.get_body())
    assert (answer.status_code, body["code"]) == (503, "ServiceUnavailable")
    assert "took too long" in body["message"]
