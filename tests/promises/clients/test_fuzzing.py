"""Random requests: no defect, nothing undocumented, and nothing changed by what is refused."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import schemathesis
import taskcluster

from shared.app.apis import AUTH, INDEX, OBJECT, QUEUE, Api
from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Credentials, Deployment, a_task, format_time
from tests.promises.clients.fuzzing import Fuzzer, Known, Sent
from tests.promises.clients.stored import Storage
from tests.promises.simulator.daily import todays_chance

POOL = "fuzz/pool"
INDEX_PATH = "fuzz.v2.latest"
OPEN_TO_ALL = {"tasks", "statuses", "taskQueueCountsBatch", "findTasksAtIndex"}
"""Calls that anybody may make as long as they ask for nothing."""


@pytest.fixture
def chosen_seed() -> int:
    """Returns the seed: FUZZ_SEED, with `--all` another one each day, else always the same."""
    return int(os.environ.get("FUZZ_SEED") or todays_chance("fuzzing").randrange(2**32))


@dataclass
class World:
    """Things in every state that exist before the fuzzing; those of an earlier run may be in any state."""

    deployment: Deployment
    queue: Any

    @classmethod
    def of(cls, deployment: Deployment) -> World:
        return cls(deployment, taskcluster.Queue(deployment.options(deployment.root)))

    def known(self) -> Known:
        group, worker = new_slugid(), new_slugid()
        pending, running, completed, failed = (self._create(group) for _ in range(4))
        unscheduled = self._create(group, dependencies=[pending])
        for task_id in (running, completed, failed):
            self.queue.claimTask(task_id, 0, {"workerGroup": "g", "workerId": worker})
        for name in ("public/log", "private/x"):
            reference = {"storageType": "reference", "url": "https://example.com/", "contentType": "text/plain"}
            self.queue.createArtifact(completed, 0, name, {**reference, "expires": format_time(timedelta(hours=1))})
        self.queue.reportCompleted(completed, 0)
        self.queue.reportFailed(failed, 0)
        entry = {"taskId": completed, "rank": 0, "data": {}, "expires": format_time(timedelta(hours=1))}
        taskcluster.Index(self.deployment.options(self.deployment.root)).insertTask(INDEX_PATH, entry)
        tasks = [pending, running, completed, failed, unscheduled]
        return Known(
            parameters={
                "taskId": tasks,
                "taskGroupId": [group],
                "runId": ["0", "0", "1"],
                "taskQueueId": [POOL],
                "provisionerId": ["fuzz"],
                "workerType": ["pool"],
                "workerGroup": ["g"],
                "workerId": [worker],
                "name": ["public/log", "private/x", "public/new"],
                "indexPath": [INDEX_PATH, f"{INDEX_PATH}.absent"],
                "namespace": [INDEX_PATH, INDEX_PATH.partition(".")[0]],
                "clientId": [self.deployment.new_client("a:*")["clientId"]],
                "roleId": [self.deployment.new_role("a:*")],
            },
            bodies={
                name: [
                    {**a_task(POOL), "provisionerId": None, "workerType": None, "dependencies": dependencies}
                    for dependencies in ([], [completed], [unscheduled, pending])
                ]
                for name in ("createTask", "defineTask")
            }
            | {
                "tasks": [{"taskIds": tasks}],
                "statuses": [{"taskIds": tasks}],
                "taskQueueCountsBatch": [{"taskQueueIds": [POOL]}],
                "createArtifact": [{"expires": format_time(timedelta(minutes=50))}],
                "claimWork": [{"workerGroup": "g", "workerId": worker, "xmlMessage": None}],
                # Not the worker that quarantineWorker is called for: it is answered 503, so that old workers leave
                # the message to others.
                "claimTask": [{"workerGroup": "g", "workerId": "free"}],
                "insertTask": [{"taskId": completed, "expires": format_time(timedelta(minutes=50))}],
                "findTasksAtIndex": [{"indexes": [INDEX_PATH]}],
            },
        )

    def _create(self, group: str, **changes: Any) -> str:
        task_id = new_slugid()
        self.queue.createTask(task_id, a_task(POOL, taskGroupId=group, schedulerId="fuzz", **changes))
        return task_id


OF_A_GROUP = re.compile(
    r"table (?:Directory: group, |Groups: [^,]*, (?:group$|due$|number~|scheduler~)|"
    r"Expiry: [^,]*, (?:group-tasks|listed)~)"
)
"""Rows of a group without tasks: a createTask that was refused for its dependencies leaves its group (3.6)."""


def fuzz(deployment: Deployment, schema: schemathesis.BaseSchema, seed: int, *, examples: int, chunk: int) -> Fuzzer:
    """Sends everything as root, then without credentials, and again what was refused, which must change nothing. After
    each `chunk` of refused requests what is stored is compared."""
    known = World.of(deployment).known()
    fuzzer = Fuzzer(schema, known, seed)
    forged = {**deployment.root, "accessToken": "x" * 44}
    with Storage(deployment.storage) as storage:
        try:
            sent = fuzzer.run(examples, deployment.root)
            before = storage.settled()
            made_up = only_in_refused(sent) - {value for values in known.parameters.values() for value in values}
            left = [place for place in before.naming(made_up) if not OF_A_GROUP.match(place)]
            fuzzer.problems += [f"left by what was refused: {place}" for place in left]
            for credentials in (None, forged):
                strangers = [fuzzer.repeat(each, credentials) for each in sent]
                fuzzer.problems += [f"for a stranger: {each}" for each in strangers if not is_right_for_strangers(each)]
            fuzzer.problems += [f"changed by strangers: {change}" for change in before.changes(storage.look())]
            fuzzer.problems += changes_by_refused(fuzzer, storage, sent, deployment.root, chunk)
        finally:
            fuzzer.close()
    return fuzzer


def only_in_refused(sent: list[Sent]) -> set[str]:
    """Returns the ids that no accepted request has used."""
    accepted = {word for each in sent if not each.is_refused for word in each.ids}
    return {word for each in sent if each.is_refused for word in each.ids} - accepted


def is_right_for_strangers(sent: Sent) -> bool:
    is_public = not sent.case.operation.definition.raw["security"] or sent.operation in OPEN_TO_ALL
    return sent.is_refused or is_public


def changes_by_refused(
    fuzzer: Fuzzer, storage: Storage, sent: list[Sent], credentials: Credentials, size: int
) -> list[str]:
    """Sends refused requests again, and returns what they change. A chunk of which one is accepted now shows
    nothing."""
    refused = [each for each in sent if each.is_refused]
    problems, compared, before = list[str](), 0, storage.settled()
    for start in range(0, len(refused), size):
        chunk = refused[start : start + size]
        repeated = [fuzzer.repeat(each, credentials) for each in chunk]
        after = storage.look()
        if not all(each.is_refused for each in repeated):
            before = storage.settled()
            continue
        compared += len(chunk)
        if seen := before.changes(after):
            before = storage.settled()
            culprits = [each for each in chunk if changes_something(fuzzer, storage, each, credentials)]
            if culprits:  # if not, it was one of the timers
                problems.append(f"refused, but changed {seen}:\n" + "\n".join(map(str, culprits)))
            before = storage.settled()
    assert compared > len(refused) / 2
    return problems


def changes_something(fuzzer: Fuzzer, storage: Storage, sent: Sent, credentials: Credentials) -> bool:
    before = storage.look()
    fuzzer.repeat(sent, credentials)
    return before != storage.look()


def check(fuzzer: Fuzzer, deployment: Deployment) -> None:
    """Checks that no answer was wrong, nothing failed in the hosts, and no message was given up."""
    problems = list(fuzzer.problems)
    for path in deployment.logs.glob("host-*.log"):
        text = path.read_text()
        problems += [f"{path.name}: {text[at - 500 : at + 1500]}" for at in [text.find("Traceback")] if at >= 0]
    with Storage(deployment.storage) as storage:
        poison = {place: held for place, held in storage.look().contents.items() if place.endswith("-poison")}
    problems += [f"{place}: {held}" for place, held in poison.items() if held != "(0, [])"]
    report = "\n\n".join(problem[:2000] for problem in problems[:20])
    assert not problems, f"FUZZ_SEED={fuzzer.seed} repeats this: {len(problems)} problems\n{report}"


def share_of_success(fuzzer: Fuzzer) -> float:
    """Returns the share of operations that have been answered with success: others are hardly tested."""
    names = {name for name, _ in fuzzer.answered}
    return len({name for name, status in fuzzer.answered if status < 400}) / len(names)


@pytest.mark.large
@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", [QUEUE, AUTH, OBJECT, INDEX], ids=lambda service: service.name)
def test_every_service_for_long(undisturbed: Deployment, chosen_seed: int, service: Api) -> None:
    schema = schemathesis.openapi.from_url(f"{undisturbed.root_url}/references/{service.name}/v1/openapi.json")
    fuzzer = fuzz(undisturbed, schema, chosen_seed, examples=4, chunk=10)
    check(fuzzer, undisturbed)
    # The object service takes only what the queue has announced to it.
    assert share_of_success(fuzzer) > 0.3 or service is OBJECT
