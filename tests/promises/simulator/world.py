"""A deployment: a storage account with its faults, a virtual clock, processes that call, and the handlers that drain.

The public API of a deployment is represented by its use-cases; each `process` has services of its own, and so caches of
its own. Everything is deterministic: the same script of choices gives the same run.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, TypeVar

from shared.app.assembly import assemble
from shared.app.services import Services
from shared.base.dates import format_date, parse_date
from shared.base.errors import ApiError
from shared.base.settings import Settings
from shared.index.rules import paths_of
from shared.queue.claims.work import Claim
from shared.queue.events.announcer import from_json
from shared.queue.tasks.codec import decode_task, pack_definition
from shared.queue.tasks.definition import Definition
from shared.queue.tasks.due import Postponed
from shared.queue.tasks.internal_messages import (
    CLAIM_QUEUE,
    DEADLINE_QUEUE,
    EVENTS_QUEUE,
    GROUP_QUEUE,
    INTERNAL_QUEUES,
    RESOLVED_QUEUE,
    ClaimBody,
    GroupJobBody,
    ResolvedBody,
)
from shared.queue.tasks.rules import Task, Worker
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Row, StorageUnavailable
from tests.parts.twin import Disorder, MemoryStorage
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Call, Gate, Phase, as_process, chain
from tests.parts.unit.tasks import a_definition
from tests.promises.simulator.account import OpenAccount
from tests.promises.simulator.history import History
from tests.promises.simulator.topics import HANDLER, Topics

T = TypeVar("T")

POOL = "provisioner/pool"
WORKER = Worker(worker_group="group", worker_id="worker")
CLAIM_TIMEOUT = timedelta(minutes=20)
_ABOUT = ("taskId", "runId", "taskGroupId", "put")
_AS_CALLS_PUT_IT = {"taskId", "runId", "put"}
"""Properties of a resolved message that has all of its work left."""
HIDDEN = 600.0
"""Seconds that the Functions host hides a message for while it is handled."""


@cache
def settings(**changes: Any) -> Settings:
    """Returns settings of a deployment whose addresses are not used, with these changes."""
    return Settings.model_validate(
        {
            "taskcluster_root_url": "https://tc.example.com",
            "root_access_token": "root-token-of-the-tests-only-44",
            "message_signing_keys": "signing-key-of-the-tests-only-44",
            "access_token_keys": base64.urlsafe_b64encode(bytes(range(32))).decode(),
            "storage_connection_string": "UseDevelopmentStorage=true",
            "servicebus_connection_string": "Endpoint=sb://localhost",
            "claim_timeout_seconds": CLAIM_TIMEOUT.total_seconds(),
            "long_poll_seconds": 0,
            "max_followed_resolutions": 0,
            **changes,
        }
    )


class World:
    """One deployment on one simulation."""

    clocks: Sequence[float] = ()
    """Seconds by which the clocks of its processes are ahead: of the first one, the second one, and so on, again and
    again. If it is empty, all have the same time."""

    def __init__(
        self,
        simulation: Simulation | None = None,
        *gates: Gate,
        disorder: Disorder | None = None,
        open_account: OpenAccount | None = None,
        is_ordered: bool = True,
    ) -> None:
        """Takes gates, a simulation, and the account: by default the in-memory twin, with `disorder` in its queues."""
        self.simulation = simulation or Simulation.scripted([])
        self.clock = self.simulation.clock
        self.history = History(self.rows, lambda: len(self.topics.messages))
        self.is_ordered = is_ordered
        """Whether the simulation orders the requests; otherwise each call's run one after the other."""
        self.slack = timedelta(seconds=5 + 2 * max(map(abs, self.clocks), default=0))
        """By how much a message may come too late: visibility is in whole seconds and begins when a request takes
        effect, a host may be a moment late, and so may a clock."""
        gate = chain(self.history, *gates, self._ordered)
        self.account = (
            open_account(self.clock, gate) if open_account else MemoryStorage(self.clock, gate=gate, disorder=disorder)
        )
        self._host_queues = self.account.connect().queues
        self.topics = Topics(gate, elapsed=lambda: self.clock.elapsed)
        self._ids = self._processes = 0
        self.services = self.process()
        self.clock.advance(1)
        self.fixed: dict[str, str] = {}
        """Dates of a definition that is sent more than once."""
        self.handled: Counter[tuple[str, ...]] = Counter()
        """How often the handler of each queue was called about what one call has put: a message that is put again says
        when it was put first."""
        self.put_by_calls: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        """The resolved messages that calls have put of it, which are several if they did so at the same moment."""
        self.index_paths: dict[str, list[str]] = {}
        """The paths of the index that tasks which were created ask for."""
        self.claims: list[Claim] = []
        """What claimWork has answered."""
        self._decoded: dict[str, tuple[Row, Task]] = {}
        self.fitting: dict[tuple[str, str, str], Row] = {}
        """The rows that were found to fit, by table and keys."""

    @property
    def memory(self) -> MemoryStorage:
        """The account of a world that lies in memory."""
        assert isinstance(self.account, MemoryStorage)
        return self.account

    @cached_property
    def handlers(self) -> Services:
        """The process that handles messages. It is made at its first use, since every other world needs none."""
        return self.process()

    def process(self, **changes: Any) -> Services:
        """Returns the services of another process on the same storage; `changes` of its settings. It leaves resolutions
        to their messages, as a process does that ends with its answer."""
        ahead = timedelta(seconds=self.clocks[self._processes % len(self.clocks)] if self.clocks else 0)
        self._processes += 1
        runtime = Runtime(
            now=lambda: self.clock.now() + ahead, slugid=self.slugid, jitter=lambda: 0.5, sleep=self.clock.sleep
        )
        return assemble(settings(**changes), runtime, self.account.connect(), self.topics)

    async def remember(self, services: Services, choose: Callable[[int], int] = lambda versions: versions - 1) -> None:
        """Lets a process believe that it has committed each task itself, in the version that is chosen by its number
        (from 0). Others may have committed since. That no process commits what another one has makes no difference:
        what it would have read a moment ago is no worse."""
        tasks = services.stores.tasks
        for task_id, versions in self.history.versions.items():
            definition = self.history.definitions[task_id]
            tasks.definitions.keep(definition, await pack_definition(definition))
            tasks._known.made(*versions[choose(len(versions))], tasks._known.new_moment())

    def run(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """Runs calls side by side to their end."""
        return self.simulation.run(*work)

    def slugid(self) -> str:
        """Returns ids in order, so that a failure reads the same each time."""
        self._ids += 1
        raw = b"id" + self._ids.to_bytes(14, "big")
        patched = bytearray(raw)
        patched[6] = 0x40 | patched[6] & 0x0F
        patched[8] = 0x80 | patched[8] & 0x3F
        return base64.urlsafe_b64encode(bytes(patched)).rstrip(b"=").decode()

    def definition(self, task_id: str | None = None, **changes: Any) -> Definition:
        """Returns a definition that is valid now; `changes` by the contract's names."""
        task_id, now = task_id or self.slugid(), self.clock.now()
        times = {"created": now, "deadline": now + timedelta(hours=3), "expires": now + timedelta(days=2)}
        dates = {name: format_date(time) for name, time in times.items()}
        return a_definition(task_id, **{"taskGroupId": task_id, "priority": "lowest", **dates, **changes})

    async def create(self, task_id: str | None = None, **changes: Any) -> str:
        """Calls createTask, and returns the id."""
        definition = self.definition(task_id, **changes)
        if paths := paths_of(definition):
            self.index_paths[definition.task_id] = paths
        await self.services.create_task(definition)
        return definition.task_id

    async def claim(self, count: int = 1, services: Services | None = None) -> list[Claim]:
        """Calls claimWork for what is there now."""
        claims = await (services or self.services).work.claim_work(POOL, WORKER, count, 1.5)
        self.claims.extend(claims)
        return claims

    def started(self, task_id: str, run_id: int = 0) -> datetime:
        """Returns when a run was claimed last, or, if it never was, the time that is one claim ago."""
        runs = [task.runs[run_id] for task in self.history.states[task_id] if run_id <= task.last_run_id]
        starts = [run.started for run in runs if run.started is not None]
        return starts[-1] if starts else self.clock.now() - CLAIM_TIMEOUT

    async def claim_expired(self, task_id: str, services: Services | None = None) -> None:
        """Handles the claim message of run 0, put when that was claimed."""
        due = (services or self.services).due
        await due.claim_due(task_id, 0, self.clock.now() - CLAIM_TIMEOUT, self.started(task_id))

    async def victim(self, work: Awaitable[T]) -> T:
        """Makes the call as the process that may be killed."""
        return await as_process("victim", work)

    def _ordered(self, call: Call, phase: Phase) -> Awaitable[None] | None:
        return self.simulation.gate(call, phase) if self.is_ordered else None

    # What is there

    def rows(self, table: str, partition: str | None = None) -> list[Row]:
        """Returns the rows of a table."""
        return self.account.rows(table, partition)

    def tasks(self) -> dict[str, Task]:
        """Returns every task's status."""
        return {row.partition: self._task(row) for row in self.rows(keys.TASKS) if row.key == keys.TASK_STATUS}

    def _task(self, row: Row) -> Task:
        """Decodes a row once, as the checks read the same rows again and again."""
        known = self._decoded.get(row.partition)
        if known is None or known[0] is not row:
            known = self._decoded[row.partition] = row, decode_task(row)
        return known[1]

    def messages(self, queue: str) -> list[tuple[dict[str, Any], datetime]]:
        """Returns the bodies of a queue's messages, and when each is visible."""
        return [
            (json.loads(base64.b64decode(message.text)), message.visible) for message in self.account.messages(queue)
        ]

    # What happens by itself

    async def drain(self, seconds: float) -> None:
        """Handles every internal message that becomes visible within `seconds`, as it becomes visible."""
        until = self.clock.now() + timedelta(seconds=seconds)
        while True:
            await self.handle_visible()
            await self.handlers.reconciler.check_all()
            upcoming = [message.visible for queue in INTERNAL_QUEUES for message in self.account.messages(queue)]
            later = [visible for visible in upcoming if visible <= until]
            if not later:
                break
            await self.clock.sleep(max((min(later) - self.clock.now()).total_seconds(), 0) + 0.001)
        await self.clock.sleep(max((until - self.clock.now()).total_seconds(), 0))
        await self.handlers.reconciler.check_all()

    async def clean_up(self) -> None:
        """Lets a worker poll once more when all is over, which gets nothing, and orphans be removed."""
        assert await self.claim(32, self.handlers) == [], "no run is left"
        await self.clock.sleep(600)
        await self.handlers.reconciler.check_all()

    async def handle_visible(self) -> None:
        """Handles what is visible now; a message that fails stays hidden for as long as the host hides it."""
        for queue, handle in self._queues().items():
            if not any(message.visible <= self.clock.exact() for message in self.account.messages(queue)):
                continue
            taken = await self._host_queues.get_messages(queue, count=32, hidden_for=HIDDEN)
            for message in taken:
                body = json.loads(base64.b64decode(message.text))
                about = (queue, *(str(body.get(word, "")) for word in _ABOUT))
                self.handled[about] += 1
                if body.keys() == _AS_CALLS_PUT_IT:
                    self.put_by_calls[about].add(message.receipt.message_id)
                try:
                    await as_process(HANDLER, handle(body))
                except (StorageUnavailable, Postponed, ApiError):
                    continue
                await self._host_queues.delete_message(queue, message.receipt)

    def _queues(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[None]]]:
        return {
            CLAIM_QUEUE: self._claim_due,
            DEADLINE_QUEUE: self._deadline_due,
            RESOLVED_QUEUE: self._resolved_due,
            EVENTS_QUEUE: self._event_due,
            GROUP_QUEUE: self._group_job_due,
        }

    async def _claim_due(self, body: dict[str, Any]) -> None:
        message = ClaimBody.read(json.dumps(body))
        if message.undelivered is not None:
            await self.handlers.giving_back.take_back(message.undelivered)
        else:
            await self.handlers.due.claim_due(message.task_id, message.run_id, message.put, message.started)

    async def _deadline_due(self, body: dict[str, Any]) -> None:
        await self.handlers.due.deadline_due(
            body["taskId"], body["taskGroupId"], body["schedulerId"], parse_date(body["put"])
        )

    async def _resolved_due(self, body: dict[str, Any]) -> None:
        await self.handlers.resolution.resolved_due(resolved_message(body))

    async def resolved_due_here(self, body: dict[str, Any]) -> None:
        """Does a resolved message's work in the process of the calls."""
        await self.services.resolution.resolved_due(resolved_message(body))

    async def _event_due(self, body: dict[str, Any]) -> None:
        await self.handlers.redelivery.event_due(from_json(body["pointer"]))

    async def _group_job_due(self, body: dict[str, Any]) -> None:
        await self.handlers.group_jobs.job_due(GroupJobBody.read(json.dumps(body)))


def resolved_message(body: dict[str, Any]) -> ResolvedBody:
    """Returns the message of a body in the resolved queue."""
    return ResolvedBody.read(json.dumps(body))


def unordered(*gates: Any) -> World:
    """Returns a world in which each call's requests are made one after the other."""
    return World(None, *gates, is_ordered=False)
