"""The commands on task groups, tasks, task queues and workers, as programs on a running stack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.admin.operators import Operator
from tests.clients.deployment import Deployment
from tests.console.scene import LOG, Scene, put
from tests.programs import Program
from tools.admin.cli import main
from tools.admin.work import UNSUCCESSFUL
from tools.local.stack import Stack


@pytest.fixture
def scene(stack: Stack) -> Scene:
    return Scene(Deployment.of(stack))


def _follow(operator: Operator, *arguments: str) -> Program:
    """A command that goes on while the test does."""
    return Program(main, arguments, operator.environment)


def _lines(output: str) -> list[list[str]]:
    """The cells of a table, which two spaces or more divide."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in output.splitlines()]


def test_a_group_is_listed_shown_sealed_and_cancelled(operator: Operator, scene: Scene) -> None:
    scene.create("build", task_id=scene.group)
    scene.create("test", ["build"])
    code, output, _ = operator.run("group", "list")
    assert code == 0
    assert next(row for row in _lines(output) if row[0] == scene.group)[2:] == ["me@example.com", "build"]
    assert scene.group in [one["taskGroupId"] for one in operator.result("group", "list", "--json", "-n", "1000")]

    code, output, _ = operator.run("group", "show", scene.group)
    assert code == 0
    assert ["tasks", "2: 1 pending, 1 unscheduled"] in _lines(output)
    assert [scene.ids["test"], "unscheduled", scene.task_queue, "test"] in _lines(output)
    assert len(operator.result("group", "show", scene.group, "--json")["tasks"]) == 2

    code, _, messages = operator.run("group", "cancel", scene.group, "--yes")
    assert code == 1
    assert "seal" in messages
    assert operator.result("group", "seal", scene.group)["sealed"]
    assert operator.result("group", "cancel", scene.group, "--yes")["cancelledCount"] == 2


def test_what_failed_of_a_group_is_rerun(operator: Operator, scene: Scene) -> None:
    for name in ("build-1", "build-2", "build-3", "unwanted"):
        scene.create(name)
    scene.client().cancelTask(scene.ids["unwanted"])
    scene.claim("build-1", "build-2", "build-3")
    scene.fail("build-1", "build-2")
    scene.complete("build-3")
    code, _, messages = operator.run("group", "rerun-failed", scene.group)
    assert code == 0
    assert messages == "rerun: 2 of 2 done\n"  # no progress: nobody watches
    assert {scene.client().status(scene.ids[name])["status"]["state"] for name in ("build-1", "build-2")} == {"pending"}
    assert operator.run("group", "rerun-failed", scene.group)[2] == "nothing has failed\n"


@pytest.mark.parametrize(("outcome", "code"), [("complete", 0), ("fail", UNSUCCESSFUL)])
def test_a_group_is_watched_to_its_end(operator: Operator, scene: Scene, outcome: str, code: int) -> None:
    scene.create("build")
    with _follow(operator, "group", "show", scene.group, "--watch") as watching:
        assert watching.stdout.readline() == "1 pending\n"
        scene.claim("build")
        assert watching.stdout.readline() == "1 running\n"
        getattr(scene, outcome)("build")
        output, messages = watching.communicate(timeout=60)
    assert messages == ""
    assert output == ("1 completed\n" if code == 0 else f"1 failed\n  failed  {scene.ids['build']}  build\n")
    assert watching.returncode == code


def test_a_watched_group_names_what_fails_once_and_says_when_nothing_goes_on(operator: Operator, scene: Scene) -> None:
    """In the order in which it fails; what somebody cancelled is no failure, but the group did not complete."""
    for name, needs in (("lint", []), ("build\x1b[2J", []), ("unwanted", []), ("package", ["build\x1b[2J"])):
        scene.create(name, needs)
    scene.claim("lint", "build\x1b[2J", "unwanted")
    with _follow(operator, "group", "show", scene.group, "--watch") as watching:
        assert watching.stdout.readline() == "3 running, 1 unscheduled\n"
        scene.fail("lint")
        assert watching.stdout.readline() == "1 failed, 2 running, 1 unscheduled\n"
        assert watching.stdout.readline() == f"  failed  {scene.ids['lint']}  lint\n"
        scene.client().cancelTask(scene.ids["unwanted"])
        assert watching.stdout.readline() == "1 failed, 1 exception, 1 running, 1 unscheduled\n"
        claim = scene.claims.pop("build\x1b[2J")
        reported = {"reason": "malformed-payload"}
        scene.client(claim["credentials"]).reportException(claim["status"]["taskId"], claim["runId"], reported)
        assert watching.stdout.readline() == "1 failed, 2 exception, 1 unscheduled\n"
        expected = f"  exception (malformed-payload)  {scene.ids['build' + chr(27) + '[2J']}  build[2J\n"
        assert watching.stdout.readline() == expected
        assert watching.stderr.readline() == "1 wait for what did not complete: rerun it, or cancel them\n"
        scene.client().cancelTask(scene.ids["package"])
        output, messages = watching.communicate(timeout=60)
    assert (output, messages, watching.returncode) == ("1 failed, 3 exception\n", "", UNSUCCESSFUL)


@pytest.mark.parametrize(("outcome", "code"), [("complete", 0), ("fail", UNSUCCESSFUL)])
def test_a_task_is_watched_to_its_end(operator: Operator, scene: Scene, outcome: str, code: int) -> None:
    task_id = scene.create("build")
    with _follow(operator, "task", "show", task_id, "--watch") as watching:
        assert watching.stdout.readline() == "pending run 0\n"
        scene.claim("build")
        assert watching.stdout.readline() == "running run 0 on here/worker-1\n"
        getattr(scene, outcome)("build")
        output, messages = watching.communicate(timeout=60)
    state = "completed" if code == 0 else "failed"
    assert output == f"{state} run 0 on here/worker-1\n"
    assert messages == ("" if code == 0 else f"what it printed: task log {task_id}\n")
    assert watching.returncode == code
    ended, output, messages = operator.run("task", "show", task_id, "--watch", "--json")
    assert (ended, messages) == (code, "")
    assert json.loads(output)["runs"][0]["state"] == state


def test_a_task_is_shown_and_acted_on(operator: Operator, scene: Scene) -> None:
    scene.create("build\x1b[2J")
    scene.create("test", ["build\x1b[2J"])
    task_id = scene.ids["test"]
    code, output, _ = operator.run("task", "show", scene.ids["build\x1b[2J"])
    assert code == 0
    assert ["name", "build[2J"] in _lines(output)  # a terminal would obey the name
    assert ["state", "unscheduled"] in _lines(operator.run("task", "show", task_id)[1])
    assert operator.result("task", "priority", task_id, "high")["priority"] == "high"
    assert operator.result("task", "schedule", task_id)["state"] == "pending"
    assert operator.result("task", "cancel", task_id)["state"] == "exception"
    assert operator.result("task", "rerun", task_id)["state"] == "pending"
    assert operator.result("task", "show", task_id, "--json")["task"]["metadata"]["name"] == "test"
    code, _, messages = operator.run("task", "show", "A" * 22)
    assert code == 1
    assert messages.startswith(("ResourceNotFound", "InvalidRequestArguments"))


def test_a_task_is_created_from_a_file_and_retriggered(operator: Operator, scene: Scene, tmp_path: Path) -> None:
    metadata = {"name": "x", "description": "x", "owner": "x@example.com", "source": "https://example.com"}
    file = tmp_path / "task.json"
    needed = scene.create("needed")
    definition = {"taskQueueId": scene.task_queue, "payload": {}, "metadata": metadata, "dependencies": [needed]}
    file.write_text(json.dumps(definition))
    code, output, messages = operator.run("task", "create", "-f", str(file))
    assert code == 0, messages
    made = scene.client().task(output.strip())
    assert made["taskQueueId"] == scene.task_queue

    code, output, messages = operator.run("task", "retrigger", output.strip())
    assert code == 0, messages
    copy = scene.client().task(output.strip())
    assert copy["metadata"] == metadata
    assert copy["taskGroupId"] == made["taskGroupId"]
    assert (copy["dependencies"], copy["retries"]) == ([needed], 0)
    assert datetime.fromisoformat(copy["deadline"]) - datetime.now(UTC) > timedelta(hours=23)

    file.write_text("[]")
    assert operator.run("task", "create", "-f", str(file))[0] == 1


@pytest.mark.parametrize(("outcome", "code"), [("complete", 0), ("fail", UNSUCCESSFUL)])
def test_a_log_is_followed_to_the_end_of_its_run(operator: Operator, scene: Scene, outcome: str, code: int) -> None:
    scene.create("build")
    scene.claim("build")
    url = scene.upload("build", LOG, b"first\n")
    with _follow(operator, "task", "log", "-f", scene.ids["build"]) as following:
        assert following.stdout.readline() == "first\n"
        put(url, b"first\nsecond\n")
        assert following.stdout.readline() == "second\n"
        put(url, b"first\nsecond\nthird")
        getattr(scene, outcome)("build")
        output, messages = following.communicate(timeout=60)
    assert (output, messages, following.returncode) == ("third", "", code)
    assert operator.run("task", "log", scene.ids["build"]) == (0, "first\nsecond\nthird", "")
    assert operator.run("task", "log", scene.ids["build"], "--tail", "6") == (0, "\nthird", "")
    assert operator.run("task", "log", scene.ids["build"], "--tail", "99") == (0, "first\nsecond\nthird", "")


def test_a_log_that_is_missing_says_so(operator: Operator, scene: Scene) -> None:
    scene.create("build")
    scene.run("build")
    code, _, messages = operator.run("task", "log", scene.ids["build"])
    assert code == 1
    assert messages.startswith(f"{LOG} of run 0 cannot be read: ")


def test_task_queues_and_workers_are_shown(operator: Operator, scene: Scene) -> None:
    scene.create("build")
    scene.claim("build")
    scene.create("test")
    queue = scene.task_queue
    [row] = [row for row in _lines(operator.run("queue", "list")[1]) if row[0] == queue]
    assert row[1:3] == ["1", "1"]
    assert queue in [one["taskQueueId"] for one in operator.result("queue", "list", "--json")]
    assert ["pending", "1"] in _lines(operator.run("queue", "show", queue)[1])
    [_, worker] = _lines(operator.run("worker", "list", queue)[1])
    assert worker[0:3] == ["here/worker-1", "runs a task", "now"], "however seldom its calls are noted"

    idle = f"{queue}-idle"
    scene.create("alone", taskQueueId=idle)
    _, first, *_ = _lines(operator.run("queue", "list")[1])
    assert first[-1] == "no-worker", "what nothing takes comes first"
    assert f"No worker takes the tasks of task queue {idle}" in operator.run("queue", "show", idle)[1]

    operator.result("worker", "quarantine", queue, "here", "worker-1", "--reason", "its disk", "--for", "1h")
    _, output, _ = operator.run("worker", "show", queue, "here", "worker-1")
    assert ["state", "quarantined"] in _lines(output)
    assert _lines(output)[-4][-1] == "its disk"
    operator.result("worker", "release", queue, "here", "worker-1")

    code, _, messages = operator.run("worker", "removed", queue, "here", "worker-1")
    assert code == 0, messages
    assert scene.client().status(scene.ids["build"])["status"]["runs"][0]["reasonResolved"] == "worker-shutdown"


def _called(url: str, method: str, header: str) -> Mapping[str, Any]:
    name, value = header.strip().split(": ", 1)
    answer: Mapping[str, Any] = requests.request(method, url, headers={name: value}, timeout=30).json()
    return answer


def test_a_call_with_another_method_is_signed_as_a_header(operator: Operator, scene: Scene) -> None:
    scene.create("build")
    path = f"/api/queue/v1/task/{scene.ids['build']}/cancel"
    code, header, _ = operator.run("sign", "--method", "POST", path)
    assert code == 0
    assert _called(scene.deployment.root_url + path, "POST", header)["status"]["state"] == "exception"


def test_who_did_what_is_listed_latest_first(operator: Operator, scene: Scene) -> None:
    task_id = scene.create("build")
    operator.result("task", "priority", task_id, "high")
    operator.result("task", "cancel", task_id)
    operator.result("group", "seal", scene.group)
    root = operator.environment["TASKCLUSTER_CLIENT_ID"]
    code, output, _ = operator.run("audit", "task", task_id)
    rows = _lines(output)
    assert (code, rows[0]) == (0, ["WHEN", "WHO", "WHAT", "TO"])
    assert [row[1:] for row in rows[1:]] == [
        [root, "sealed", f"task-group {scene.group}"],
        [root, "canceled", f"task {task_id}"],
        [root, "priority changed", f"task {task_id}", "to high"],
    ]
    found = operator.result("audit", "group", scene.group, "--json")
    assert [one["actionType"] for one in found] == ["sealed", "canceled", "priority changed"]
    assert found[0] in operator.result("audit", "by", root, "--json")

    client = f"{scene.task_queue}/client"
    operator.result("client", "create", client, "--expires-in", "1d")
    [created] = operator.result("audit", "client", client, "--json")
    assert (created["actionType"], created["clientId"]) == ("created", root)
    assert operator.result("audit", "role", "nobody", "--json") == []
    assert operator.result("audit", "worker", f"{scene.task_queue}/a/b", "--json") == []
    assert operator.run("audit", "worker", "nothing")[0] == 2
