"""Requests that nobody would think of: no defect, nothing undocumented, and nothing changed by what is refused."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import schemathesis
import taskcluster
from taskcluster.exceptions import TaskclusterRestFailure

from local import state
from local.stack import Stack, StackOptions
from shared.api.documents import AUTH, OBJECT, QUEUE
from shared.api.openapi import openapi
from shared.api.references import Service
from shared.runtime import new_slugid
from tests.clients.deployment import Credentials, Deployment, a_task, format_time
from tests.clients.fuzzing import Fuzzer, Known, Sent
from tests.clients.stored import Storage
from tests.host.conftest import QUICK
from tests.local.stacks import free_ports

POOL = "fuzz/pool"
OPEN_TO_ALL = {"tasks", "statuses", "taskQueueCountsBatch"}
"""What anybody may call as long as it asks for nothing."""
CHUNK = 40


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Deployment]:
    """A deployment that nobody else uses, so that what is stored can be compared."""
    options = StackOptions(free_ports(), in_memory=True, app_settings=QUICK)
    try:
        with Stack.start(options) as stack:
            yield Deployment.of(stack)
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


@pytest.fixture
def chosen_seed() -> int:
    """Another one each time; FUZZ_SEED repeats a run."""
    return int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(2**32))


@dataclass
class World:
    """Things in every state, made before the fuzzing."""

    deployment: Deployment
    queue: Any

    @classmethod
    def of(cls, deployment: Deployment) -> World:
        return cls(deployment, taskcluster.Queue(deployment.options(deployment.root)))

    def known(self) -> Known:
        group = new_slugid()
        pending, running, completed, failed = (self._create(group) for _ in range(4))
        unscheduled = self._create(group, dependencies=[pending])
        for task_id in (running, completed, failed):
            self.queue.claimTask(task_id, 0, {"workerGroup": "g", "workerId": "w"})
        for name in ("public/log", "private/x"):
            reference = {"storageType": "reference", "url": "https://example.com/", "contentType": "text/plain"}
            self.queue.createArtifact(completed, 0, name, {**reference, "expires": format_time(timedelta(hours=1))})
        self.queue.reportCompleted(completed, 0)
        self.queue.reportFailed(failed, 0)
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
                "workerId": ["w"],
                "name": ["public/log", "private/x", "public/new"],
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
                "claimWork": [{"workerGroup": "g", "workerId": "w", "xmlMessage": None}],
                # Not the worker that quarantineWorker is called for: it is answered 503, so that old workers leave
                # the message to others.
                "claimTask": [{"workerGroup": "g", "workerId": "free"}],
            },
        )

    def _create(self, group: str, **changes: Any) -> str:
        task_id = new_slugid()
        self.queue.createTask(task_id, a_task(POOL, taskGroupId=group, schedulerId="fuzz", **changes))
        return task_id


def fuzz(deployment: Deployment, schema: schemathesis.BaseSchema, seed: int, examples: int) -> Fuzzer:
    """Everything as root; then all of it without credentials, and again what was refused: that changes nothing."""
    fuzzer = Fuzzer(schema, World.of(deployment).known(), seed)
    forged = {**deployment.root, "accessToken": "x" * 44}
    with Storage(deployment.storage) as storage:
        try:
            sent = fuzzer.run(examples, deployment.root)
            before = storage.settled()
            fuzzer.problems += [f"left by what was refused: {word}" for word in before.naming(only_in_refused(sent))]
            for credentials in (None, forged):
                strangers = [fuzzer.repeat(each, credentials) for each in sent]
                fuzzer.problems += [f"for a stranger: {each}" for each in strangers if not is_right_for_strangers(each)]
            fuzzer.problems += [f"changed by strangers: {change}" for change in before.changes(storage.look())]
            fuzzer.problems += changes_by_refused(fuzzer, storage, sent, deployment.root)
        finally:
            fuzzer.close()
    return fuzzer


def only_in_refused(sent: list[Sent]) -> set[str]:
    """Ids that no request has used that was accepted."""
    accepted = {word for each in sent if not each.is_refused for word in each.ids}
    return {word for each in sent if each.is_refused for word in each.ids} - accepted


def is_right_for_strangers(sent: Sent) -> bool:
    is_public = not sent.case.operation.definition.raw["security"] or sent.operation in OPEN_TO_ALL
    return sent.is_refused or is_public


def changes_by_refused(fuzzer: Fuzzer, storage: Storage, sent: list[Sent], credentials: Credentials) -> list[str]:
    """Sends again what was refused. A chunk of which something is accepted this time tells nothing."""
    refused = [each for each in sent if each.is_refused]
    problems, compared, before = list[str](), 0, storage.settled()
    for start in range(0, len(refused), CHUNK):
        chunk = [fuzzer.repeat(each, credentials) for each in refused[start : start + CHUNK]]
        after = storage.look()
        if not all(each.is_refused for each in chunk):
            before = storage.settled()
            continue
        compared += len(chunk)
        if before != after:
            culprits = [each for each in chunk if changes_something(fuzzer, storage, each, credentials)] or chunk
            problems.append(f"refused, but changed {before.changes(after)}:\n" + "\n".join(map(str, culprits)))
            before = storage.settled()
    assert compared > len(refused) / 2
    return problems


def changes_something(fuzzer: Fuzzer, storage: Storage, sent: Sent, credentials: Credentials) -> bool:
    before = storage.look()
    fuzzer.repeat(sent, credentials)
    return before != storage.look()


def check(fuzzer: Fuzzer, deployment: Deployment) -> None:
    """No answer was wrong, nothing failed in the hosts, and no message was given up."""
    problems = list(fuzzer.problems)
    for path in deployment.logs.glob("host-*.log"):
        text = path.read_text()
        problems += [f"{path.name}: {text[at - 500 : at + 1500]}" for at in [text.find("Traceback")] if at >= 0]
    with Storage(deployment.storage) as storage:
        poison = {place: held for place, held in storage.look().contents.items() if place.endswith("-poison")}
    problems += [f"{place}: {held}" for place, held in poison.items() if held != "(0, [])"]
    told = "\n\n".join(problem[:2000] for problem in problems[:20])
    assert not problems, f"FUZZ_SEED={fuzzer.seed} repeats this: {len(problems)} problems\n{told}"


def served_by_success(fuzzer: Fuzzer) -> float:
    """The share of operations that have answered with success: what is always refused is hardly tested."""
    names = {name for name, _ in fuzzer.answered}
    return len({name for name, status in fuzzer.answered if status < 400}) / len(names)


def test_the_queue(fuzzed: Deployment, chosen_seed: int) -> None:
    schema = schemathesis.openapi.from_url(f"{fuzzed.root_url}/references/queue/v1/openapi.json")
    fuzzer = fuzz(fuzzed, schema, chosen_seed, examples=2)
    check(fuzzer, fuzzed)
    assert served_by_success(fuzzer) > 0.3


@pytest.mark.large
@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", [QUEUE, AUTH, OBJECT], ids=lambda service: service.name)
def test_every_service_for_long(fuzzed: Deployment, chosen_seed: int, service: Service) -> None:
    """All three have a document of the same making, of which only the queue's is published."""
    schema = schemathesis.openapi.from_dict(openapi(service, fuzzed.root_url, "test"))
    fuzzer = fuzz(fuzzed, schema, chosen_seed, examples=20)
    check(fuzzer, fuzzed)
    assert served_by_success(fuzzer) > 0.3


def test_a_refused_task_leaves_nothing(fuzzed: Deployment) -> None:
    """Everything that it needs is written ahead of its commit, and taken back: also the group that it would found."""
    queue = taskcluster.Queue(fuzzed.options(fuzzed.root))
    existing, group, new_group = (new_slugid() for _ in range(3))
    task = a_task("refusals/pool", taskGroupId=group, schedulerId="first")
    queue.createTask(existing, task)
    others: dict[str, dict[str, Any]] = {
        "another definition": {"payload": {"another": 1}},
        "another group": {"taskGroupId": new_group},
        "another group and hour": {"taskGroupId": new_group, "expires": format_time(timedelta(hours=9))},
        "another scheduler": {"schedulerId": "second"},
    }
    with Storage(fuzzed.storage) as storage:
        before = storage.settled()
        for what, changes in others.items():
            with pytest.raises(TaskclusterRestFailure) as refusal:
                queue.createTask(existing, {**task, **changes})
            assert refusal.value.body["code"] == "RequestConflict", what
            assert before.changes(storage.look()) == [], what
        for changes in ({}, {"taskGroupId": new_group}, {"schedulerId": "second"}):
            with pytest.raises(TaskclusterRestFailure):
                queue.createTask(new_slugid(), {**task, "dependencies": [new_slugid()], **changes})
            assert before.changes(storage.look()) == [], changes
    queue.createTask(new_slugid(), {**task, "taskGroupId": new_group, "schedulerId": "second"})
