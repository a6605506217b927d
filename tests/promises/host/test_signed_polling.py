"""Workers that poll Azure queues themselves, by signed URLs (contract 15, design 4)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.promises.host import bare_worker
from tests.promises.host.bare_worker import Plain, claims, find, poll, poll_urls
from tests.promises.host.service import Service, eventually
from tests.promises.host.wire import API, send

GROUP_RESOLVED = ("task-group-resolved", None)
"""A task that names no group is one of its own."""


def found(service: Service, *, count: int = 1, hidden: int | None = None) -> Plain:
    """Returns an answer with a message, as soon as there is one."""
    return eventually(lambda: find(service, count=count, hidden=hidden))


def claimed_after_expiry(service: Service, text: str, worker: str) -> list[dict[str, Any]]:
    """Returns the claims of a poll's answer whose run became pending when a claim expired. The handler of the expired
    claim may commit in the middle of the call: then the call claims nothing, and the message is shown again at once."""
    return claims(service, text, worker=worker) or eventually(
        lambda: claims(service, found(service).text, worker=worker)
    )


def test_http_and_a_search_for_a_string_are_enough(service: Service) -> None:
    task_id = service.create(payload={"command": ["true"]})
    answer = found(service)
    (claim,) = claims(service, answer.text)
    assert claim["status"]["taskId"] == task_id
    assert claim["status"]["runs"][0]["workerId"] == "bare"
    assert claim["task"]["payload"] == {"command": ["true"]}
    service.worker(claim).reportCompleted(task_id, 0)
    assert service.status(task_id)["state"] == "completed"
    service.events.expect(
        task_id, ("task-defined", None), ("task-pending", 0), ("task-running", 0), ("task-completed", 0), GROUP_RESOLVED
    )


@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_urls_say_until_when_they_hold(service: Service, slash: str) -> None:
    answer = send(service, "GET", f"{API}/poll-task-url/{service.pool.replace('/', slash)}")
    assert answer.status == 200
    assert answer.body.keys() == {"queues", "expires"}
    life = datetime.fromisoformat(answer.body["expires"]) - datetime.now(UTC)
    assert timedelta(minutes=29) < life <= timedelta(minutes=30)
    for queue in answer.body["queues"]:
        assert queue.keys() == {"signedPollUrl", "signedDeleteUrl"}
        assert urlsplit(queue["signedPollUrl"]).path.endswith("/messages")
        assert urlsplit(queue["signedDeleteUrl"]).path.endswith("/messages/{{messageId}}")
        query = parse_qs(urlsplit(queue["signedPollUrl"]).query)
        assert query["sp"] == ["p"]
        assert query["visibilitytimeout"] == ["300"]
        assert datetime.fromisoformat(query["se"][0]) == datetime.fromisoformat(answer.body["expires"])
        assert datetime.fromisoformat(query["st"][0]) < datetime.now(UTC) - timedelta(minutes=14)


def test_urls_are_good_for_taking_and_deleting_in_one_queue_and_nothing_else(service: Service) -> None:
    first, second = poll_urls(service)[:2]
    url, sas = first["signedPollUrl"].split("?", 1)[0], first["signedPollUrl"].split("&", 1)[1]
    queue = url.removesuffix("/messages")
    other = second["signedPollUrl"].split("?", 1)[0]
    message = "<QueueMessage><MessageText>eA==</MessageText></QueueMessage>"
    assert bare_worker.request("GET", f"{url}?{sas}").status == 200
    assert bare_worker.request("POST", f"{url}?{sas}", message).status == 403
    assert bare_worker.request("GET", f"{url}?peekonly=true&{sas}").status == 403
    assert bare_worker.request("GET", f"{queue}?comp=metadata&{sas}").status == 403
    assert bare_worker.request("DELETE", f"{queue}?{sas}").status == 403
    assert bare_worker.request("GET", f"{other}?{sas}").status == 403


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "InputError"),
        ("<html>", "InputError"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><QueueMessagesList>&b;</QueueMessagesList>', "InputError"),
        ("<Error><Code>AuthenticationFailed</Code></Error>", "InputError"),
        ("x" * 300_000, "InputValidationError"),
    ],
)
def test_what_is_no_answer_of_azure_is_refused(service: Service, text: str, code: str) -> None:
    answer = bare_worker.claim(service, text)
    assert (answer.status, answer.code) == (400, code)


def test_the_older_form_claims_by_task_and_deletes_the_message_itself(service: Service) -> None:
    task_id = service.create()
    queue = poll_urls(service)[-1]
    answer = poll(queue["signedPollUrl"])
    (body,) = answer.bodies
    claim = service.queue.claimTask(body["taskId"], body["runId"], {"workerGroup": "g", "workerId": "old"})
    deleted = bare_worker.delete(queue, answer.values("MessageId")[0], answer.values("PopReceipt")[0])
    assert deleted.status == 204
    worker = service.worker(claim)
    worker.reclaimTask(task_id, 0)
    worker.reportCompleted(task_id, 0)
    assert service.status(task_id)["state"] == "completed"


def test_at_taken_until_the_message_is_there_for_the_next_run(hasty: Service) -> None:
    task_id = hasty.create()
    (first,) = claims(hasty, found(hasty).text, worker="first")
    answer = found(hasty)
    late = time.time() - datetime.fromisoformat(first["takenUntil"]).timestamp()
    assert -0.1 < late < 2, "seconds after takenUntil"
    assert [(body["taskId"], body["runId"]) for body in answer.bodies] == [(task_id, 1)]
    (second,) = claimed_after_expiry(hasty, answer.text, "second")
    assert (second["status"]["taskId"], second["runId"]) == (task_id, 1)
    hasty.worker(second).reportCompleted(task_id, 1)
    status = hasty.status(task_id)
    assert [(run["reasonResolved"], run["workerId"]) for run in status["runs"]] == [
        ("claim-expired", "first"),
        ("completed", "second"),
    ]
    hasty.events.expect(
        task_id,
        ("task-defined", None),
        *(("task-pending", run) for run in (0, 1)),
        *(("task-running", run) for run in (0, 1)),
        ("task-exception", 0),
        ("task-completed", 1),
        GROUP_RESOLVED,
    )
