"""One chaos run: create task graphs, let workers complete them under faults, and check that nothing was lost."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import taskcluster

from tools.local import state
from tools.local.chaos.announced import Announced, Occasion, differences, expected, expected_of_artifacts
from tools.local.chaos.audit import leftovers
from tools.local.chaos.faults import Faults, Fleet
from tools.local.chaos.graphs import TASK_QUEUE_ID, Planned, definition, plan
from tools.local.stack import Stack

CLIENT_RETRIES = 12
AT_A_TIME = 8
"""Tasks that are created in parallel."""
STATUSES_A_CALL = 200
STEPS = 5
"""Lines that each run of a task writes, so that two runs at the same time are seen."""
LOOK_SECONDS = 1.0
SETTLE_SECONDS = 420.0
"""After the last deadline: the reconciler's interval of five minutes, and time to retry what a fault has delayed."""

Status = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ChaosOptions:
    """Size and randomness of a run."""

    tasks: int
    workers: int
    seed: int
    """Seed of everything that is random."""

    @property
    def life(self) -> timedelta:
        """Time from the creation of a task to its deadline; an orphaned timer message lives as long."""
        return timedelta(seconds=180 + 1.5 * self.tasks)


class Chaos:
    """One run on a stack that is up."""

    def __init__(self, stack: Stack, options: ChaosOptions, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._options = options
        self._say = say
        self._folder = state.folder(stack.options.ports.api) / "chaos"
        self._notes = self._folder / "notes"
        self._planned = plan(options.tasks, taskcluster.slugId)
        self._deadline = datetime.now(UTC)

    def run(self) -> list[str]:
        """Does the whole run. Returns what went wrong, a line each. Raises ChildError if the stack breaks down. Hosts
        that end are started again until the end, as the platform does: one may end after the last fault."""
        with self._stack.supervised(self._say):
            return self._run()

    def _run(self) -> list[str]:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._notes.mkdir(parents=True)
        events = Announced(self._stack.environment["SERVICEBUS_CONNECTION_STRING"])
        fleet = Fleet(self._stack, self._folder)
        faults = Faults(self._stack, fleet, random.Random(self._options.seed))
        try:
            faults.start()
            self._create()
            fleet.grow(self._options.workers)
            completed = self._wait_for_completion()
            faults.stop()
            self._say(f"faults: {', '.join(f'{count} × {kind}' for kind, count in sorted(faults.counts.items()))}")
            return self._problems_of_tasks() + (self._problems_afterwards(events) if completed else [])
        finally:
            faults.stop()
            fleet.stop()
            events.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _create(self) -> None:
        """Creates all tasks before the first worker starts, so that each group resolves once."""
        chance = random.Random(self._options.seed)
        steps = " ".join(map(str, range(STEPS)))
        script = f'for step in {steps}; do echo "$RUN_ID" >> {self._notes}/$TASK_ID; sleep 0.1; done'
        queue = self._queue()
        waves = _waves(self._planned)
        for wave in waves:
            now = datetime.now(UTC)
            self._deadline = now + self._options.life
            bodies = [
                definition(task, now=now, life=self._options.life, command=("sh", "-c", script), chance=chance)
                for task in wave
            ]
            with ThreadPoolExecutor(AT_A_TIME) as threads:
                list(threads.map(lambda task, body: queue.createTask(task.task_id, body), wave, bodies))
        self._say(f"created {len(self._planned)} tasks in {len({task.task_group_id for task in self._planned})} groups")

    def _wait_for_completion(self) -> bool:
        """Waits until all tasks are resolved. Returns False if they are not when the last deadline has passed."""
        shown = 0
        while datetime.now(UTC) < self._deadline + timedelta(seconds=30):
            resolved = sum(status["state"] in {"completed", "failed", "exception"} for status in self._statuses())
            if resolved >= shown + 50 or resolved == len(self._planned):
                shown = resolved
                self._say(f"{resolved} of {len(self._planned)} tasks are resolved")
            if resolved == len(self._planned):
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def _problems_of_tasks(self) -> list[str]:
        statuses = self._statuses()
        problems = [f"task {task_id} is missing" for task_id in self._ids() - {one["taskId"] for one in statuses}]
        for status in statuses:
            states = [run["state"] for run in status["runs"]]
            if states != ["exception"] * (len(states) - 1) + ["completed"]:
                problems.append(f"task {status['taskId']} has the runs {states}")
                continue
            steps = [int(line) for line in (self._notes / status["taskId"]).read_text(encoding="utf-8").split()]
            if steps != sorted(steps) or steps.count(len(states) - 1) != STEPS:
                problems.append(f"runs of task {status['taskId']} overlap or repeat: {steps}")
        return problems

    def _problems_afterwards(self, events: Announced) -> list[str]:
        """Returns what is still wrong when every timer has fired and the reconciler has run."""
        groups = sorted({task.task_group_id for task in self._planned})
        wanted, possible = self._announcements(groups)
        connection = self._stack.environment["AZURE_STORAGE_CONNECTION_STRING"]
        until = max(datetime.now(UTC), self._deadline) + timedelta(seconds=SETTLE_SECONDS)
        self._say(f"waiting until every timer has fired, at the latest until {until:%H:%M:%S} UTC")
        shown: list[str] = []
        while True:
            problems = differences(events.counts(), wanted, possible)
            problems += asyncio.run(leftovers(connection, self._planned))
            problems += self._problems_of_lists(groups)
            if not problems or datetime.now(UTC) > until:
                return problems
            if datetime.now(UTC) > self._deadline and problems != shown:
                shown = problems
                self._say(f"{len(problems)} things are not as they should be, such as: {problems[0]}")
            time.sleep(5 * LOOK_SECONDS)

    def _announcements(self, groups: list[str]) -> tuple[set[Occasion], set[Occasion]]:
        """Returns what must have been announced, and what may have been."""
        statuses = self._statuses()
        wanted, possible = set(expected(statuses, groups)), set[Occasion]()
        queue = self._queue()
        for status in statuses:
            for run in status["runs"]:
                artifacts = queue.listArtifacts(status["taskId"], run["runId"])["artifacts"]
                must, may = expected_of_artifacts(status["taskId"], run, artifacts)
                wanted |= must
                possible |= may
        return wanted, possible

    def _problems_of_lists(self, groups: list[str]) -> list[str]:
        queue = self._queue()
        counts = queue.taskQueueCounts(TASK_QUEUE_ID)
        problems = []
        if (counts["pendingTasks"], counts["claimedTasks"]) != (0, 0):
            problems.append(f"taskQueueCounts says {counts}")
        listed: set[str] = set()
        for group in groups:
            for each in queue.listTaskGroup(group)["tasks"]:
                listed.add(each["status"]["taskId"])
                if each["status"]["state"] != "completed":
                    problems.append(f"listTaskGroup says of {each['status']['taskId']}: {each['status']['state']}")
        problems += [f"no group lists task {task_id}" for task_id in self._ids() - listed]
        return problems + self._problems_of_index()

    def _problems_of_index(self) -> list[str]:
        """Returns a line for each task that is not found at its path: every task has completed."""
        index = taskcluster.Index(self._options_of_clients())
        wanted = {task.path: task.task_id for task in self._planned}
        found: dict[str, str] = {}
        query: dict[str, str] = {}
        while True:
            page = index.findTasksAtIndex(payload={"indexes": list(wanted)}, query=query)
            found |= {entry["namespace"]: entry["taskId"] for entry in page["tasks"]}
            if "continuationToken" not in page:
                break
            query = {"continuationToken": page["continuationToken"]}
        return [f"the index has {found.get(path)} at {path}" for path in wanted if found.get(path) != wanted[path]]

    def _ids(self) -> set[str]:
        return {task.task_id for task in self._planned}

    def _statuses(self) -> list[Status]:
        queue = self._queue()
        ids = sorted(self._ids())
        found: list[Status] = []
        for start in range(0, len(ids), STATUSES_A_CALL):
            answer = queue.statuses({"taskIds": ids[start : start + STATUSES_A_CALL]})
            found += [each["status"] for each in answer["statuses"]]
        return found

    def _queue(self) -> Any:
        return taskcluster.Queue(self._options_of_clients())

    def _options_of_clients(self) -> dict[str, Any]:
        environment = self._stack.environment
        credentials = {
            "clientId": environment["TASKCLUSTER_CLIENT_ID"],
            "accessToken": environment["TASKCLUSTER_ACCESS_TOKEN"],
        }
        root_url = environment["TASKCLUSTER_ROOT_URL"]
        return {"rootUrl": root_url, "credentials": credentials, "maxRetries": CLIENT_RETRIES}


def _waves(planned: list[Planned]) -> list[list[Planned]]:
    """Returns the tasks in waves that can be created in parallel, each after those that it depends on."""
    depth: dict[str, int] = {}
    for task in planned:
        depth[task.task_id] = 1 + max((depth[required] for required in task.dependencies), default=-1)
    waves: list[list[Planned]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for task in planned:
        waves[depth[task.task_id]].append(task)
    return waves
