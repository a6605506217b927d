"""Client processes that load a deployment side by side: what one of them does, and what all of them have seen."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from types import TracebackType
from typing import Any, Self

from shared.base.ids import new_slugid
from tools.bench.load.client import CallFailed, Calls, Claimed, Kind, Target

MOST_FAILURES = 20
"""Number of failures after which a client ends."""
MOST_EMPTY = 2
"""Number of waits that the service has let last to their end without work, after which a client ends."""


@dataclass
class Seen:
    """What one client has seen, or several together. Times are of this machine's monotonic clock."""

    began: float = 0.0
    ended: float = 0.0
    cpu: float = 0.0
    """Seconds of CPU that the clients themselves took."""
    latencies: dict[str, list[float]] = field(default_factory=dict)
    """Seconds that each call took, by the name of the call."""
    failures: list[str] = field(default_factory=list)
    task_ids: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Seconds from the beginning of the first call to the end of the last one."""
        return self.ended - self.began

    def count(self, name: str) -> int:
        """Returns how many calls of this name succeeded."""
        return len(self.latencies.get(name, ()))

    def add(self, other: Seen) -> None:
        """Adds what another client has seen at the same time."""
        self.began = min(self.began or other.began, other.began)
        self.ended = max(self.ended, other.ended)
        self.cpu += other.cpu
        for name, seconds in other.latencies.items():
            self.latencies.setdefault(name, []).extend(seconds)
        self.failures += other.failures
        self.task_ids += other.task_ids


class Clock:
    """Times calls, and notes those that fail."""

    def __init__(self) -> None:
        self.seen = Seen(began=time.monotonic())
        self._cpu = time.process_time()

    def timed(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Makes a call and returns its result; None if it failed."""
        started = time.perf_counter()
        try:
            result = call(*arguments)
        except CallFailed as failure:
            self.seen.failures.append(str(failure))
            return None
        self.seen.latencies.setdefault(name, []).append(time.perf_counter() - started)
        return result

    @property
    def is_hopeless(self) -> bool:
        """Whether so much has failed that the client should end."""
        return len(self.seen.failures) >= MOST_FAILURES

    def stop(self) -> Seen:
        """Returns what was seen up to now."""
        self.seen.ended = time.monotonic()
        self.seen.cpu = time.process_time() - self._cpu
        return self.seen


_calls: Calls
_left: Synchronized[int]


def _begin(target: Target, left: Synchronized[int]) -> None:
    """Prepares a client process: gives it the deployment and the number of tasks that are left."""
    global _calls, _left
    _calls, _left = Calls(target, f"client-{new_slugid()}"), left


def create_for(seconds: float, kind: Kind) -> Seen:
    """Creates tasks for `seconds`."""
    clock, until = Clock(), time.monotonic() + seconds
    while time.monotonic() < until and not clock.is_hopeless:
        if (task_id := clock.timed("createTask", _calls.create, kind)) is not None:
            clock.seen.task_ids.append(task_id)
    return clock.stop()


def create_all(tasks: Sequence[tuple[str, Kind]]) -> Seen:
    """Creates these tasks, in order."""
    clock = Clock()
    for task_id, kind in tasks:
        if clock.is_hopeless:
            break
        if clock.timed("createTask", _calls.create, kind, task_id) is not None:
            clock.seen.task_ids.append(task_id)
    return clock.stop()


def work(task_queue_id: str, *, reclaims: bool = False, artifacts: int = 0) -> Seen:
    """Claims and completes tasks until all clients together have claimed as many as were announced."""
    clock = Clock()
    empty, last = 0, clock.seen.began
    while not clock.is_hopeless and empty < MOST_EMPTY and _take():
        claimed: Claimed | None = clock.timed("claimWork", _calls.claim, task_queue_id)
        if claimed is None:
            _give_back()
            if latencies := clock.seen.latencies.get("claimWork"):
                latencies.pop()  # nothing was there: the wait is no latency
            empty += 1
            continue
        empty = 0
        if reclaims:
            clock.timed("reclaimTask", _calls.reclaim, claimed)
        for number in range(artifacts):
            clock.timed("createArtifact", _calls.artifact, claimed, f"public/{number}.txt")
        clock.timed("reportCompleted", _calls.complete, claimed)
        last = time.monotonic()
    seen = clock.stop()
    seen.ended = last
    return seen


def _take() -> bool:
    """Returns whether a task is left for this client."""
    with _left.get_lock():
        _left.value -= 1
        return _left.value >= 0


def _give_back() -> None:
    with _left.get_lock():
        _left.value += 1


def statuses_for(seconds: float, task_ids: Sequence[str]) -> Seen:
    """Asks for the status of one task after the other for `seconds`."""
    clock, until, number = Clock(), time.monotonic() + seconds, 0
    while time.monotonic() < until and not clock.is_hopeless:
        clock.timed("status", _calls.status, task_ids[number % len(task_ids)])
        number += 1
    return clock.stop()


def wait_for_work(seconds: float, task_queue_id: str) -> Seen:
    """Acts as an idle worker for `seconds`: asks for work that does not come."""
    clock, until = Clock(), time.monotonic() + seconds
    while time.monotonic() < until and not clock.is_hopeless:
        clock.timed("claimWork", _calls.claim, task_queue_id, lambda: time.monotonic() >= until)
    return clock.stop()


class Crowd:
    """Client processes side by side; a context manager that ends them."""

    def __init__(self, target: Target, clients: int) -> None:
        self.clients = clients
        context = multiprocessing.get_context("spawn")
        self._left: Synchronized[int] = context.Value("q", 0)
        self._pool = ProcessPoolExecutor(clients, context, _begin, (target, self._left))

    def all(self, job: Callable[..., Seen], *arguments: Any, **named: Any) -> Seen:
        """Lets every client do the job."""
        return _together([self._pool.submit(job, *arguments, **named) for _ in range(self.clients)])

    def shared(self, job: Callable[..., Seen], items: Sequence[Any]) -> Seen:
        """Lets every client do the job on its share of the items."""
        return _together([self._pool.submit(job, items[at :: self.clients]) for at in range(self.clients)])

    def work(self, task_queue_id: str, count: int, **named: Any) -> Seen:
        """Lets the clients together complete `count` tasks of the queue."""
        with self._left.get_lock():
            self._left.value = count
        return self.all(work, task_queue_id, **named)

    def __enter__(self) -> Self:
        self.all(_warm_up)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _warm_up() -> Seen:
    """Occupies a client for a moment, so that all processes have started before something is measured."""
    time.sleep(0.2)
    return Clock().stop()


def _together(futures: Sequence[Future[Seen]]) -> Seen:
    seen = Seen()
    for future in futures:
        seen.add(future.result())
    return seen


def percentile(seconds: Sequence[float], part: float) -> float:
    """Returns a percentile in milliseconds; 0 if there are no values."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000 if ordered else 0.0
