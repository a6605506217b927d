"""Random commands of several clients and workers to a whole deployment in memory, with time, trouble and crashes.

Storage refuses, loses answers and repeats requests; queues reorder, repeat and delay messages; processes die and race.
History judges every commit by contract 4, the invariants of design 7 hold after every step, and at the end everything
that was acknowledged has been announced. A failure prints the commands, and a line that replays them.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from shared.app.services import Services
from shared.base.errors import ApiError
from shared.base.priority import PRIORITIES
from shared.queue.events.breaker import EventsUnavailable
from shared.queue.groups.jobs import GroupJob
from shared.queue.tasks.rules import Resolved, Task, Worker
from shared.store.interface import StorageUnavailable
from tests.simulator import invariants
from tests.simulator.running import VICTIM, finish
from tests.simulator.world import HANDLER, POOL, World
from tests.twin import Disorder
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Kill, Killed, Phase, RandomFaults, as_process, process_name

GROUPS = ("ggggggggQgCggggggggggA", "hhhhhhhhQhChhhhhhhhhhA")
KINDS = {"completed": "task-completed", "failed": "task-failed"}
MOST_TASKS = 6
RARE = {"seal", "cancel", "cancel_group"}
"""Commands that end much: the others come three times as often."""


@dataclass(frozen=True)
class Command:
    """Something that a client or a worker asks for. The numbers choose, among what there is."""

    name: str
    task: int
    detail: int


@dataclass
class Trouble:
    """A gate that harms the calls and handlers: with chances while it lasts, and the one call that is to be killed."""

    faults: RandomFaults
    kill: Kill | None = None
    lasts: bool = True

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Trouble, perhaps."""
        if self.kill is not None:
            self.kill(call, phase)
        if self.lasts and process_name() in {VICTIM, HANDLER}:
            await self.faults(call, phase)


Act = Callable[["Deployment", Services, Command], Awaitable[Any]]
COMMANDS: dict[str, Act] = {}


def command(act: Act) -> None:
    """Registers a command under its name."""
    COMMANDS[act.__name__] = act


def _command_names() -> st.SearchStrategy[str]:
    return st.sampled_from([name for name in sorted(COMMANDS) for _ in range(1 if name in RARE else 3)])


class Deployment(RuleBasedStateMachine):
    """One deployment."""

    @initialize(
        seed=st.integers(0, 2**32),
        trouble=st.sampled_from([0.0, 0.002, 0.01, 0.05]),
        lapse=st.booleans(),
        details=st.lists(st.integers(0, 63), min_size=1, max_size=3),
        claims=st.booleans(),
    )
    def start(self, seed: int, trouble: float, lapse: bool, details: list[int], claims: bool) -> None:
        """Some tasks are there already, perhaps claimed: the commands then meet something."""
        chance = random.Random(seed)
        self.disorder = Disorder(chance=chance, late=trouble, duplicated=trouble, lapsed_receipts_lost=lapse)
        self.trouble = Trouble(RandomFaults(chance, refused=trouble, lost=trouble, resent=trouble))
        self.world = World(Simulation.seeded(seed, yield_after=True), self.trouble, disorder=self.disorder)
        self.task_ids: list[str] = []
        self.promised: set[tuple[str, int | None, str]] = set()
        for detail in details:
            self._run(Command("create", 0, detail))
        if claims:
            self._run(Command("claim_work", 0, 1))

    @rule(
        name=st.deferred(_command_names),
        task=st.integers(0, MOST_TASKS - 1),
        detail=st.integers(0, 63),
        kill=st.none() | st.tuples(st.integers(1, 16), st.sampled_from(list(Phase))),
    )
    def call(self, name: str, task: int, detail: int, kill: tuple[int, Phase] | None) -> None:
        """One call, whose process dies at one of its requests perhaps."""
        if kill is not None:
            self.trouble.kill = Kill(number=kill[0], phase=kill[1], process=VICTIM)
        self._run(Command(name, task, detail))
        if self.trouble.kill is not None:
            self.trouble.kill = None
            self.world.services = self.world.process()

    @rule(
        names=st.deferred(lambda: st.lists(_command_names(), min_size=2, max_size=3)),
        task=st.integers(0, MOST_TASKS - 1),
        detail=st.integers(0, 63),
    )
    def race(self, names: list[str], task: int, detail: int) -> None:
        """Calls to several processes at once, about the same task."""
        self._run(*(Command(name, task, detail) for name in names))

    @rule(
        task=st.integers(0, MOST_TASKS - 1),
        detail=st.integers(0, 63),
        ends=st.sampled_from(["report", "report_exception"]),
    )
    def work(self, task: int, detail: int, ends: str) -> None:
        """What happens most: what waits is claimed, and some run reported."""
        self._run(Command("claim_work", task, detail))
        self._run(Command(ends, task, detail))
        self.world.run(self.world.drain(5))

    @rule(seconds=st.sampled_from([1, 5, 60, 600, 1199, 1201, 3600]))
    def pass_time(self, seconds: int) -> None:
        """Timers run off, messages are handled."""
        self.world.run(self.world.drain(seconds))

    @invariant()
    def invariants_hold(self) -> None:
        invariants.check(self.world)

    def teardown(self) -> None:
        """The trouble is over, and everything comes to its end."""
        if not hasattr(self, "world"):
            return
        self.trouble.lasts = False
        self.disorder.late = self.disorder.duplicated = 0.0
        finish(self.world, is_acknowledged=False, settles=False)
        sent = {
            (body["status"]["taskId"], body.get("runId"), message.topic)
            for message in self.world.topics.messages
            for body in self.world.topics.of(message.topic)
            if "status" in body
        }
        assert self.promised <= sent, "acknowledged, and not announced"

    def known(self, wanted: Command) -> Task | None:
        """The task that a command is about."""
        tasks = self.world.tasks()
        found = [tasks[task_id] for task_id in self.task_ids if task_id in tasks]
        return found[wanted.task % len(found)] if found else None

    def _run(self, *wanted: Command) -> None:
        parties = [as_process(VICTIM, self._attempt(each)) for each in wanted]
        for outcome in self.world.simulation.outcomes(*parties):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Killed):
                raise outcome

    async def _attempt(self, wanted: Command) -> None:
        try:
            await COMMANDS[wanted.name](self, self.world.process(), wanted)
        except (ApiError, StorageUnavailable, EventsUnavailable):
            return


@command
async def create(machine: Deployment, services: Services, wanted: Command) -> None:
    """A task that waits for nothing, or for the last ones."""
    if len(machine.task_ids) >= MOST_TASKS:
        return
    definition = machine.world.definition(
        taskGroupId=GROUPS[wanted.detail & 1],
        dependencies=machine.task_ids[-(wanted.detail >> 1 & 3) :] if wanted.detail >> 1 & 3 else [],
        requires=["all-completed", "all-resolved"][wanted.detail >> 3 & 1],
        retries=wanted.detail >> 4,
    )
    machine.task_ids.append(definition.task_id)
    await services.create_task(definition)
    machine.promised.add((definition.task_id, None, "task-defined"))


@command
async def claim_work(machine: Deployment, services: Services, wanted: Command) -> None:
    """By one of two workers; what was claimed is announced."""
    worker = Worker(worker_group="group", worker_id=f"worker-{wanted.task & 1}")
    claimed = await services.work.claim_work(POOL, worker, 1 + (wanted.detail & 1), 1.5)
    machine.promised |= {(claim.task.task_id, claim.run_id, "task-running") for claim in claimed}


@command
async def claim_task(machine: Deployment, services: Services, wanted: Command) -> None:
    """By the older call."""
    if (task := machine.known(wanted)) and task.runs:
        worker = Worker(worker_group="group", worker_id=f"worker-{wanted.detail & 1}")
        read = await services.work.found_for_claim(task.task_id)
        claim = await services.work.claim_task(read, task.last_run_id + (wanted.detail >> 1 & 1), worker)
        machine.promised.add((task.task_id, claim.run_id, "task-running"))


@command
async def reclaim_task(machine: Deployment, services: Services, wanted: Command) -> None:
    """The last run."""
    if task := machine.known(wanted):
        await services.work.reclaim_task(task.task_id, max(task.last_run_id, 0))


@command
async def report(machine: Deployment, services: Services, wanted: Command) -> None:
    """The last run is completed, or has failed."""
    if (task := machine.known(wanted)) and task.runs:
        resolution = [Resolved.COMPLETED, Resolved.FAILED][wanted.detail & 1]
        run_id = task.last_run_id
        await services.lifecycle.report(task.task_id, run_id, resolution)
        machine.promised.add((task.task_id, run_id, KINDS[resolution.value]))


@command
async def report_exception(machine: Deployment, services: Services, wanted: Command) -> None:
    """Retried, or not."""
    if (task := machine.known(wanted)) and task.runs:
        reasons = (Resolved.WORKER_SHUTDOWN, Resolved.INTERMITTENT_TASK, Resolved.MALFORMED_PAYLOAD)
        run_id = task.last_run_id
        await services.lifecycle.report_exception(task.task_id, run_id, reasons[wanted.detail % 3])
        machine.promised.add((task.task_id, run_id, "task-exception"))


@command
async def schedule(machine: Deployment, services: Services, wanted: Command) -> None:
    """Whatever it waits for."""
    if task := machine.known(wanted):
        await services.lifecycle.schedule(await services.lifecycle.existing(task.task_id))


@command
async def cancel(machine: Deployment, services: Services, wanted: Command) -> None:
    """Whatever it does."""
    if task := machine.known(wanted):
        await services.lifecycle.cancel(await services.lifecycle.existing(task.task_id))


@command
async def rerun(machine: Deployment, services: Services, wanted: Command) -> None:
    """Once more."""
    if task := machine.known(wanted):
        await services.lifecycle.rerun(await services.lifecycle.existing(task.task_id))


@command
async def change_priority(machine: Deployment, services: Services, wanted: Command) -> None:
    """To any."""
    if task := machine.known(wanted):
        read = await services.lifecycle.existing(task.task_id)
        await services.lifecycle.change_priority(read, PRIORITIES[wanted.detail % len(PRIORITIES)])


@command
async def seal(machine: Deployment, services: Services, wanted: Command) -> None:
    """One of the groups."""
    await services.groups.seal(await services.groups.existing(GROUPS[wanted.detail & 1]))


@command
async def cancel_group(machine: Deployment, services: Services, wanted: Command) -> None:
    """One of the groups, sealed or not."""
    await services.group_jobs.call(GroupJob(task_group_id=GROUPS[wanted.detail & 1], kind="cancel"))


def _explore(examples: int, steps: int, *, are_the_same: bool = False) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        derandomize=are_the_same,
    )
    run_state_machine_as_test(Deployment, settings=settings(chosen, suppress_health_check=list(HealthCheck)))


@pytest.mark.timeout(600)
def test_random_commands() -> None:
    """Some runs of some dozens of commands, the same each time."""
    _explore(30, 30, are_the_same=True)


@pytest.mark.large
@pytest.mark.timeout(1800)
def test_many_random_commands() -> None:
    """Many, and longer ones."""
    _explore(250, 50)
