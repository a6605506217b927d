"""The public JavaScript client, unchanged: a task's life, signed URLs, errors and pages."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Credentials, Deployment, Outcome, a_task, format_time, javascript
from tools.local import state

SCRIPT = Path(__file__).with_name("main_job.mjs")
NAMES = ["private/c", "public/a b.txt", "public/a/+?#%.txt", "public/it's (1).txt", "public/log", "public/z"]


def run_main_job(deployment: Deployment, task_id: str, task: dict[str, Any]) -> Any:
    """Returns what main_job.mjs writes."""
    options = deployment.options(deployment.root)
    options["retries"] = options.pop("maxRetries")
    artifact = {
        "storageType": "s3",
        "contentType": "text/plain",
        "contentLength": 40,
        "expires": format_time(timedelta(minutes=30)),
    }
    given = {"options": options, "taskId": task_id, "task": task, "names": NAMES, "artifact": artifact}
    done = subprocess.run(
        ["node", str(SCRIPT)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=state.ROOT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def call(
    deployment: Deployment, method: str, *args: Any, credentials: Credentials | None = None, **more: Any
) -> dict[str, Any]:
    """Returns a call of the queue for `javascript`, by default as root."""
    return deployment.javascript_call(method, *args, service="Queue", credentials=credentials, **more)


def test_the_life_of_a_task(deployment: Deployment) -> None:
    task_id = new_slugid()
    task = a_task("js/life", payload={"command": ["true"]}, tags={"a": "ü"})
    found = run_main_job(deployment, task_id, task)
    assert found["created"]["status"]["state"] == "pending"
    (claim,) = found["claims"]
    assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 0)
    assert claim["task"] == found["task"]
    assert found["task"]["payload"] == task["payload"]
    assert found["task"]["tags"] == task["tags"]
    assert found["reclaimed"]["takenUntil"] >= claim["takenUntil"]
    assert found["completed"]["status"] == found["status"]["status"]
    (run,) = found["status"]["status"]["runs"]
    assert (run["state"], run["reasonResolved"]) == ("completed", "completed")
    assert found["contents"] == {name: ["text/plain", name] for name in NAMES}
    assert found["pages"] == [NAMES[:2], NAMES[2:4], NAMES[4:]]
    assert found["binding"] == ["exchange/taskcluster-queue/v1/task-completed", f"primary.{task_id}.{'*.' * 7}#"]


def test_signed_urls(deployment: Deployment) -> None:
    task_id = new_slugid()
    created, signed, elsewhere = javascript(
        call(deployment, "createTask", task_id, a_task("js/signed"), credentials=deployment.root),
        {**call(deployment, "status", task_id, credentials=deployment.root), "operation": "signedUrl"},
        {
            **call(deployment, "taskQueueCounts", "js/signed", credentials=deployment.root),
            "operation": "signedUrl",
        },
    )
    assert created.status == 200
    answers = [get(deployment, signed), get(deployment, elsewhere)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].body == created.body
    assert answers[1].body["pendingTasks"] == 1
    target = signed.body.replace(task_id, new_slugid())
    assert get(deployment, Outcome(200, target)).code == "AuthenticationFailed"
    scarce = deployment.new_client("queue:status:other")
    (unfit,) = javascript({**call(deployment, "status", task_id, credentials=scarce), "operation": "signedUrl"})
    assert get(deployment, unfit).code == "InsufficientScopes"


def get(deployment: Deployment, signed: Outcome) -> Outcome:
    """Returns the answer at a signed URL."""
    parts = urlsplit(signed.body)
    return deployment.request("GET", f"{parts.path}?{parts.query}")


def test_errors(deployment: Deployment) -> None:
    task_id = new_slugid()
    task = a_task("js/errors")
    root, scarce = deployment.root, deployment.new_client("queue:status:*")
    outcomes = javascript(
        call(deployment, "task", task_id, credentials=root),
        call(deployment, "createTask", task_id, task, credentials=root),
        call(deployment, "createTask", task_id, task, credentials=root),
        call(deployment, "createTask", task_id, {**task, "payload": {"another": 1}}, credentials=root),
        call(deployment, "createTask", new_slugid(), {**task, "unheard": 1}, credentials=root),
        call(deployment, "task", "no-slug", credentials=root),
        call(deployment, "reportCompleted", task_id, "1", credentials=root),
        call(deployment, "listTaskGroup", task_id, {"limit": "x"}, credentials=root),
        call(deployment, "cancelTask", task_id, credentials=scarce),
        call(deployment, "status", task_id, credentials=scarce),
        call(deployment, "cancelTask", task_id),
        call(deployment, "cancelTask", task_id, credentials={**root, "accessToken": "x" * 44}),
    )
    assert [(outcome.status, outcome.code) for outcome in outcomes] == [
        (404, "ResourceNotFound"),
        (200, None),
        (200, None),
        (409, "RequestConflict"),
        (400, "InputValidationError"),
        (400, "InvalidRequestArguments"),
        (404, "ResourceNotFound"),
        (400, "InvalidRequestArguments"),
        (403, "InsufficientScopes"),
        (200, None),
        (403, "InsufficientScopes"),
        (401, "AuthenticationFailed"),
    ]
    for outcome in outcomes:
        if outcome.code:
            message = outcome.body["message"]
            assert f"* errorCode:  {outcome.code}" in message
            assert f"* statusCode: {outcome.status}" in message
    body = outcomes[3].body["body"]
    assert body.keys() == {"code", "message", "requestInfo"}
    assert body["requestInfo"]["method"] == "createTask"
    assert body["requestInfo"]["params"] == {"taskId": task_id}
    assert body["requestInfo"]["payload"]["payload"] == {"another": 1}


def test_pages_of_a_group(deployment: Deployment) -> None:
    group = new_slugid()
    task_ids = sorted({new_slugid() for _ in range(5)})
    created = javascript(
        *(
            call(
                deployment,
                "createTask",
                task_id,
                a_task("js/pages", taskGroupId=group),
                credentials=deployment.root,
            )
            for task_id in task_ids
        )
    )
    assert {outcome.status for outcome in created} == {200}
    listed: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    sizes = []
    while query:
        (page,) = javascript(call(deployment, "listTaskGroup", group, query, credentials=deployment.root))
        assert page.status == 200, page
        sizes.append(len(page.body["tasks"]))
        listed += [entry["status"]["taskId"] for entry in page.body["tasks"]]
        token = page.body.get("continuationToken")
        query = {"limit": "2", "continuationToken": token} if token else {}
    assert (sorted(listed), sizes) == (task_ids, [2, 2, 1])
