"""The public asynchronous Python client, unchanged: a task's life, many at once, and how it raises errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
import taskcluster.aio

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment, a_task, format_time
from tests.promises.host.events import Events

WORKER = {"workerGroup": "g", "workerId": "w"}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with taskcluster.aio.createSession() as opened:
        yield opened


@pytest.fixture
def queue(deployment: Deployment, session: aiohttp.ClientSession) -> Any:
    """Returns the client as root."""
    return taskcluster.aio.Queue(deployment.options(deployment.root), session=session)


def with_credentials(deployment: Deployment, session: aiohttp.ClientSession, given: dict[str, str]) -> Any:
    return taskcluster.aio.Queue(deployment.options(given), session=session)


async def upload(session: aiohttp.ClientSession, queue: Any, task_id: str, name: str, content: bytes) -> None:
    """Uploads as a worker does: creates an artifact, and sends a bare PUT to its URL."""
    request = {
        "storageType": "s3",
        "contentType": "text/plain",
        "contentLength": len(content),
        "expires": format_time(timedelta(minutes=30)),
    }
    answer = await queue.createArtifact(task_id, 0, name, request)
    async with session.put(answer["putUrl"], data=content, headers={"content-type": "text/plain"}) as put:
        assert put.status in (200, 201), await put.text()


async def test_the_life_of_a_task(
    deployment: Deployment, session: aiohttp.ClientSession, queue: Any, events: Events
) -> None:
    task_id, pool = new_slugid(), "aio/life"
    created = await queue.createTask(task_id, a_task(pool))
    assert created["status"]["state"] == "pending"
    (claim,) = (await queue.claimWork(pool, WORKER))["tasks"]
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 0)
    reclaim = await with_credentials(deployment, session, claim["credentials"]).reclaimTask(task_id, 0)
    assert reclaim["takenUntil"] >= claim["takenUntil"]
    worker = with_credentials(deployment, session, reclaim["credentials"])
    await upload(session, worker, task_id, "public/a b.txt", b"hello")
    assert (await worker.reportCompleted(task_id, 0))["status"]["state"] == "completed"
    (run,) = (await queue.status(task_id))["status"]["runs"]
    assert (run["state"], run["reasonResolved"], run["workerId"]) == ("completed", "completed", "w")
    found = await queue.getLatestArtifact(task_id, "public/a b.txt")
    async with session.get(found["url"]) as answer:
        assert await answer.read() == b"hello"
    kinds = [("task-defined", None), ("task-pending", 0), ("task-running", 0), ("task-completed", 0)]
    received = await asyncio.to_thread(events.expect, task_id, *kinds, ("task-group-resolved", None))
    announced = [event.body["status"] for event in received if event.topic == "task-completed"]
    assert announced == [(await queue.status(task_id))["status"]]
