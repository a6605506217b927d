"""Workers hang up while they wait, beside one that works: no task may be lost to them until takenUntil. A worker that
hangs up before its call has had its first look may get a task (contract 5.1): so here they hang up when they count as
waiting, which they do from then on. tests/promises/simulator/test_dead_waits.py has the rule."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.conftest import start
from tests.promises.host.service import Running, Service, eventually
from tests.promises.host.wire import API, JSON, signature

PLACES = {"one process": ((0,), (0,)), "two processes": ((0, 1), (0, 1)), "apart": ((0,), (1,))}
"""By case, the hosts that the dead workers have called, and those that the live one calls in turn."""


@dataclass(frozen=True)
class Case:
    """A case: workers wait, some hang up, and after `age` seconds of their waits there are tasks."""

    place: str
    is_live_first: bool
    age: float
    dead: int = 6
    tasks: int = 6

    def __str__(self) -> str:
        order = "called before" if self.is_live_first else "called after"
        return f"{self.place}, {self.dead} dead, the live one {order} them, tasks after {self.age:g} s"


@pytest.fixture(scope="module")
def deployed() -> Iterator[Running]:
    """A stack of two hosts on which calls wait as long as in a deployment."""
    yield from start({"LONG_POLL_SECONDS": "20", "MAX_LONG_POLLS": "1000", "IDLE_POLL_INTERVAL_SECONDS": "2"})


class Play:
    """One case, in a task queue of its own."""

    def __init__(self, running: Running, case: Case) -> None:
        self._service, self._case = Service(running), case
        self._ports = running.stack.options.ports.hosts
        self._host = str(urlsplit(running.deployment.root_url).hostname)
        self._pool = quote(self._service.pool, safe="")
        self._taken: list[str] = []
        self._is_over = threading.Event()

    def lost(self) -> int:
        """Plays the case; returns how many tasks went to workers that had hung up."""
        dead, live = PLACES[self._case.place]
        with ThreadPoolExecutor(1) as threads:
            try:
                if self._case.is_live_first:
                    threads.submit(self._work, live)
                    self._until_waiting(1)
                self._hang_up(dead)
                if not self._case.is_live_first:
                    threads.submit(self._work, live)
                time.sleep(self._case.age)
                tasks = {self._service.create() for _ in range(self._case.tasks)}
                eventually(lambda: self._none_is_pending(tasks), 30)
            finally:
                self._is_over.set()
        return len(tasks - set(self._taken))

    def _work(self, hosts: Sequence[int]) -> None:
        calls = 0
        while not self._is_over.is_set() and len(self._taken) < self._case.tasks:
            with closing(self._ask(hosts[calls % len(hosts)], "live")) as connection:
                claims = json.loads(connection.getresponse().read()).get("tasks", [])  # 503: called again at once
            self._taken += [claim["status"]["taskId"] for claim in claims]
            calls += 1

    def _hang_up(self, hosts: Sequence[int]) -> None:
        with ExitStack() as calls:
            for number in range(self._case.dead):
                calls.enter_context(closing(self._ask(hosts[number % len(hosts)], new_slugid())))
            self._until_waiting(self._case.dead + self._case.is_live_first)

    def _until_waiting(self, count: int) -> None:
        eventually(lambda: sum(map(self._waiting, range(len(self._ports)))) == count)

    def _waiting(self, host: int) -> int:
        with closing(self._send(host, "GET", f"{API}/task-queues/{self._pool}/load")) as connection:
            return int(json.loads(connection.getresponse().read())["waitingWorkers"]["claimWork"])

    def _ask(self, host: int, worker_id: str) -> http.client.HTTPConnection:
        body = {"workerGroup": "g", "workerId": worker_id}
        return self._send(host, "POST", f"{API}/claim-work/{self._pool}", body)

    def _send(self, host: int, method: str, target: str, body: Any = None) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self._host, self._ports[host], timeout=60)
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"authorization": signature(self._service, method, target)}
        connection.request(method, target, content, headers | ({"content-type": JSON} if content else {}))
        return connection

    def _none_is_pending(self, tasks: set[str]) -> bool:
        return all(self._service.status(task_id)["state"] != "pending" for task_id in tasks)


def check(running: Running, cases: Sequence[Case]) -> None:
    """Plays all cases at once, and checks that nothing is lost in any."""
    with ThreadPoolExecutor(len(cases)) as threads:
        lost = list(threads.map(lambda case: Play(running, case).lost(), cases))
    print(*(f"{case}: {count} of {case.tasks} lost" for case, count in zip(cases, lost, strict=True)), sep="\n")
    assert not any(lost)


@pytest.mark.large
def test_no_task_is_lost_to_workers_that_hung_up_while_another_waits(deployed: Running) -> None:
    check(deployed, [Case(place, is_first, 1.5) for place in PLACES for is_first in (True, False)])
