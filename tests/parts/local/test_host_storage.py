"""What storage does to a host, in virtual time: each row is an experiment that was made with Microsoft's host.

The names are those of docs/functions-host.md.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from azure.functions.meta import Datum

from tests.parts.local.storage_stand_in import CONNECTION, CUT, NEVER, Fault, Storage
from tests.parts.twin import Simulation
from tools.local.host.blobs import TimerBlobs
from tools.local.host.config import QueueOptions
from tools.local.host.connections import Connections
from tools.local.host.context import TraceContext
from tools.local.host.functions import IndexedFunction, QueueTrigger, TimerTrigger, Trigger
from tools.local.host.invocation import InvocationFailed
from tools.local.host.ncrontab import parse_schedule
from tools.local.host.queues import QueueListener
from tools.local.host.timers import TimerListener
from tools.local.host.times import Times

SIX_TRIES = 24.8
"""Seconds from the first to the last of six tries: the sum of the pauses between them."""
TIMES = Times()


def function(trigger: Trigger) -> IndexedFunction:
    """Returns a function with this trigger, which is not called itself."""
    return IndexedFunction(
        name="f",
        call=print,
        is_async=True,
        directory="",
        raw_bindings=(),
        trigger=trigger,
        parameter="value",
        wants_text=False,
        wants_context=False,
        has_return=False,
    )


@dataclass
class World:
    """Virtual time, one storage account, and what hosts on it have done."""

    simulation: Simulation = field(default_factory=lambda: Simulation.scripted([]))
    takes: float = 0.0
    """Seconds that a function takes."""
    fails: bool = False

    def __post_init__(self) -> None:
        self.storage = Storage(self.simulation.clock)
        self.begun: list[tuple[float, Any]] = []
        """When a function was begun, and with what: a message's bytes and its deliveries, or whether it is past due."""
        self.ended: list[float] = []
        self.most = self._running = 0
        self.stops: list[tuple[float, str]] = []
        """When a host was told to end, and why."""
        self._connections = Connections({"X": CONNECTION}, TIMES, self.storage.transport)

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.simulation.clock.elapsed

    async def invoke(
        self,
        function: IndexedFunction,
        payload: Datum,
        metadata: Mapping[str, Datum] | None = None,
        trace: TraceContext | None = None,
    ) -> Datum | None:
        """Notes a run of a function, in place of the app's process."""
        count = int(metadata["DequeueCount"].value) if metadata else None
        self.begun.append(
            (round(self.now, 1), (payload.value, count) if metadata else '"IsPastDue": true' in payload.value)
        )
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self._running -= 1
        self.ended.append(self.now)
        if self.fails:
            raise InvocationFailed
        return None

    def queue_listener(self, *, binary: bool = True, queue: str = "q", **options: Any) -> QueueListener:
        """Returns the queue listener of one host. The queue exists."""
        self.storage.queues.setdefault(queue, [])
        return QueueListener(
            function(QueueTrigger(queue=queue, connection="X", binary=binary)),
            self._connections.queue_service("X", "f"),
            queue,
            QueueOptions(**{"max_polling_interval": 2.0, "visibility_timeout": 10, **options}),
            self,
            take=TIMES.take,
            jitter=lambda: 0.5,
            stop=self._stop,
        )

    def timer_listener(self, **trigger: Any) -> TimerListener:
        """Returns the listener of one host to a timer that is due every minute."""
        schedule = "0 * * * * *"
        merged = {"schedule": schedule, "run_on_startup": False, "use_monitor": True, **trigger}
        return TimerListener(
            function(TimerTrigger(**merged)),
            parse_schedule(schedule),
            self,
            TimerBlobs(self._connections.blob_service("X", "f"), "host"),
            lease=TIMES.lease,
            jitter=lambda: 0.5,
            stop=self._stop,
            now=self.simulation.clock.exact,
        )

    def _stop(self, why: str) -> None:
        self.stops.append((round(self.now, 1), why))

    def put(self, queue: str = "q", count: int = 1) -> None:
        """Puts messages as the app does."""
        for _ in range(count):
            self.storage.put(queue, base64.b64encode(b"{}").decode())

    def run(
        self, *listeners: QueueListener | TimerListener, until: float, at: Mapping[float, Callable[[], Any]] = {}
    ) -> None:
        """Lets these listeners run until a time; at the times of `at`, something is done."""

        async def scenario() -> None:
            self._tasks = {each: asyncio.create_task(each.run()) for each in listeners}
            for moment, act in sorted(at.items()):
                await asyncio.sleep(moment - self.now)
                await asyncio.gather(*[done for done in [act()] if isinstance(done, Coroutine)])
            await asyncio.sleep(until - self.now)
            for each in listeners:
                await self.end(each)

        self.simulation.run(scenario())

    async def end(self, listener: QueueListener | TimerListener, *, release: bool = False) -> None:
        """Ends the listener of a host: in order if `release`, so that it releases the lock, else abruptly."""
        task = self._tasks[listener]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if release and isinstance(listener, TimerListener):
            await listener.release()

    def asked(self, *kinds: str) -> list[tuple[float, str]]:
        """Returns the requests of these kinds, and when they came."""
        return [each for each in self.storage.asked if each[1] in kinds]


REFUSED = [(403, "AuthorizationFailure"), (401, "x"), (400, "x"), (409, "QueueDisabled")]
FAULTS: list[tuple[str, str, tuple[int, str] | str, float | None]] = [
    *(("fault-get-403", "get", answer, 0.0) for answer in REFUSED),
    ("fault-get-404", "get", (404, "QueueNotFound"), None),
    ("fault-get-404", "get", (409, "QueueBeingDeleted"), None),
    ("fault-get-5xx", "get", (500, "InternalError"), None),
    ("fault-get-5xx", "get", (503, "ServerBusy"), None),
    ("fault-get-429", "get", (429, "x"), SIX_TRIES),
    ("fault-get-cut", "get", CUT, SIX_TRIES),
    ("fault-get-delay", "get", NEVER, None),
    ("fault-delete-403", "delete", (403, "x"), 0.0),
    ("fault-delete-gone", "delete", (404, "MessageNotFound"), None),
    ("fault-delete-gone", "delete", (404, "QueueNotFound"), None),
    ("fault-delete-gone", "delete", (400, "PopReceiptMismatch"), None),
    ("fault-delete-delay", "delete", NEVER, None),
    ("fault-delete-5xx", "delete", (500, "x"), SIX_TRIES),
    ("fault-delete-5xx", "delete", CUT, SIX_TRIES),
    ("fault-update", "update", (403, "x"), 0.0),
    ("fault-update", "update", (404, "MessageNotFound"), None),
    ("fault-update", "update", (500, "x"), SIX_TRIES),
    ("fault-update", "update", CUT, SIX_TRIES),
    ("fault-poison", "poison put", (403, "x"), 0.0),
    ("fault-poison", "poison put", (500, "x"), SIX_TRIES),
    ("fault-metadata", "metadata", (403, "x"), None),
    ("fault-whole-queue-403", "*", (403, "x"), 0.0),
    ("start-403", "metadata", (403, "x"), 0.0),
    ("start-refused", "metadata", CUT, SIX_TRIES),
    ("start-503", "metadata", (503, "x"), None),
]


@pytest.mark.parametrize(("name", "kind", "answer", "stops"), FAULTS)
def test_a_fault_of_the_queue_stops_the_host_or_not(
    name: str, kind: str, answer: tuple[int, str] | str, stops: float | None
) -> None:
    """Storage fails for 40 seconds, from second 10 on or from the start. Messages come before and after the beginning
    of the fault, and each kind of fault stops the host or does not."""
    world = World(takes=5.0, fails=kind in ("update", "poison put"))
    begin = 0.0 if name.startswith("start") else 10.0
    world.storage.faults = [Fault(kind, answer, begin, 50.0)]
    most = 1 if kind == "poison put" else 3
    listener = world.queue_listener(max_dequeue_count=most)
    world.run(listener, until=260, at={begin: world.put, 150: world.put})
    if stops is None:
        assert not world.stops
        assert max(at for at, _ in world.begun) >= 150, "it goes on"
    else:
        first = next(at for at, asked in world.storage.asked if at >= begin and kind in (asked, "*"))
        assert [at for at, _ in world.stops][:1] == [pytest.approx(first + stops, abs=0.2)]


@pytest.mark.parametrize("seconds", [12, 24])
def test_a_short_loss_of_the_connection_is_borne(seconds: int) -> None:
    """A short loss of the connection to storage stops no host; one of six tries succeeds (fault-get-cut)."""
    world = World()
    world.storage.faults = [Fault("get", CUT, 10.0, 10.0 + seconds)]
    world.run(world.queue_listener(), until=60, at={12: world.put})
    assert not world.stops
    assert 10 + seconds < world.begun[0][0] < 10 + seconds + 13


def test_a_request_that_is_never_answered_is_repeated_after_a_hundred_seconds() -> None:
    """A request that is never answered is repeated after a hundred seconds (experiment fault-get-delay)."""
    world = World()
    world.storage.faults = [Fault("get", NEVER, 10.0, 40.0)]
    world.run(world.queue_listener(), until=200, at={12: world.put})
    assert 110 < world.begun[0][0] < 113


def test_an_idle_queue_is_looked_at_less_and_less() -> None:
    """The pauses between looks into an idle queue grow, until something is found (queue-idle, queue-backoff)."""
    world = World()
    world.run(world.queue_listener(), until=20, at={12: world.put})
    gaps = [round(later - earlier, 1) for earlier, later in pairwise(world.storage.times("get"))]
    assert gaps[:9] == [0.1, 0.2, 0.3, 0.5, 0.9, 1.7, 2.0, 2.0, 2.0]
    assert gaps[-4:] != [2.0] * 4
    assert {kind for _, kind in world.storage.asked} == {"metadata", "get", "delete"}


def test_a_queue_that_is_missing_is_waited_for_and_never_created() -> None:
    """A host waits for a queue that is missing, and never creates it (experiment queue-missing)."""
    world = World()
    listener = world.queue_listener()
    del world.storage.queues["q"]
    world.run(listener, until=70, at={60: world.put})
    assert {kind for at, kind in world.storage.asked if at < 60} == {"metadata"}
    assert 60 <= world.begun[0][0] <= 62


@pytest.mark.parametrize("takes", [6.0, 700.0])
def test_a_message_is_hidden_and_its_lease_renewed_at_half_time(takes: float) -> None:
    """A message is hidden when it is taken, and its lease is renewed at half time (experiment queue-renewal)."""
    world = World(takes=takes)
    world.put()
    world.run(world.queue_listener(), until=takes + 10)
    renewals = [at for at in (300.0, 600.0) if at < takes]
    assert world.asked("update", "delete") == [*((at, "update") for at in renewals), (takes, "delete")]
    assert len(world.begun) == 1


@pytest.mark.parametrize(("answer", "next_at"), [((503, "x"), 474.8), ((404, "MessageNotFound"), None)])
def test_a_renewal_that_fails_is_repeated_unless_the_message_is_gone(
    answer: tuple[int, str], next_at: float | None
) -> None:
    world = World(takes=500.0)
    world.storage.faults = [Fault("update", answer, 299.0, 330.0)]
    world.put()
    world.run(world.queue_listener(), until=510)
    assert not world.stops
    assert [at for at in world.storage.times("update") if at > 330] == ([next_at] if next_at else [])


@pytest.mark.parametrize(("batch", "threshold"), [(16, 8), (4, 2), (2, 2)])
def test_no_more_run_at_once_than_a_batch_and_the_threshold(batch: int, threshold: int) -> None:
    """No more messages run at once than a batch and the threshold. Messages are fetched again as soon as no more than
    the threshold run (experiment queue-parallel)."""
    world = World(takes=6.0)
    world.put(count=batch)
    listener = world.queue_listener(batch_size=batch, new_batch_threshold=threshold)
    world.run(listener, until=60, at={1: world.put, 2: lambda: world.put(count=3 * batch)})
    assert batch <= world.most <= batch + threshold
    assert len(world.ended) == 4 * batch + 1


def test_a_message_whose_function_fails_comes_again_and_is_poison_in_the_end() -> None:
    """A message whose function fails is hidden for visibilityTimeout. At its last try it is moved to a poison queue,
    which is made if it is missing (experiment queue-raise)."""
    world = World(fails=True)
    world.put()
    world.run(world.queue_listener(max_dequeue_count=3), until=60)
    assert [count for _, (_, count) in world.begun] == [1, 2, 3]
    assert [kind for _, kind in world.storage.asked if kind not in ("metadata", "get")] == [
        *("update", "update", "poison put", "poison create", "poison put", "delete")
    ]
    assert len(world.storage.queues["q-poison"]) == 1


@pytest.mark.parametrize(
    ("text", "binary", "count", "poisoned"),
    [
        ("*** not base64 ***", True, 0, True),
        ("{}", True, 0, True),
        ("", True, 1, False),
        (base64.b64encode(b"\xef\xbb\xbf\0" + b"x" * 48_000).decode(), False, 1, False),
        (base64.b64encode(b"\xff\xfe{abc\x80").decode(), True, 1, False),
        (base64.b64encode(b"\xff\xfe{abc\x80").decode(), False, 0, True),
    ],
)
def test_bad_messages_go_to_the_poison_queue(text: str, binary: bool, count: int, poisoned: bool) -> None:
    """A message that is not base64 is moved to the poison queue at once (queue-not-base64). For one that is not UTF-8,
    a function that takes text is not called, and all tries count (queue-utf8). Every text arrives (queue-sizes)."""
    world = World()
    world.storage.put("q", text)
    world.run(world.queue_listener(binary=binary), until=100)
    assert len(world.begun) == count
    assert [each.text for each in world.storage.queues.get("q-poison", [])] == [text] * poisoned
    assert len(world.storage.times("update")) == (4 if poisoned and text.startswith("//") else 0)


def test_a_message_taken_too_often_is_poison_before_its_function_runs() -> None:
    world = World()
    world.put()
    world.storage.queues["q"][0].count = 5
    world.run(world.queue_listener(), until=5)
    assert not world.begun
    assert len(world.storage.queues["q-poison"]) == 1


def test_a_poison_queue_has_no_poison_queue() -> None:
    world = World(fails=True)
    world.put(queue="q-poison")
    world.run(world.queue_listener(queue="q-poison"), until=700)
    assert [at for at, _ in world.begun] == [0.0, pytest.approx(600, abs=3)], "its lease delays it"


def test_a_message_that_its_function_has_moved_is_left_alone() -> None:
    world = World(takes=5.0)
    world.put()
    world.run(world.queue_listener(), until=20, at={2: lambda: setattr(world.storage.queues["q"][0], "receipt", "new")})
    assert not world.stops
    assert len(world.storage.queues["q"]) == 1


LOCK = [
    ("blob-403", (403, "AuthorizationFailure"), 0.0),
    ("blob-403", (409, "LeaseIdMismatchWithLeaseOperation"), 0.0),
    ("blob-403", (404, "BlobNotFound"), 0.0),
    ("blob-503", (503, "ServerBusy"), None),
    ("blob-refused", CUT, SIX_TRIES),
]


@pytest.mark.parametrize(("name", "answer", "stops"), LOCK)
def test_a_refused_renewal_of_a_timers_lock_stops_the_host(
    name: str, answer: tuple[int, str] | str, stops: float | None
) -> None:
    """The host stops if the renewal of a timer's lock is refused, as another host may have it (timer-frozen). The lock
    is renewed every 30 s. Only 5xx is borne: the timer goes on even when the lock has ended."""
    world = World()
    world.storage.faults = [Fault("renew", answer, 65.0, 215.0)]
    world.run(world.timer_listener(), until=300)
    assert world.stops == [] if stops is None else [at for at, _ in world.stops] == [90 + stops]
    assert [at for at, _ in world.begun] == [60, 120, 180, 240, 300][: len(world.begun)]


def test_one_of_two_hosts_runs_a_timer() -> None:
    """Of two hosts only one runs a timer (experiment timer-two-hosts)."""
    world = World()
    world.run(world.timer_listener(), world.timer_listener(), until=200)
    assert [at for at, _ in world.begun] == [60, 120, 180]


@pytest.mark.parametrize(("release", "second"), [(True, (120, False)), (False, (144.8, True))])
def test_another_host_takes_the_lock_over(release: bool, second: tuple[float, bool]) -> None:
    """Another host takes over a released lock at its next look, within 60 s, and the lock of a host that died when the
    lease has ended. An occurrence that was missed meanwhile is made up for once, as past due (experiments
    timer-handover, timer-takeover)."""
    world = World()
    first, other = world.timer_listener(), world.timer_listener()
    world.storage.faults = [Fault("lock head", (503, "x"), 0.0, 20.0)]  # the hosts look at different times
    world.run(first, other, until=190, at={75: lambda: world.end(first, release=release)})
    assert world.begun == [(60, False), second, (180, False)]


@pytest.mark.parametrize(("pause", "expected"), [(75, [(175, True), (180, False)]), (10, [(120, False), (180, False)])])
def test_an_occurrence_that_was_missed_is_run_at_the_next_start(pause: int, expected: list[tuple[int, bool]]) -> None:
    """A missed occurrence is run once at the next start, before the port opens (experiment timer-missed)."""
    world = World()
    first = world.timer_listener()
    world.run(first, until=100, at={99: lambda: world.end(first, release=True)})
    world.run(until=100 + pause)
    world.run(world.timer_listener(), until=185)
    assert world.begun == [(60, False), *expected]


def test_a_run_that_takes_longer_than_its_period_is_followed_at_once_and_never_past_due() -> None:
    """A run longer than its period is followed at once by one that is not past due (experiment timer-long)."""
    world = World(takes=90.0)
    world.run(world.timer_listener(), until=400)
    assert world.begun == [(60, False), (150, False), (240, False), (330, False)]
    assert world.most == 1


def test_a_timer_may_run_at_the_start_as_well_and_keeps_its_schedule_when_it_fails() -> None:
    world = World(fails=True)
    world.run(world.timer_listener(run_on_startup=True), until=130)
    assert world.begun == [(0, False), (60, False), (120, False)]


@pytest.mark.parametrize(("answer", "opens"), [((403, "x"), 0.0), (CUT, SIX_TRIES)])
def test_blobs_that_are_not_there_at_the_start_delay_the_port_and_timers_alone(
    answer: tuple[int, str] | str, opens: float
) -> None:
    """Blobs that cannot be had at the start delay the opening of the port and the timers, but nothing else: the
    listener is started again, after growing pauses (experiment start-blob)."""
    world = World()
    world.storage.faults = [Fault("lock head", answer, 0.0, 60.0)]
    listener, opened = world.timer_listener(), list[float]()

    async def port() -> None:
        await listener.tried.wait()
        opened.append(round(world.now, 1))

    world.run(listener, until=260, at={0.0: lambda: asyncio.ensure_future(port()) and None})
    assert opened == [opens]
    assert not world.stops
    assert 60 <= world.begun[0][0] <= 180


def test_a_timer_that_is_not_monitored_stores_nothing() -> None:
    world = World()
    world.run(world.timer_listener(use_monitor=False), until=130)
    assert len(world.begun) == 2
    assert not world.asked("status put", "status get", "status head")
