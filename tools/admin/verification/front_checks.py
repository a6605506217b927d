"""The app behind Azure's front end: paths, queries, long polls, clocks, signed URLs, and one task from end to end."""

from __future__ import annotations

import gzip
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import taskcluster

from shared.api.validation import MAX_BODY
from tools.admin.connection import credentials
from tools.admin.signing import signed_url
from tools.admin.verification.core import PREFIX, SECONDS, Check, Deployment, Differs, expect

POOL = f"{PREFIX}/{PREFIX}"
"""The pool of the checks' task. Its queues are deleted when they were not used for 30 days."""
IDLE_POOL = f"{POOL}-idle"
"""Another pool that never has a task. In the first one, a check that failed may have left its own."""
SKEW = 30
"""Seconds that clocks may differ; Hawk allows a minute and more, signed URLs start in the past."""
CONTENT = b"what verify uploads\n"
MORE_THAN_RELAYED = 1 << 30
"""Bytes of an artifact that comes straight into storage, if `ARTIFACT_UPLOAD_MODE` allows for that."""


def answers(deployment: Deployment) -> str:
    """The app responds, and says what it is."""
    found = deployment.session.get(f"{deployment.root_url}/api/queue/v1/__version__", timeout=SECONDS)
    expect(found.status_code == 200, f"__version__ returns {found.status_code}")
    return json.dumps(found.json())


def raw_paths(deployment: Deployment) -> None:
    """A signature over a path with encoded slashes is good: the path arrives as it was sent, or can be found out."""
    client_id = deployment.environment["TASKCLUSTER_CLIENT_ID"]
    expect("/" in client_id, f"{client_id} has no slash: use the root client")
    found = deployment.api("Auth").client(client_id)["clientId"]
    expect(found == client_id, f"asked for {client_id}, the app returns {found}")


def raw_queries(deployment: Deployment) -> None:
    """A signature over a query is good whose characters clients encode in more than one way."""
    deployment.api("Auth").listClients(query={"prefix": "a+b/@|:c"})


def no_homepage(deployment: Deployment) -> None:
    """The root is the app's own, and not the platform's page about a function app."""
    found = deployment.session.get(f"{deployment.root_url}/", timeout=SECONDS)
    expect("up and running" not in found.text, "the root shows the platform's page")


def clocks(deployment: Deployment) -> str:
    """The clocks of this machine, the app and storage agree."""
    app = deployment.session.get(f"{deployment.root_url}/api/queue/v1/ping", timeout=SECONDS)
    storage = deployment.session.get(deployment.queues.url, timeout=SECONDS)
    now = datetime.now(UTC)
    skews = {
        name: (parsedate_to_datetime(answer.headers["Date"]) - now).total_seconds()
        for name, answer in (("app", app), ("storage", storage))
        if "Date" in answer.headers
    }
    for name, skew in skews.items():
        expect(abs(skew) <= SKEW, f"the clock of the {name} is {skew:+.0f} s off this machine's")
    return ", ".join(f"{name} {skew:+.0f} s" for name, skew in skews.items())


def long_polls(deployment: Deployment) -> str:
    """A claim that finds nothing is held until the app responds: nothing on the way cuts it off."""
    began = time.monotonic()
    found = deployment.api("Queue").claimWork(IDLE_POOL, _worker())
    expect(found["tasks"] == [], f"there are tasks in the pool {IDLE_POOL}")
    return f"answered after {time.monotonic() - began:.0f} s"


def _worker() -> dict[str, Any]:
    return {"workerGroup": PREFIX, "workerId": PREFIX, "tasks": 1}


def large_bodies(deployment: Deployment) -> str:
    """The host takes no body that is larger than calls need, whatever the path: it holds each in memory."""
    length = 2 * MAX_BODY
    answer = deployment.session.post(f"{deployment.root_url}/nothing", data=bytes(length), timeout=SECONDS)
    expect(answer.status_code in (413, 500), f"a body of {length} bytes is answered with {answer.status_code}")
    return f"answered with {answer.status_code}"


def poll_rights(deployment: Deployment) -> str:
    """The app signs URLs of its queues, and they let a worker receive and remove messages, and nothing else."""
    poll = signed_url(
        credentials(deployment.environment),
        f"{deployment.root_url}/api/queue/v1/poll-task-url/{POOL}",
        timedelta(minutes=5),
    )
    found = deployment.session.get(poll, timeout=SECONDS)
    expect(found.status_code == 200, f"pollTaskUrls returns {found.status_code}: {found.text[:300]}")
    queues = found.json()["queues"]
    for each in queues:
        url = urlsplit(each["signedPollUrl"])
        base, signature = f"{url.scheme}://{url.netloc}{url.path}", url.query
        expect(deployment.session.get(url.geturl(), timeout=SECONDS).status_code == 200, "polling is refused")
        body = "<QueueMessage><MessageText>YQ==</MessageText></QueueMessage>"
        asked = {
            "peeking": deployment.session.get(f"{base}?peekonly=true&{signature}", timeout=SECONDS),
            "putting": deployment.session.post(f"{base}?{signature}", data=body, timeout=SECONDS),
            "reading the count": deployment.session.get(
                f"{base.removesuffix('/messages')}?comp=metadata&{signature}", timeout=SECONDS
            ),
        }
        for what, answer in asked.items():
            expect(answer.status_code == 403, f"{what} with a URL for polling answers {answer.status_code}, not 403")
    return f"{len(queues)} queues"


def one_task(deployment: Deployment) -> str:
    """A task is created, claimed, uploads and downloads artifacts by signed URLs, and is resolved."""
    queue, task_id = deployment.api("Queue"), taskcluster.slugId()
    task = _task()
    queue.createTask(task_id, task)
    claimed = _claimed(queue, task_id)
    try:
        for stated in (len(CONTENT), MORE_THAN_RELAYED):
            _artifact(deployment, queue, task_id, task["expires"], stated)
    finally:
        worker = taskcluster.Queue(
            {"rootUrl": deployment.root_url, "credentials": claimed["credentials"], "maxRetries": 0}, deployment.session
        )
        state = worker.reportCompleted(task_id, 0)["status"]["state"]
    expect(state == "completed", f"the task is {state}")
    return f"{task_id}, 2 artifacts"


def _task() -> dict[str, Any]:
    now = datetime.now(UTC)
    words = {"name": PREFIX, "description": "./dev admin verify", "owner": "verify@example.com"}
    return {
        "taskQueueId": POOL,
        "created": now.isoformat(),
        "deadline": (now + timedelta(minutes=10)).isoformat(),
        "expires": (now + timedelta(days=1)).isoformat(),
        "payload": {},
        "metadata": {**words, "source": "https://example.com/verify"},
    }


def _claimed(queue: Any, task_id: str) -> Any:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for claim in queue.claimWork(POOL, _worker())["tasks"]:
            if claim["status"]["taskId"] == task_id:
                return claim
            # Of an earlier run that was cut off.
            queue.cancelTask(claim["status"]["taskId"])
    raise Differs(f"no worker is given the task {task_id} within {SECONDS} s")


def _artifact(deployment: Deployment, queue: Any, task_id: str, expires: str, stated: int) -> None:
    name, packed = f"public/verify-{stated}.txt", gzip.compress(CONTENT)
    request = {"storageType": "s3", "contentType": "text/plain", "contentLength": stated, "expires": expires}
    url = queue.createArtifact(task_id, 0, name, request)["putUrl"]
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    put = deployment.session.put(url, data=packed, headers=headers, timeout=SECONDS)
    expect(put.status_code in (200, 201), f"the upload is answered with {put.status_code}: {put.text[:200]}")
    got = deployment.session.get(queue.buildSignedUrl("getArtifact", task_id, "0", name), timeout=SECONDS)
    expect(got.content == CONTENT, f"the download is answered with {got.status_code} and other content")
    expect(got.headers.get("content-encoding") == "gzip", "what was sent as gzip is not stored as gzip")


CHECKS = (
    Check("answers", answers),
    Check("raw-paths", raw_paths),
    Check("raw-queries", raw_queries),
    Check("no-homepage", no_homepage),
    Check("clocks", clocks),
    Check("long-polls", long_polls),
    Check("large-bodies", large_bodies),
    Check("poll-rights", poll_rights),
    Check("one-task", one_task),
)
