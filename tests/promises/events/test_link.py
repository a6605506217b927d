"""Opening a link, with what `shared.queue.events.link` knows of the inside of azure-servicebus: this fails if it
changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from azure.servicebus.aio import ServiceBusClient

from shared.queue.events.link import POLL_SECONDS, Link
from tools.local.service_bus import ServiceBus

TOPIC = "task-pending"
THE_SDKS_PAUSE = 0.05


@pytest.fixture(scope="module")
def bus() -> Iterator[ServiceBus]:
    """Yields a broker for the tests of this module."""
    with ServiceBus.start([TOPIC]) as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Returns a list of the pauses that the SDK makes, in seconds."""
    made: list[float] = []
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def noting(seconds: float) -> None:
        made.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noting)
    return made


async def test_a_link_opens_without_the_pauses_of_the_sdk(bus: ServiceBus, pauses: list[float]) -> None:
    async with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client:
        link = await Link.open(client.get_topic_sender(TOPIC, keep_alive=0))
        await link.close()
    assert THE_SDKS_PAUSE not in pauses
    assert max(pauses, default=0) <= POLL_SECONDS


async def test_the_sdk_still_pauses_while_it_opens_a_sender(bus: ServiceBus, pauses: list[float]) -> None:
    """The SDK still pauses while it opens a sender; if not, `_until_ready` can be removed."""
    async with (
        ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client,
        client.get_topic_sender(TOPIC, keep_alive=0),
    ):
        pass
    assert THE_SDKS_PAUSE in pauses


async def test_sockets_of_links_that_do_not_open_are_closed(bus: ServiceBus) -> None:
    """The sockets of links that do not open are closed by private names of the SDK (`_handler`, `_connection` and
    `_transport`), which forgets them."""
    async with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client:
        with pytest.raises(Exception, match=r"not.*(found|exist)"):
            await Link.open(client.get_topic_sender("no-such-topic", keep_alive=0))
        give_up = asyncio.get_running_loop().time() + 30
        while bus.state()["connections"]:
            assert asyncio.get_running_loop().time() < give_up, "a socket was left open"
            await asyncio.sleep(0.01)
