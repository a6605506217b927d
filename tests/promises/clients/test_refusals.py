"""Refused calls leave nothing behind, although everything that a call needs is written ahead of its commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import taskcluster
from taskcluster.exceptions import TaskclusterRestFailure

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment, a_task, format_time
from tests.promises.clients.stored import Storage

POOL = "refusals/pool"
WORKER = {"workerGroup": "g", "workerId": "w"}

Call = Callable[[], Any]


@pytest.fixture
def queue(undisturbed: Deployment) -> Any:
    """The client as root."""
    return taskcluster.Queue(undisturbed.options(undisturbed.root))


@pytest.fixture
def storage(undisturbed: Deployment) -> Iterator[Storage]:
    with Storage(undisturbed.storage) as opened:
        yield opened


def other_than_sweeps(changes: list[str]) -> list[str]:
    """Returns the changes without rows of the Expiry table by which a group or a history is swept: such rows are
    written first, hold only their name, and go when the job finds nothing to delete."""
    return [change for change in changes if not re.match(r"table Expiry: [^,]*, (?:group-tasks|audit)~", change)]


def test_a_refused_task_leaves_nothing_but_its_group(queue: Any, storage: Storage) -> None:
    existing, group, new_group = (new_slugid() for _ in range(3))
    task = a_task("refusals/pool", taskGroupId=group, schedulerId="first")
    queue.createTask(existing, task)
    others: dict[str, dict[str, Any]] = {
        "another definition": {"payload": {"another": 1}},
        "another group": {"taskGroupId": new_group},
        "another group and hour": {"taskGroupId": new_group, "expires": format_time(timedelta(hours=9))},
        "another scheduler": {"schedulerId": "second"},
    }
    with pytest.raises(TaskclusterRestFailure):
        queue.createTask(existing, {**task, **others["another group"]})
    assert queue.listTaskGroup(new_group)["tasks"] == []
    before = storage.settled()
    for what, changes in others.items():
        with pytest.raises(TaskclusterRestFailure) as refusal:
            queue.createTask(existing, {**task, **changes})
        assert refusal.value.body["code"] == "RequestConflict", what
        assert other_than_sweeps(before.changes(storage.look())) == [], what
    for changes in ({}, {"schedulerId": "second"}):
        with pytest.raises(TaskclusterRestFailure):
            queue.createTask(new_slugid(), {**task, "dependencies": [new_slugid()], **changes})
        assert other_than_sweeps(before.changes(storage.look())) == [], changes
    queue.createTask(new_slugid(), {**task, "taskGroupId": new_group})


def test_a_group_stays_though_its_first_task_is_refused_for_its_dependencies(queue: Any) -> None:
    """A group stays though its first task is refused for its dependencies (contract 3.6)."""
    group = new_slugid()
    task = a_task("refusals/pool", taskGroupId=group, schedulerId="first")
    with pytest.raises(TaskclusterRestFailure):
        queue.createTask(new_slugid(), {**task, "dependencies": [new_slugid()]})
    assert queue.getTaskGroup(group)["schedulerId"] == "first"
    assert queue.listTaskGroup(group)["tasks"] == []
    with pytest.raises(TaskclusterRestFailure) as refusal:
        queue.createTask(new_slugid(), {**task, "schedulerId": "second"})
    assert refusal.value.body["code"] == "RequestConflict"
    queue.createTask(new_slugid(), task)


def refusals(queue: Any, auth: Any, deployment: Deployment) -> dict[str, Call]:
    """Returns calls that are refused for the state of things, each with things of its own kind."""
    group, sealed, nobody = (new_slugid() for _ in range(3))
    pending, running, completed, uploading = (new_slugid() for _ in range(4))
    for task_id in (pending, running, completed, uploading):
        queue.createTask(task_id, a_task(POOL, taskGroupId=group))
    queue.createTask(new_slugid(), a_task(POOL, taskGroupId=sealed))
    queue.sealTaskGroup(sealed)
    for task_id in (running, completed, uploading):
        queue.claimTask(task_id, 0, WORKER)
    reference = {"storageType": "reference", "url": "https://example.com/", "contentType": "text/plain"}
    artifact = {**reference, "expires": format_time(timedelta(hours=1))}
    queue.createArtifact(uploading, 0, "public/a", artifact)
    queue.reportCompleted(completed, 0)
    upload = {"storageType": "s3", "contentType": "text/plain", "expires": format_time(timedelta(hours=5))}
    priority = {"newPriority": "high"}
    client, role = deployment.new_client("a:*")["clientId"], deployment.new_role("a:*")
    about = {"description": "another", "scopes": ["b:*"]}
    return {
        "createTask in a sealed group": partial(queue.createTask, new_slugid(), a_task(POOL, taskGroupId=sealed)),
        "createArtifact otherwise": partial(queue.createArtifact, uploading, 0, "public/a", upload),
        "createArtifact earlier": partial(
            queue.createArtifact, uploading, 0, "public/a", {**artifact, "expires": format_time(timedelta(minutes=20))}
        ),
        "createArtifact too late": partial(queue.createArtifact, completed, 0, "public/b", upload),
        "createArtifact of no run": partial(queue.createArtifact, uploading, 1, "public/b", upload),
        "createArtifact of nothing": partial(queue.createArtifact, nobody, 0, "public/b", upload),
        "finishArtifact of nothing": partial(queue.finishArtifact, uploading, 0, "public/c", {"uploadId": nobody}),
        "claimTask of another": partial(queue.claimTask, running, 0, {**WORKER, "workerId": "other"}),
        "claimTask of what is over": partial(queue.claimTask, completed, 0, WORKER),
        "claimTask of nothing": partial(queue.claimTask, nobody, 0, WORKER),
        "reclaimTask too early": partial(queue.reclaimTask, pending, 0),
        "reclaimTask too late": partial(queue.reclaimTask, completed, 0),
        "reportCompleted too early": partial(queue.reportCompleted, pending, 0),
        "reportCompleted of nothing": partial(queue.reportCompleted, nobody, 0),
        "reportFailed too late": partial(queue.reportFailed, completed, 0),
        "reportException too late": partial(queue.reportException, completed, 0, {"reason": "worker-shutdown"}),
        "scheduleTask of nothing": partial(queue.scheduleTask, nobody),
        "rerunTask of nothing": partial(queue.rerunTask, nobody),
        "cancelTask of nothing": partial(queue.cancelTask, nobody),
        "changeTaskPriority too late": partial(queue.changeTaskPriority, completed, priority),
        "changeTaskPriority to the same": partial(queue.changeTaskPriority, pending, {"newPriority": "lowest"}),
        "changeTaskGroupPriority of nothing": partial(queue.changeTaskGroupPriority, nobody, priority),
        "cancelTaskGroup unsealed": partial(queue.cancelTaskGroup, group),
        "sealTaskGroup of nothing": partial(queue.sealTaskGroup, nobody),
        "quarantineWorker of nobody": partial(
            queue.quarantineWorker, "refusals", "pool", "g", "nobody", {"quarantineUntil": format_time(timedelta(1))}
        ),
        "createClient again": partial(auth.createClient, client, {**about, "expires": format_time(timedelta(hours=1))}),
        "updateClient of nobody": partial(
            auth.updateClient, "test/nobody", {**about, "expires": format_time(timedelta(hours=1))}
        ),
        "createRole again": partial(auth.createRole, role, about),
        "updateRole of nothing": partial(auth.updateRole, "test:nothing", about),
    }


@pytest.mark.large
def test_other_refused_calls_leave_nothing(undisturbed: Deployment, queue: Any, storage: Storage) -> None:
    with undisturbed.auth() as auth:
        calls = refusals(queue, auth, undisturbed)
        before = storage.settled()
        left = {}
        for what, call in calls.items():
            with pytest.raises(TaskclusterRestFailure) as refusal:
                call()
            assert refusal.value.status_code in {400, 404, 409}, what
            now = storage.look()
            if changes := other_than_sweeps(before.changes(now)):
                left[what] = changes
            before = now
    assert left == {}
