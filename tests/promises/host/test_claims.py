"""claimWork, claimTask, reclaimTask and their credentials (contract 5)."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from shared.base.dates import parse_date
from shared.base.ids import new_slugid
from tests.promises.host.service import Service, at_once, eventually, refused
from tests.promises.host.wire import API, Answer, send

ME = {"workerGroup": "group", "workerId": "me"}
CLAIM_TIMEOUT = timedelta(minutes=20)


def test_a_claim_says_all(service: Service) -> None:
    task_id = service.create(scopes=["secrets:get:x*"])
    before = datetime.now(UTC)
    (claim,) = service.queue.claimWork(service.pool, ME)["tasks"]

    assert claim.keys() == {"status", "runId", "workerGroup", "workerId", "takenUntil", "task", "credentials"}
    assert (claim["runId"], claim["workerGroup"], claim["workerId"]) == (0, "group", "me")
    assert claim["task"] == service.queue.task(task_id)
    assert claim["status"] == service.status(task_id)
    (run,) = claim["status"]["runs"]
    assert run["state"] == claim["status"]["state"] == "running"
    assert (run["workerGroup"], run["workerId"], run["takenUntil"]) == ("group", "me", claim["takenUntil"])
    assert run.keys() == {
        "runId", "state", "reasonCreated", "scheduled", "started", "takenUntil", "workerGroup", "workerId"
    }  # fmt: skip
    taken = parse_date(claim["takenUntil"]) - CLAIM_TIMEOUT
    assert timedelta(seconds=-1) < taken - before < timedelta(seconds=10)


def test_a_worker_that_waits_is_told_by_an_answer_that_clients_repeat(service: Service) -> None:
    """A worker that waits is told of work by an answer 503, which clients repeat, and then gets the task. The answer is
    counted as told, not as a failure."""
    path = f"{API}/claim-work/{quote(service.pool, safe='')}"
    call = partial(send, service, "POST", path, json.dumps(ME).encode())

    def told() -> Answer | None:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(call)
            load = f"{API}/task-queues/{quote(service.pool, safe='')}/load"
            eventually(lambda: waiting.done() or send(service, "GET", load).body["waitingWorkers"]["claimWork"])
            task_ids.append(service.create())
            return answer if (answer := waiting.result()).status == 503 else None

    task_ids = [service.completed()]
    answer = eventually(told, 30)
    assert (answer.code, answer.headers["retry-after"]) == ("CallAgain", "0")
    assert call().body["tasks"][0]["status"]["taskId"] in task_ids
    assert send(service, "GET", f"{API}/operations").body["toldWorkers"]["repeat"] >= 1
    metrics = send(service, "GET", "/metrics").text.decode()
    lines = [line for line in metrics.splitlines() if line.startswith("queue_call_duration_seconds_count")]
    assert any('call="claimWork",outcome="told"' in line for line in lines)
    assert not any('call="claimWork",outcome="503"' in line for line in lines)


def test_credentials_of_a_claim(service: Service) -> None:
    claim = service.claimed(scopes=["secrets:get:x*", "b"])
    task_id, credentials = claim["status"]["taskId"], claim["credentials"]

    assert credentials.keys() == {"clientId", "accessToken", "certificate"}
    client_id, _, until = credentials["clientId"].rpartition("/until/")
    assert client_id == f"task-client/{task_id}/0/on/g/w"
    assert float(until) == parse_date(claim["takenUntil"]).timestamp()
    certificate = json.loads(credentials["certificate"])
    assert certificate["scopes"] == [
        f"queue:reclaim-task:{task_id}/0",
        f"queue:resolve-task:{task_id}/0",
        f"queue:create-artifact:{task_id}/0",
        "secrets:get:x*",
        "b",
    ]
    assert certificate["expiry"] == parse_date(claim["takenUntil"]).timestamp() * 1000
    assert 0 <= CLAIM_TIMEOUT.total_seconds() * 1000 - (certificate["expiry"] - certificate["start"]) < 10_000


def test_what_the_credentials_of_a_claim_allow(service: Service) -> None:
    mine, other = service.claimed(), service.claimed()
    worker, task_id, other_id = service.worker(mine), mine["status"]["taskId"], other["status"]["taskId"]
    for call in (worker.reclaimTask, worker.reportCompleted, worker.reportFailed):
        with refused(403, "InsufficientScopes"):
            call(other_id, 0)
        with refused(403, "InsufficientScopes"):
            call(task_id, 1)
    with refused(403, "InsufficientScopes"):
        worker.cancelTask(task_id)
    with refused(403, "InsufficientScopes"):
        worker.claimWork(service.pool, ME)
    with refused(403, "InsufficientScopes"):
        worker.createTask(new_slugid(), service.a_task())
    worker.reclaimTask(task_id, 0)
    worker.reportException(task_id, 0, {"reason": "internal-error"})


def test_scopes_of_claim_work(service: Service) -> None:
    needed = [f"queue:claim-work:{service.pool}", "queue:worker-id:group/me"]
    for scopes in (
        [],
        needed[:1],
        needed[1:],
        [needed[0], "queue:worker-id:group/you"],
        ["queue:claim-work:a/b", needed[1]],
    ):
        with refused(403, "InsufficientScopes"):
            service.with_scopes(*scopes).claimWork(service.pool, ME)
    service.create()
    assert len(service.with_scopes(*needed).claimWork(service.pool, ME)["tasks"]) == 1


def test_a_long_poll_ends_when_a_task_comes(service: Service) -> None:
    """A long poll ends when a task comes, on whichever host the task is created."""

    def wait() -> Any:
        for _ in range(10):
            tasks = service.queue.claimWork(service.pool, ME)["tasks"]
            if tasks:
                return tasks
        return []

    def create_later() -> str:
        time.sleep(0.4)
        return service.create()

    claims, task_id = at_once(wait, create_later)
    assert [claim["status"]["taskId"] for claim in claims] == [task_id]


# claimTask (contract 2.4)


def test_claim_task(service: Service) -> None:
    task_id = service.create()
    claim = service.queue.claimTask(task_id, 0, ME)
    assert claim["task"] == service.queue.task(task_id)
    assert (claim["runId"], claim["workerId"], claim["status"]["state"]) == (0, "me", "running")
    again = service.queue.claimTask(task_id, 0, ME)
    assert again["takenUntil"] == claim["takenUntil"]
    assert again["credentials"]["accessToken"] != claim["credentials"]["accessToken"]
    with refused(409, "RequestConflict"):
        service.queue.claimTask(task_id, 0, {**ME, "workerId": "you"})
    assert service.queue.claimWork(service.pool, ME) == {"tasks": []}
    service.worker(again).reportCompleted(task_id, 0)
    with refused(409, "RequestConflict"):
        service.queue.claimTask(task_id, 0, ME)


@pytest.mark.parametrize("call", ["reclaimTask", "reportCompleted", "reportFailed"])
def test_other_calls_of_workers_take_the_scopes_of_their_run_alone(service: Service, call: str) -> None:
    """The other calls of workers take the scopes of their run alone, not those of before 2016 (contract 2.2)."""
    task_id = service.create()
    service.queue.claimTask(task_id, 0, ME)
    old = ["queue:claim-task", "queue:resolve-task", "assume:worker-id:group/me"]
    with refused(403, "InsufficientScopes"):
        getattr(service.with_scopes(*old), call)(task_id, 0)
    action = "reclaim" if call == "reclaimTask" else "resolve"
    getattr(service.with_scopes(f"queue:{action}-task:{task_id}/0"), call)(task_id, 0)
