"""Queue functions on a real Azurite: delivery, failures, poison, lost hosts, leases, concurrency."""

import asyncio
import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueMessage
from azure.storage.queue.aio import QueueClient, QueueServiceClient

from tests.local.host_process import running_host, wait_until
from tools.local.azurite import Azurite
from tools.local.host.config import QueueOptions
from tools.local.host.functions import IndexedFunction, QueueTrigger
from tools.local.host.invocation import Invoker
from tools.local.host.queues import QueueListener


@pytest.fixture
async def service(azurite: Azurite) -> AsyncIterator[QueueServiceClient]:
    """The queue service of the test's Azurite."""
    async with QueueServiceClient.from_connection_string(azurite.connection_string) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A queue of the test's own."""
    return f"q-{uuid.uuid4().hex[:12]}"


def encoded(order: dict[str, Any]) -> str:
    """A message's text."""
    return base64.b64encode(json.dumps(order).encode()).decode()


async def eventually(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait until the condition is true; fails with `what` otherwise."""
    give_up = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < give_up, f"not within 30 s: {what}"
        await asyncio.sleep(0.02)


async def count(queue: QueueClient) -> int:
    """How many messages a queue holds, hidden ones included."""
    try:
        return (await queue.get_queue_properties()).approximate_message_count or 0
    except ResourceNotFoundError:
        return 0


async def put(service: QueueServiceClient, queue: str, *texts: str) -> None:
    """Put messages, once the host has made the queue."""
    client = service.get_queue_client(queue)

    async def exists() -> bool:
        try:
            await client.get_queue_properties()
        except ResourceNotFoundError:
            return False
        return True

    await eventually(exists, "the host makes its queues")
    for text in texts:
        await client.send_message(text)


async def test_a_message_is_given_to_its_function_and_deleted(
    azurite: Azurite, service: QueueServiceClient, tmp_path: Path
) -> None:
    with running_host(azurite, tmp_path) as host:
        await put(service, host.queue, encoded({"number": 1}))
        await put(service, f"{host.queue}-sync", encoded({"number": 2}))
        await asyncio.to_thread(wait_until, lambda: host.seen(function="work", done=True), "work")
        await asyncio.to_thread(wait_until, lambda: host.seen(function="work_in_thread", done=True), "work_in_thread")

        async def are_empty() -> bool:
            queues = (host.queue, f"{host.queue}-sync")
            return [await count(service.get_queue_client(queue)) for queue in queues] == [0, 0]

        await eventually(are_empty, "deleted")
        (note,) = host.seen(function="work", count=1)
        assert note["order"] == {"number": 1}


async def test_bad_messages_go_to_the_poison_queue_and_do_not_stop_their_batch(
    azurite: Azurite, service: QueueServiceClient, tmp_path: Path, name: str
) -> None:
    await service.create_queue(name)
    good = [encoded({"number": number}) for number in range(6)]
    failing, garbled = encoded({"fail": True}), "*** not base64 ***"
    await put(service, name, *good[:3], failing, garbled, *good[3:])
    poison = service.get_queue_client(f"{name}-poison")
    with running_host(azurite, tmp_path, queue=name) as host:

        async def all_settled() -> bool:
            return await count(service.get_queue_client(name)) == 0 and await count(poison) == 2

        await eventually(all_settled, "six done, two poisoned")
        assert len(host.seen(function="work", done=True)) == 6
        attempts = [note["count"] for note in host.seen(function="work", order={"fail": True})]
        assert attempts == [1, 2, 3], "maxDequeueCount of the sample app"
    texts = {message.content async for message in poison.receive_messages()}
    assert texts == {failing, garbled}


@pytest.mark.large
async def test_a_message_of_a_killed_host_comes_again_when_its_lease_ends(
    azurite: Azurite, service: QueueServiceClient, tmp_path: Path, name: str
) -> None:
    with running_host(azurite, tmp_path, "--take-visibility", "2", queue=name) as first:
        await put(service, name, encoded({"wait": 1.5}))
        await asyncio.to_thread(wait_until, lambda: first.seen(count=1), "taken")
        first.child.kill()
        assert not first.seen(done=True)
    with running_host(azurite, tmp_path, "--take-visibility", "2", queue=name) as second:
        await asyncio.to_thread(wait_until, lambda: second.seen(done=True), "done by the other host")
        attempts = second.seen(order={"wait": 1.5})
        assert [attempt["count"] for attempt in attempts] == [1, 2]
        assert len({attempt["pid"] for attempt in attempts}) == 2


@pytest.mark.large
async def test_a_stopped_host_lets_its_functions_end(
    azurite: Azurite, service: QueueServiceClient, tmp_path: Path, name: str
) -> None:
    with running_host(azurite, tmp_path, queue=name) as host:
        await put(service, name, encoded({"wait": 1}))
        await asyncio.to_thread(wait_until, lambda: host.seen(count=1), "taken")
        host.child.terminate()
        assert await asyncio.to_thread(host.child.wait, 20) == 0
        assert host.seen(done=True)
        assert await count(service.get_queue_client(name)) == 0


async def test_a_host_with_too_little_grace_leaves_the_message_to_its_lease(
    azurite: Azurite, service: QueueServiceClient, tmp_path: Path, name: str
) -> None:
    with running_host(azurite, tmp_path, "--grace", "0.2", queue=name) as host:
        await put(service, name, encoded({"wait": 600}))
        await asyncio.to_thread(wait_until, lambda: host.seen(count=1), "taken")
        host.child.terminate()
        assert await asyncio.to_thread(host.child.wait, 60) == 0, "it does not wait for the function"
        assert not host.seen(done=True)
        assert await count(service.get_queue_client(name)) == 1


class Bench:
    """A listener in this process, whose function is the test's own."""

    def __init__(self, service: QueueServiceClient, queue: str, **options: Any) -> None:
        self.queue = service.get_queue_client(queue)
        self.poison = service.get_queue_client(f"{queue}-poison")
        self.received: list[func.QueueMessage] = []
        self.running = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False
        function = IndexedFunction(
            name="bench",
            call=self._call,
            is_async=True,
            directory="",
            raw_bindings=(),
            trigger=QueueTrigger(queue=queue, connection="", binary=False),
            parameter="message",
            wants_text=False,
            wants_context=False,
            has_return=False,
        )
        take_visibility = options.pop("take_visibility", 600)
        self.invoker = Invoker(timeout=None)
        self.listener = QueueListener(
            function,
            service,
            queue,
            QueueOptions(**{"max_polling_interval": 0.1, **options}),
            self.invoker,
            take_visibility=take_visibility,
            jitter=lambda: 0.5,
        )

    async def _call(self, message: func.QueueMessage) -> None:
        self.received.append(message)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        if self.failing:
            raise RuntimeError("meant to fail")

    async def __aenter__(self) -> "Bench":
        self.task = asyncio.create_task(self.listener.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.listener.stop(10)
        await self.task
        self.invoker.close()

    async def settled(self, left: int = 0) -> None:
        """Wait until the queue holds no more than so many messages."""

        async def is_settled() -> bool:
            return await count(self.queue) <= left

        await eventually(is_settled, "settled")

    async def started(self, number: int) -> None:
        """Wait until so many messages have been received."""

        async def are_started() -> bool:
            return len(self.received) >= number

        await eventually(are_started, "started")


async def test_the_function_sees_what_the_queue_service_says(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, name) as bench:
        await put(service, name)
        sent = await bench.queue.send_message(encoded({"a": "ä"}), time_to_live=-1)
        await bench.settled()
    (message,) = bench.received
    assert message.id == sent.id
    assert message.get_json() == {"a": "ä"}
    assert message.dequeue_count == 1
    assert message.insertion_time == sent.inserted_on
    assert message.expiration_time is not None
    assert message.expiration_time.year == 9999
    assert message.time_next_visible is not None
    assert sent.inserted_on is not None
    assert (message.time_next_visible - sent.inserted_on).total_seconds() >= 600
    assert message.pop_receipt


async def test_texts_may_go_without_encoding(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, name, message_encoding="none") as bench:
        await put(service, name, '{"plain": 1}', "")
        await bench.settled()
    assert sorted(message.get_body() for message in bench.received) == [b"", b'{"plain": 1}']


async def test_no_more_run_at_once_than_a_batch_and_the_threshold(service: QueueServiceClient, name: str) -> None:
    await service.create_queue(name)  # before the first look: one that found three would wait for one of them to end
    await put(service, name, *[encoded({"number": number}) for number in range(20)])
    async with Bench(service, name, batch_size=4, new_batch_threshold=2) as bench:
        bench.gate.clear()
        await bench.started(4)
        bench.gate.set()
        await bench.settled()
    assert len(bench.received) == 20
    assert 4 <= bench.most <= 6


async def test_a_batch_is_fetched_again_as_soon_as_there_is_room(service: QueueServiceClient, name: str) -> None:
    await service.create_queue(name)
    await put(service, name, *[encoded({"number": number}) for number in range(6)])
    async with Bench(service, name, batch_size=2, new_batch_threshold=2) as bench:
        bench.gate.clear()
        await bench.started(4)
        bench.gate.set()
        await bench.settled()
    assert len(bench.received) == 6
    assert bench.most == 4


async def test_a_failed_message_is_hidden_for_visibility_timeout(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, name, visibility_timeout=300) as bench:
        bench.failing = True
        await put(service, name, encoded({}))
        await bench.started(1)
        await asyncio.sleep(0.4)
    assert len(bench.received) == 1, "not again at once"
    assert [message async for message in bench.queue.receive_messages()] == []
    assert await count(bench.queue) == 1


@pytest.mark.large
async def test_a_lease_is_renewed_while_the_function_runs(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, name, take_visibility=2) as bench, Bench(service, name, take_visibility=2) as other:
        bench.gate.clear()
        other.gate.clear()
        await put(service, name, encoded({}))
        give_up = time.monotonic() + 3.5
        while time.monotonic() < give_up:
            assert len(bench.received) + len(other.received) <= 1, "the lease was lost"
            await asyncio.sleep(0.05)
        bench.gate.set()
        other.gate.set()
        await bench.settled()
    assert len(bench.received) + len(other.received) == 1


async def test_a_message_that_its_function_has_moved_is_left_alone(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, name) as bench:
        bench.gate.clear()
        await put(service, name, encoded({}), encoded({}))
        await bench.started(2)
        moved, deleted = bench.received
        await bench.queue.update_message(str(moved.id), moved.pop_receipt, visibility_timeout=500)
        await bench.queue.delete_message(str(deleted.id), deleted.pop_receipt)
        bench.gate.set()
        await bench.settled(left=1)
    assert await count(bench.queue) == 1
    assert len(bench.received) == 2


async def test_a_poison_queue_has_no_poison_queue(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, f"{name}-poison", max_dequeue_count=1) as bench:
        bench.failing = True
        await put(service, f"{name}-poison", encoded({}))
        await bench.started(1)
    assert await count(bench.queue) == 1, "its lease delays it"
    assert await count(bench.poison) == 0


async def test_a_message_taken_too_often_is_poison_before_its_function_runs(
    service: QueueServiceClient, name: str
) -> None:
    queue = await service.create_queue(name)
    await queue.send_message(encoded({}))
    for _ in range(2):
        taken = await queue.receive_message(visibility_timeout=60)
        assert isinstance(taken, QueueMessage)
        await queue.update_message(taken.id, taken.pop_receipt, visibility_timeout=0)
    async with Bench(service, name, max_dequeue_count=2) as bench:
        await bench.settled()
    assert bench.received == []
    assert await count(bench.poison) == 1


async def test_a_queue_that_was_deleted_is_made_again(service: QueueServiceClient, name: str) -> None:
    async with Bench(service, name) as bench:
        await put(service, name, encoded({"number": 1}))
        await bench.started(1)
        await bench.settled()
        await service.delete_queue(name)
        await put(service, name, encoded({"number": 2}))
        await bench.started(2)


@pytest.mark.large
async def test_a_storage_that_is_not_there_is_asked_again(tmp_path: Path, name: str) -> None:
    with Azurite.start(in_memory=True) as gone:
        connection_string, ports = gone.connection_string, gone.ports
    async with (
        QueueServiceClient.from_connection_string(connection_string, retry_total=0, connection_timeout=1) as service,
        Bench(service, name) as bench,
    ):
        await asyncio.sleep(0.3)
        assert not bench.task.done()
        with Azurite.start(in_memory=True, ports=ports):
            await put(service, name, encoded({}))
            await bench.started(1)
            await bench.settled()
