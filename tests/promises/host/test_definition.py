"""Every field of a definition, with its limits, defaults and patterns (contract 3.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.base.dates import a_year_after, format_date, parse_date
from shared.base.ids import new_slugid
from tests.promises.host.service import METADATA, Refused, Service, outcome, refused
from tests.promises.host.wire import send

A_SLUGID = "AAAAAAAAQACAAAAAAAAAAA"
TEXTS = "\u0001 \t\n\" \\ ' < & é ü 漢字 😀 \u2028 \ufffd"

DEFAULTS = {
    "schedulerId": "-",
    "projectId": "none",
    "dependencies": [],
    "requires": "all-completed",
    "routes": [],
    "priority": "lowest",
    "retries": 5,
    "scopes": [],
    "tags": {},
    "extra": {},
}


def metadata(**changes: Any) -> dict[str, Any]:
    return {**METADATA, **changes}


def test_defaults_are_filled_in_and_nothing_else_is_added(service: Service) -> None:
    task_id, given = new_slugid(), service.a_task()
    service.queue.createTask(task_id, given)

    provisioner_id, worker_type = service.pool.split("/")
    assert service.queue.task(task_id) == {
        **DEFAULTS,
        **given,
        "provisionerId": provisioner_id,
        "workerType": worker_type,
        "taskGroupId": task_id,
        "expires": format_date(a_year_after(parse_date(given["deadline"]))),
    }


def test_status_of_a_new_task(service: Service) -> None:
    task_id, group = new_slugid(), new_slugid()
    given = service.a_task(taskGroupId=group, schedulerId="me", projectId="my/project", priority="high", retries=2)
    answer = service.queue.createTask(task_id, given)

    (run,) = answer["status"]["runs"]
    provisioner_id, worker_type = service.pool.split("/")
    assert answer["status"] == {
        "taskId": task_id,
        "provisionerId": provisioner_id,
        "workerType": worker_type,
        "taskQueueId": service.pool,
        "schedulerId": "me",
        "projectId": "my/project",
        "taskGroupId": group,
        "priority": "high",
        "deadline": given["deadline"],
        "expires": service.queue.task(task_id)["expires"],
        "retriesLeft": 2,
        "state": "pending",
        "runs": [{"runId": 0, "state": "pending", "reasonCreated": "scheduled", "scheduled": run["scheduled"]}],
    }
    assert service.queue.status(task_id) == answer


LONGEST_ID = "aZ-_9" * 7 + "abc"

ACCEPTED: dict[str, dict[str, Any]] = {
    "longest schedulerId": {"schedulerId": LONGEST_ID},
    "projectId of all signs": {"projectId": "aZ09._/-"},
    "longest projectId": {"projectId": "p" * 500},
    "all-resolved": {"requires": "all-resolved"},
    "64 routes": {"routes": [f"r{n}" for n in range(64)]},
    "longest route": {"routes": ["r" * 249]},
    "route of any characters": {"routes": ["é.😀. |~%\\'"]},
    "highest": {"priority": "highest"},
    "no retries": {"retries": 0},
    "most retries": {"retries": 49},
    "retries as a float without a fraction": {"retries": 7.0},
    "scopes twice": {"scopes": ["a", "a"]},
    "many scopes": {"scopes": [f"scope:{n}" for n in range(2000)]},
    "empty scope": {"scopes": [""]},
    "star scope": {"scopes": ["*"]},
    "scope of all signs": {"scopes": ["".join(map(chr, range(0x20, 0x7F)))]},
    "any payload": {"payload": {"a": [1, 1.5, None, True, {"b": TEXTS}], "": {}, TEXTS: "x", "big": 2**53}},
    "empty metadata": {"metadata": metadata(name="", description="", owner="")},
    "longest metadata": {
        "metadata": metadata(
            name="😀" * 255, owner="o" * 255, description="d" * 32768, source="https://x/" + "s" * 4086
        )
    },
    "source of http": {"metadata": metadata(source="http://example.com")},
    "source of ssh": {"metadata": metadata(source="ssh://git@example.com/x")},
    "source of git": {"metadata": metadata(source="git@example.com:x/y")},
    "tags": {"tags": {"": "", TEXTS: TEXTS, "long": "😀" * 4096}},
    "extra": {"extra": {"deep": [[[[{"a": None}]]]]}},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_and_answered_as_given(service: Service, name: str) -> None:
    task_id = service.create(**ACCEPTED[name])
    stored = service.queue.task(task_id)
    assert {key: stored[key] for key in ACCEPTED[name]} == ACCEPTED[name]


REFUSED: dict[str, dict[str, Any]] = {
    "unknown property": {"foo": 1},
    "provisionerId too long": {"provisionerId": "p" * 39},
    "provisionerId with a slash": {"provisionerId": "a/b"},
    "workerType in upper case": {"workerType": "Linux"},
    "workerType with an underscore": {"workerType": "a_b"},
    "workerType ending in a dash": {"workerType": "a-"},
    "workerType beginning with a digit": {"workerType": "1a"},
    "workerType too long": {"workerType": "w" * 39},
    "taskQueueId without a slash": {"taskQueueId": "linux"},
    "taskQueueId with two": {"taskQueueId": "a/b/c"},
    "taskQueueId with a newline": {"taskQueueId": "a/b\n"},
    "empty schedulerId": {"schedulerId": ""},
    "schedulerId too long": {"schedulerId": "s" * 39},
    "schedulerId with a dot": {"schedulerId": "a.b"},
    "empty projectId": {"projectId": ""},
    "projectId too long": {"projectId": "p" * 501},
    "projectId with a space": {"projectId": "a b"},
    "taskGroupId no slugid": {"taskGroupId": "group"},
    "dependency no slugid": {"dependencies": ["task"]},
    "dependency twice": {"dependencies": [A_SLUGID, A_SLUGID]},
    "other requires": {"requires": "all-failed"},
    "65 routes": {"routes": [f"r{n}" for n in range(65)]},
    "route twice": {"routes": ["r", "r"]},
    "empty route": {"routes": [""]},
    "route too long": {"routes": ["r" * 250]},
    "route no text": {"routes": [1]},
    "routes no list": {"routes": "r"},
    "priority normal": {"priority": "normal"},
    "priority in upper case": {"priority": "HIGH"},
    "negative retries": {"retries": -1},
    "50 retries": {"retries": 50},
    "retries with a fraction": {"retries": 1.5},
    "retries as text": {"retries": "5"},
    "retries as a boolean": {"retries": True},
    "created no date": {"created": "now"},
    "created a number": {"created": 1767225600},
    "deadline a date only": {"deadline": "2030-01-01"},
    "expires impossible": {"expires": "2030-02-30T00:00:00Z"},
    "scope beyond ASCII": {"scopes": ["é"]},
    "scope with a newline": {"scopes": ["a\n"]},
    "scopes no list": {"scopes": "a"},
    "payload a list": {"payload": []},
    "payload text": {"payload": "x"},
    "metadata without owner": {"metadata": {"name": "", "description": "", "source": "https://x"}},
    "metadata with more": {"metadata": metadata(more="x")},
    "metadata name too long": {"metadata": metadata(name="n" * 256)},
    "metadata owner too long": {"metadata": metadata(owner="o" * 256)},
    "metadata description too long": {"metadata": metadata(description="d" * 32769)},
    "metadata source too long": {"metadata": metadata(source="https://x/" + "s" * 4087)},
    "empty source": {"metadata": metadata(source="")},
    "source of ftp": {"metadata": metadata(source="ftp://example.com")},
    "tag no text": {"tags": {"a": 1}},
    "tag too long": {"tags": {"a": "x" * 4097}},
    "extra text": {"extra": "x"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_the_schema(service: Service, name: str) -> None:
    task_id = new_slugid()
    with refused(400, "InputValidationError") as errors:
        service.queue.createTask(task_id, service.a_task(**REFUSED[name]))

    (changed,) = REFUSED[name]
    assert f"data.{changed}" in errors[0].message
    with refused(404, "ResourceNotFound"):
        service.queue.task(task_id)


@pytest.mark.parametrize("name", ["created", "deadline", "payload", "metadata"])
def test_a_missing_required_property_is_refused(service: Service, name: str) -> None:
    with refused(400, "InputValidationError") as errors:
        service.queue.createTask(new_slugid(), service.a_task(**{name: None}))
    assert f"data.{name} is required" in errors[0].message


def test_task_queue_by_its_halves(service: Service) -> None:
    provisioner_id, worker_type = service.pool.split("/")
    halves = {"provisionerId": provisioner_id, "workerType": worker_type}
    for given in (
        {"taskQueueId": None, **halves},
        {"taskQueueId": service.pool, **halves},
        {"taskQueueId": service.pool, "workerType": "other"},
        {"taskQueueId": service.pool, "provisionerId": "other"},
    ):
        stored = service.queue.task(service.create(**given))
        assert (stored["taskQueueId"], stored["provisionerId"], stored["workerType"]) == (
            service.pool,
            *halves.values(),
        )


NUMBERS = json.loads((Path(__file__).parents[2] / "parts" / "unit" / "numbers_of_javascript.json").read_text())
SENT = "[" + ", ".join(sent for sent, _ in NUMBERS) + "]"
WRITTEN = "[" + ", ".join(written for _, written in NUMBERS) + "]"


def exactly(value: Any) -> str:
    """Returns a text in which 1 and 1.0 differ."""
    return json.dumps(value, sort_keys=True)


def test_numbers_come_back_as_javascript_writes_them(service: Service) -> None:
    """Numbers are returned as JavaScript writes them; definitions are the same however their numbers were written
    (contract 1.4, 3.5)."""
    task_id = new_slugid()
    given = json.dumps(service.a_task(payload={"numbers": "here"}, extra={"a": {"numbers": "here"}}))
    for numbers in (SENT, WRITTEN, SENT):
        body = given.replace('"here"', numbers).encode()
        assert send(service, "PUT", f"/api/queue/v1/task/{task_id}", body).status == 200
    expected = exactly(json.loads(WRITTEN))
    (claim,) = service.claim()
    for task in (service.queue.task(task_id), claim["task"]):
        assert exactly(task["payload"]["numbers"]) == exactly(task["extra"]["a"]["numbers"]) == expected


def indexed(service: Service, path: str) -> Any:
    """Returns what is indexed at a path, None for nothing."""
    found = outcome(lambda: service.index.findTask(path))
    return None if isinstance(found, Refused) else found
