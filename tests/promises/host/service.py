"""A running service as its clients see it: the PyPI client, whose calls go to all hosts in turn."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

import pytest
import taskcluster
import taskcluster.utils
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterRestFailure

from shared.base.dates import format_date
from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment
from tests.promises.host.events import Events
from tests.promises.host.published import Published
from tools.local.stack import Stack

T = TypeVar("T")

Failure = (TaskclusterRestFailure, TaskclusterAuthFailure)

METADATA = {
    "name": "a task",
    "description": "of a test",
    "owner": "nobody@example.com",
    "source": "https://example.com/",
}


class Spread:
    """Sends each request that the public client makes to the next host, and remembers answers that must not come.

    The client signs for the root URL, which is the first host's; every host knows it by its settings (design 8).
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._root = f":{ports[0]}/"
        self._next = itertools.cycle(f":{port}/" for port in ports)
        self._lock = threading.Lock()
        self._send = taskcluster.utils.makeSingleHttpRequest
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr("taskcluster.utils.makeSingleHttpRequest", self._request)
        self.published = Published(f"http://127.0.0.1:{ports[0]}")
        self.answered: list[tuple[str, int]] = []
        """Endpoints of the queue and the index that were called, and the status of each answer."""
        self.defects: list[str] = []
        """Calls that were answered 500, or not as the service publishes it."""

    def _request(self, method: str, url: str, *rest: Any) -> Any:
        with self._lock:
            host = next(self._next)
        answer = self._send(method, url.replace(self._root, host, 1), *rest)
        if answer.status_code == 500:
            self.defects.append(f"{method} {url}: {answer.text}")
        elif called := self.published.called(method, url):
            self.answered.append((called.name, answer.status_code))
            if problem := self.published.problem(called, answer.status_code, answer.content):
                self.defects.append(f"{method} {url}: {problem}")
        return answer

    def close(self) -> None:
        """Restores the client."""
        self._patch.undo()


@dataclass
class Running:
    """A stack under test with what all tests on it share."""

    stack: Stack
    spread: Spread
    deployment: Deployment

    @classmethod
    def of(cls, stack: Stack) -> Running:
        return cls(stack, Spread(stack.options.ports.hosts), Deployment.of(stack))

    @cached_property
    def events(self) -> Events:
        """Receives every event of the stack; started when it is first asked for."""
        return Events(self.stack.environment["SERVICEBUS_CONNECTION_STRING"])

    def close(self) -> None:
        """Ends what was started for the tests; the stack goes on."""
        if "events" in self.__dict__:
            self.events.close()
        self.spread.close()


@dataclass(frozen=True)
class Refused:
    """An error as the client reports it."""

    status: int
    body: Mapping[str, Any]

    @property
    def code(self) -> str | None:
        return self.body.get("code")

    @property
    def message(self) -> str:
        return str(self.body.get("message"))


@dataclass
class Service:
    """A stack, and a task queue in it that belongs to one test alone."""

    running: Running
    pool: str = field(default_factory=lambda: f"test/p{new_slugid().lower().replace('_', '-')}e")
    """The taskQueueId of the tasks that `a_task` makes."""

    @cached_property
    def queue(self) -> Any:
        """The public client, as root."""
        return self.client(**self.running.deployment.root)

    @cached_property
    def anonymous(self) -> Any:
        """The public client, without credentials."""
        return taskcluster.Queue({"rootUrl": self.running.deployment.root_url})

    @property
    def events(self) -> Events:
        """Everything that was announced."""
        return self.running.events

    def client(self, **credentials: str) -> Any:
        """Returns the public client with these credentials."""
        options = {"rootUrl": self.running.deployment.root_url, "credentials": credentials}
        return taskcluster.Queue(options)

    def objects(self, **credentials: str) -> Any:
        """Returns the public client of the object service, with these credentials."""
        options = {"rootUrl": self.running.deployment.root_url, "credentials": credentials}
        return taskcluster.Object(options)

    @cached_property
    def index(self) -> Any:
        """The public client of the index, as root."""
        deployment = self.running.deployment
        return taskcluster.Index({"rootUrl": deployment.root_url, "credentials": dict(deployment.root)})

    def call(self, method: str, route: str, payload: Mapping[str, Any] | None = None) -> Any:
        """Calls as root a route that today's public client does not know."""
        return self.queue._makeHttpRequest(method, route, payload)

    def with_scopes(self, *scopes: str) -> Any:
        """Returns the public client, as somebody who has these scopes."""
        root = self.running.deployment.root
        now = datetime.now(UTC)
        made = taskcluster.createTemporaryCredentials(
            root["clientId"], root["accessToken"], now, now + timedelta(hours=1), list(scopes)
        )
        return self.client(**{name: _text(value) for name, value in made.items()})

    def a_task(self, **changes: Any) -> dict[str, Any]:
        """Returns a definition that is valid now; `changes` by the contract's names, None leaves a property out."""
        definition = {
            "taskQueueId": self.pool,
            "created": in_future(0),
            "deadline": in_future(3600),
            "payload": {},
            "metadata": METADATA,
            **changes,
        }
        return {name: value for name, value in definition.items() if value is not None}

    def create(self, **changes: Any) -> str:
        """Creates a task; returns its id."""
        task_id = new_slugid()
        self.queue.createTask(task_id, self.a_task(**changes))
        return task_id

    def claim(self, count: int = 1, *, pool: str | None = None, timeout: float = 15) -> list[dict[str, Any]]:
        """Claims `count` tasks as worker g/w, in the order in which they are handed out."""
        claims: list[dict[str, Any]] = []

        def enough() -> bool:
            request = {"workerGroup": "g", "workerId": "w", "tasks": min(count - len(claims), 32)}
            claims.extend(self.queue.claimWork(pool or self.pool, request)["tasks"])
            return len(claims) >= count

        eventually(enough, timeout)
        return claims

    def claimed(self, **changes: Any) -> dict[str, Any]:
        """Creates and claims a task; returns the claim."""
        task_id = self.create(**changes)
        (claim,) = self.claim()
        assert claim["status"]["taskId"] == task_id
        return claim

    def worker(self, claim: Mapping[str, Any]) -> Any:
        """Returns the public client with the credentials that came with a claim."""
        return self.client(**claim["credentials"])

    def completed(self, **changes: Any) -> str:
        """Creates and completes a task; returns its id."""
        claim = self.claimed(**changes)
        task_id = str(claim["status"]["taskId"])
        self.queue.reportCompleted(task_id, claim["runId"])
        return task_id

    def status(self, task_id: str) -> dict[str, Any]:
        """Returns a task's status."""
        found: dict[str, Any] = self.queue.status(task_id)["status"]
        return found

    def statuses(self, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the statuses of those of these tasks that exist, with few calls."""
        found: list[dict[str, Any]] = []

        def take(answer: dict[str, Any]) -> None:
            found.extend(each["status"] for each in answer["statuses"])

        self.queue.statuses(payload={"taskIds": list(task_ids)}, paginationHandler=take)
        return found

    def wait_for(self, task_id: str, state: str, timeout: float = 15) -> dict[str, Any]:
        """Returns a task's status as soon as the task is in that state."""

        def arrived() -> dict[str, Any] | None:
            status = self.status(task_id)
            return status if status["state"] == state else None

        return eventually(arrived, timeout, lambda: f"task {task_id} is {self.status(task_id)}, not {state}")


@contextmanager
def refused(status: int, code: str | None) -> Iterator[list[Refused]]:
    """Checks that the call inside is answered with this status and code; yields a list that has the error then."""
    errors: list[Refused] = []
    with pytest.raises(Failure) as caught:
        yield errors
    failure: Any = caught.value
    errors.append(Refused(failure.status_code, failure.body))
    assert (errors[0].status, errors[0].code) == (status, code), errors[0]


def outcome(call: Callable[[], T]) -> T | Refused:
    """Returns the result of a call, or the error with which it is refused."""
    try:
        return call()
    except Failure as failure:
        return Refused(failure.status_code, failure.body)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Sends calls at the same moment, and returns their outcomes."""
    barrier = threading.Barrier(len(calls))

    def made(call: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return outcome(call)

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(made, calls))


def eventually(condition: Callable[[], T | None], timeout: float = 15, otherwise: Callable[[], str] | None = None) -> T:
    """Waits until the condition is true, and returns its result; fails, saying `otherwise`, when that takes too long.
    It asks less and less often: each look at a task costs 10 ms of CPU."""
    give_up, pause = time.monotonic() + timeout, 0.05
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < give_up, otherwise() if otherwise else "the condition was not met in time"
        time.sleep(pause)
        pause = min(pause * 1.25, 0.3)


def in_future(seconds: float) -> str:
    """Returns a time in the future, as the contract writes it."""
    return format_date(datetime.now(UTC) + timedelta(seconds=seconds))


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
