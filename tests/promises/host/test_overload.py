"""With more calls than a process can answer, they take turns, none is unanswered, and none that was taken is lost."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import pytest
import taskcluster.aio

from shared.base.dates import format_date
from shared.base.ids import new_slugid
from tests.promises.host.conftest import start
from tests.promises.host.service import Running, Service
from tests.promises.host.wire import API, signature

RECOVERY = 5.0
"""Seconds after which everything is normal again."""
ANSWERED = 30.0
"""Seconds within which every call is answered."""


@pytest.fixture(scope="module")
def small_running() -> Iterator[Running]:
    yield from start({"MAX_CONCURRENT_CALLS": "4", "MAX_LONG_POLLS": "4", "LONG_POLL_SECONDS": "20"}, hosts=1)


@pytest.fixture
def small(small_running: Running) -> Service:
    """Returns a stack of one host that takes few calls at a time, so that few clients are too many."""
    return Service(small_running)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Yields a session that opens as many connections as calls are made at a time."""
    async with taskcluster.aio.createSession(connector=aiohttp.TCPConnector(limit=0)) as opened:
        yield opened


def public(service: Service, session: aiohttp.ClientSession, credentials: dict[str, str] | None = None) -> Any:
    """Returns the public asynchronous client, by default as root, with its own retries."""
    options = service.running.deployment.options(credentials or service.running.deployment.root)
    del options["maxRetries"]
    return taskcluster.aio.Queue(options, session=session)


def a_client(service: Service) -> dict[str, str]:
    """Makes a client that may use the queue, and returns its credentials."""
    name = f"overload/{new_slugid()}"
    expires = format_date(datetime.now(UTC) + timedelta(hours=1))
    with service.running.deployment.auth() as auth:
        made = auth.createClient(name, {"expires": expires, "description": "of a test", "scopes": ["queue:*"]})
    return {"clientId": name, "accessToken": made["accessToken"]}


@dataclass
class Crowd:
    """Clients that all call at once, over and over, as root."""

    service: Service
    count: int
    until: float
    successes: int = 0
    """Number of successful calls until which the clients go on after the time, unless one was left unanswered."""
    statuses: Counter[int] = field(default_factory=Counter)
    slowest_of: dict[str, float] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    without_advice: int = 0
    slowest: float = 0.0

    def run(self) -> None:
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, number: int) -> None:
        chance = random.Random(number)
        site = urlsplit(self.service.running.deployment.root_url)
        while time.monotonic() < self.until or self._waits():
            connection = http.client.HTTPConnection(str(site.hostname), site.port, timeout=60)
            begun = time.monotonic()
            try:
                self._call(connection, chance)
            except (OSError, http.client.HTTPException) as error:
                self.unanswered.append(repr(error))
            finally:
                connection.close()
            self.slowest = max(self.slowest, time.monotonic() - begun)

    def _waits(self) -> bool:
        return self.statuses[200] < self.successes and not self.unanswered

    def _call(self, connection: http.client.HTTPConnection, chance: random.Random) -> None:
        if chance.random() < 0.3:
            pool = quote(self.service.pool, safe="")
            self._send(connection, "POST", f"{API}/claim-work/{pool}", {"workerGroup": "g", "workerId": "w"})
            return
        task_id = new_slugid()
        if self._send(connection, "PUT", f"{API}/task/{task_id}", self.service.a_task()) == 200:
            self.created.append(task_id)

    def _send(self, connection: http.client.HTTPConnection, method: str, target: str, body: object) -> int:
        headers = {"content-type": "application/json", "authorization": signature(self.service, method, target)}
        begun = time.monotonic()
        connection.request(method, target, json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        kind = f"{method} {answer.status}"
        self.slowest_of[kind] = max(self.slowest_of.get(kind, 0.0), time.monotonic() - begun)
        self.statuses[answer.status] += 1
        if answer.status == 503:
            self.without_advice += answer.getheader("retry-after") is None
            time.sleep(0.1)  # the advice is longer; a crowd that heeds it is no crowd
        return answer.status


class Pinging(threading.Thread):
    """Calls `ping` again and again."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._site = urlsplit(service.running.deployment.root_url)
        self.over = threading.Event()
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        while not self.over.wait(0.05):
            connection = http.client.HTTPConnection(str(self._site.hostname), self._site.port, timeout=60)
            connection.request("GET", f"{API}/ping")
            self.statuses[connection.getresponse().status] += 1
            connection.close()


def crowded(service: Service, clients: int, seconds: float, *, successes: int = 1) -> Crowd:
    """Runs a crowd of clients for `seconds`, and checks that no call is unanswered or lost, and that pings are
    answered. A busy machine may refuse every client's first call for that long: then the clients go on until some have
    succeeded."""
    pinging = Pinging(service)
    pinging.start()
    crowd = Crowd(service, clients, time.monotonic() + seconds, successes)
    crowd.run()
    pinging.over.set()
    pinging.join()
    assert crowd.unanswered == []
    assert {200} <= crowd.statuses.keys() <= {200, 503}
    assert crowd.without_advice == 0
    slower = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # what else runs on this machine
    assert crowd.slowest < ANSWERED * slower, crowd.slowest_of
    assert pinging.statuses.keys() == {200}
    return crowd


def states(service: Service, task_ids: list[str]) -> set[str]:
    """Returns the states of these tasks, all of which must exist."""
    found = service.statuses(task_ids)
    assert sorted(each["taskId"] for each in found) == sorted(task_ids)
    return {each["state"] for each in found}


def recovered(service: Service, crowd: Crowd) -> None:
    """Checks that calls are answered as before, and that every task that was taken exists."""
    over = time.monotonic()
    while True:
        try:
            crowd.created.append(service.create())
            break
        except Exception:
            assert time.monotonic() - over < RECOVERY
    assert time.monotonic() - over < RECOVERY
    assert states(service, crowd.created) <= {"pending", "running"}


def test_process_refuses_what_is_too_much_and_serves_the_rest(small: Service) -> None:
    """A process refuses what is too much and serves the rest: eighty calls may wait."""
    crowd = crowded(small, clients=130, seconds=1.5)
    assert crowd.slowest_of["PUT 503"]
    recovered(small, crowd)


async def test_forged_names_delay_nobody(small: Service, session: aiohttp.ClientSession) -> None:
    """Forged names delay nobody: calls with them are refused before they wait, whether a client of that name exists or
    not."""
    statuses: Counter[int] = Counter()
    over = asyncio.Event()
    root = small.running.deployment.root

    async def forge(number: int) -> None:
        while not over.is_set():
            named = root["clientId"] if number % 2 else new_slugid()
            header = f'Hawk id="{named}", ts="{int(time.time())}", nonce="{new_slugid()}", mac="{"A" * 43}="'
            target = f"{small.running.deployment.root_url}{API}/task/{new_slugid()}"
            async with session.put(target, json=small.a_task(), headers={"authorization": header}) as answer:
                statuses[answer.status] += 1

    forging = [asyncio.create_task(forge(number)) for number in range(30)]
    queue = public(small, session)
    for _ in range(4):
        await queue.createTask(new_slugid(), small.a_task())
    over.set()
    await asyncio.gather(*forging)
    assert statuses[401] > statuses[503]
    assert statuses.keys() <= {401, 503}


async def test_long_polls_of_one_client_shut_no_other_out(small: Service, session: aiohttp.ClientSession) -> None:
    """Long polls of one client shut no other client out of the four places."""

    def once(credentials: dict[str, str]) -> Any:
        options = small.running.deployment.options(credentials) | {"maxRetries": 0}
        return taskcluster.aio.Queue(options, session=session)

    greedy, other = once(a_client(small)), once(a_client(small))
    idle = f"{small.pool}x"
    polls = [
        asyncio.create_task(greedy.claimWork(idle, {"workerGroup": "g", "workerId": f"w{number}"}))
        for number in range(6)
    ]
    try:
        async with asyncio.timeout(15):
            while sum(poll.done() for poll in polls) < 2:
                await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
            await other.createTask(new_slugid(), small.a_task())
            claims = await other.claimWork(small.pool, {"workerGroup": "g", "workerId": "other"})
        assert len(claims["tasks"]) == 1
    finally:
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
