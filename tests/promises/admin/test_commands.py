"""The commands as programs, on a running stack."""

from __future__ import annotations

import base64
import json

import pytest
import taskcluster

from tests.promises.admin.operators import Operator


def test_tasks_and_groups(operator: Operator) -> None:
    task_id = operator.create()
    assert operator.result("task", "check", task_id, "--at-rest") == {}
    assert operator.result("group", "check", task_id) == {}
    code, output, _ = operator.run("task", "check", taskcluster.slugId())
    assert code == 1
    ((finding,),) = json.loads(output).values()
    assert finding == {"finding": "there is no such task", "repairable": False, "repaired": False}
    code, _, messages = operator.run("task", "check")
    assert (code, messages) == (1, "name tasks, or say --all\n")


def test_quarantine_drain_and_refill(operator: Operator) -> None:
    first, second = operator.create(), operator.create()
    assert len(operator.claim()) == 1
    state = operator.result("pool", "drain", operator.pool, "--reason", "test", "--cancel-pending")
    assert (state["pending"], state["claimed"]) == (0, 1)
    assert [(worker["worker"], worker["quarantined"]) for worker in state["workers"]] == [("g/w", True)]
    states = {operator.queue().status(task_id)["status"]["state"] for task_id in (first, second)}
    assert states == {"running", "exception"}, "what runs goes on, what waited was cancelled"
    state = operator.result("pool", "refill", operator.pool)
    assert [worker["quarantined"] for worker in state["workers"]] == [False]
    operator.quarantine("w", "bad disk", "1 hour")
    assert operator.result("queue", "show", operator.pool, "--json")["workers"][0]["quarantined"]
    assert "quarantined" in operator.run("queue", "show", operator.pool)[1]


def test_queues(operator: Operator) -> None:
    entries = {entry["queue"]: entry for entry in operator.result("queue", "internal")}
    assert set(entries) == {"claim", "deadline", "resolved", "events", "group-jobs"}
    for words in (("list",), ("redrive",), ("drop", "--all")):
        code, _, messages = operator.run("queue", "poison", words[0], "pending-x-1", *words[1:])
        assert code == 1
        assert "there is no queue 'pending-x-1'" in messages
    assert operator.run("queue", "poison", "drop", "claim")[0] == 1


def test_what_failed_is_rerun_and_what_was_cancelled_is_not(operator: Operator) -> None:
    failed = operator.create()
    cancelled = operator.create(taskGroupId=failed)
    operator.queue().cancelTask(cancelled)
    (claim,) = operator.claim()
    operator.queue().reportFailed(failed, claim["runId"])
    assert operator.run("group", "rerun-failed", failed)[0] == 0
    states = [operator.queue().status(task_id)["status"]["state"] for task_id in (failed, cancelled)]
    assert states == ["pending", "exception"]
    assert "nothing has failed" in operator.run("group", "rerun-failed", failed)[2]


def test_a_worker_that_is_gone_gives_back_what_it_runs(operator: Operator) -> None:
    task_id = operator.create()
    assert operator.claim()
    operator.result("worker", "removed", operator.pool, "g", "w")
    assert operator.queue().status(task_id)["status"]["state"] == "pending"


def test_exit_codes(operator: Operator) -> None:
    nobody = {"TASKCLUSTER_CLIENT_ID": "nobody", "TASKCLUSTER_ACCESS_TOKEN": "wrong"}
    code, output, messages = operator.run("queue", "list", environment=nobody)
    assert (code, output) == (1, "")
    assert "AuthenticationFailed" in messages
    assert "Traceback" not in messages
    for mistyped in (("group", "lst"), ("group", "list", "-n", "many")):
        code, output, messages = operator.run(*mistyped)
        assert (code, output) == (2, "")
        assert "Usage: " in messages


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "STORAGE_ACCOUNT_NAME is not set"),
        ({}, "For the local stack: ./dev up --detach"),
        ({"STORAGE_CONNECTION_STRING": "nonsense"}, "the storage connection string has no AccountName"),
        (
            {
                "STORAGE_CONNECTION_STRING": f"AccountName=a;AccountKey={base64.b64encode(b'k').decode()};QueueEndpoint=http://127.0.0.1:9/a"
            },
            "the storage account cannot be reached: [Errno",
        ),
        ({"STORAGE_ACCOUNT_NAME": "abc"}, "no one is signed in who could read the storage account: run `az login`"),
    ],
    ids=["none", "none, locally", "nonsense", "nobody there", "nobody signed in"],
)
def test_what_is_missing_is_said(operator: Operator, environment: dict[str, str], message: str) -> None:
    code, output, messages = operator.run(
        "queue", "internal", environment={"AZURE_STORAGE_CONNECTION_STRING": "", **environment}
    )
    assert (code, output) == (1, "")
    assert message in messages
    assert len(messages.splitlines()) == 1


def test_a_deployment_that_lives_is_not_restored_over(operator: Operator) -> None:
    task_id, folder = operator.create(), str(operator.folder / "backup")
    operator.result("backup", "export", folder)
    assert operator.claim()
    code, _, messages = operator.run("backup", "restore", folder)
    assert code == 1
    assert "Tasks" in messages
    assert "--overwrite" in messages
    assert operator.queue().status(task_id)["status"]["state"] == "running"
    code, _, messages = operator.run("backup", "export", folder)
    assert code == 1
    assert "has an export of" in messages
