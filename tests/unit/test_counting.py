"""Counting requests and their depth."""

import asyncio
from typing import Any

import pytest
from azure.core.pipeline import AsyncPipeline, PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncHTTPPolicy
from azure.core.rest import HttpRequest

from shared.store.counting import CountingPolicy, Kind, Operations, counting, recorded, retried
from shared.store.interface import Create, Upsert
from tests.twin import MemoryStorage


async def _request(seconds: float = 0, kind: Kind = Kind.TABLE_READ) -> None:
    with recorded(kind, "Tasks"):
        await asyncio.sleep(seconds)


async def test_nothing_is_recorded_without_counting() -> None:
    with counting() as operations:
        pass
    await _request()
    retried()
    assert (operations.total, operations.depth, operations.retries) == (0, 0, 0)


async def test_sequence_and_parallel() -> None:
    with counting() as operations:
        await _request(kind=Kind.TABLE_WRITE)
        await asyncio.gather(_request(), _request(0.001), _request(0.002))
        await _request(kind=Kind.TABLE_WRITE)
    assert operations.total == 5
    assert operations.depth == 3
    assert operations.counts == {Kind.TABLE_WRITE: 2, Kind.TABLE_READ: 3}
    assert [request.level for request in operations.requests] == [1, 2, 2, 2, 3]


async def test_tasks_that_the_call_starts_are_counted() -> None:
    async def call() -> None:
        background = asyncio.create_task(_request(0.001))
        async with asyncio.TaskGroup() as group:
            group.create_task(_request())
            group.create_task(_request())
        await background

    with counting() as operations:
        await call()
    assert (operations.total, operations.depth) == (3, 1)


async def test_calls_side_by_side_are_counted_apart() -> None:
    async def call(requests: int) -> Operations:
        with counting() as operations:
            for _ in range(requests):
                await _request(0.0005)
        return operations

    counted = await asyncio.gather(*(call(requests) for requests in (1, 2, 5)))
    assert [(operations.total, operations.depth) for operations in counted] == [(1, 1), (2, 2), (5, 5)]


async def test_nested_counts_see_all_inside() -> None:
    with counting() as outer:
        await _request()
        with counting() as inner:
            await _request()
            retried()
        await _request()
    assert (inner.total, inner.depth, inner.retries) == (1, 1, 1)
    assert (outer.total, outer.depth, outer.retries) == (3, 3, 1)


async def test_what_a_call_leaves_running_is_not_counted_once_it_is_answered() -> None:
    """A poll that others wait for as well goes on for hours, in the context of the call that began it."""
    answered = asyncio.Event()

    async def goes_on() -> None:
        await _request(kind=Kind.QUEUE_PEEK)
        await answered.wait()
        await _request(kind=Kind.QUEUE_PEEK)

    with counting() as operations:
        running = asyncio.create_task(goes_on())
        await asyncio.sleep(0)
    answered.set()
    await running
    assert operations.total == 1


async def test_a_failed_request_is_counted() -> None:
    with counting() as operations:
        with pytest.raises(KeyError), recorded(Kind.QUEUE_PUT, "q"):
            raise KeyError
        await _request()
    assert (operations.total, operations.depth) == (2, 2)


async def test_the_twin_counts_by_the_same_rules(twin: MemoryStorage) -> None:
    storage = twin.storage
    with counting() as operations:
        await asyncio.gather(
            storage.tables.transact("Tasks", "p", [Create("a", {}), Create("b", {})]),
            storage.queues.put("claim", "text"),
        )
        (message,) = await storage.queues.get("claim", hidden_for=1)
        await storage.queues.delete("claim", message.receipt)
        await storage.tables.transact("Tasks", "p", [Upsert("a", {})])
        with pytest.raises(ValueError, match="key"):
            await storage.tables.get("Tasks", "p", "a/b")  # never sent
    assert operations.counts == {
        Kind.TABLE_WRITE: 2,
        Kind.QUEUE_PUT: 1,
        Kind.QUEUE_GET: 1,
        Kind.QUEUE_DELETE: 1,
    }
    assert operations.depth == 4


class _Answer(AsyncHTTPPolicy[Any, Any]):
    """Stands in for the service."""

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        return PipelineResponse(request.http_request, None, request.context)


@pytest.mark.parametrize(
    ("service", "method", "url", "kind"),
    [
        ("table", "POST", "https://a/Tables", Kind.MAKE),
        ("queue", "GET", "https://a/q?comp=metadata", Kind.QUEUE_LENGTH),
        ("queue", "PUT", "https://a/q", Kind.MAKE),
        ("blob", "PUT", "https://a/c/p", Kind.BLOB_WRITE),
        ("blob", "PUT", "https://a/c/p?comp=blocklist", Kind.BLOB_WRITE),
        ("blob", "HEAD", "https://a/c/p", Kind.BLOB_READ),
        ("blob", "GET", "https://a/c?restype=container&comp=list", Kind.BLOB_READ),
        ("blob", "PUT", "https://a/c?restype=container", Kind.MAKE),
    ],
)
async def test_kinds_of_http_requests(service: str, method: str, url: str, kind: Kind) -> None:
    pipeline: AsyncPipeline[Any, Any] = AsyncPipeline(None, [CountingPolicy(service), _Answer()])  # type: ignore[arg-type]  # nothing is sent
    with counting() as operations:
        await pipeline.run(HttpRequest(method, url))
    assert operations.counts == {kind: 1}
