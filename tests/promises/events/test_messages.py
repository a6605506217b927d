"""Messages are rendered as contract 10 says, field by field, and are always valid against the published schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import jsonschema  # type: ignore[import-untyped] # no types are shipped
import pytest

from shared.queue.events import rules as announcements
from shared.queue.events.exchanges import TOPICS
from shared.queue.events.models import MESSAGES
from shared.queue.events.rendering import EventMessage, render, render_group
from shared.queue.events.rules import Exchange, TaskEvent
from shared.queue.tasks.rules import Resolved
from tests.promises.events.builders import GROUP_ID, TASK_ID, Life, group_event
from tools.listen.filters import ENTRY_OF

SCHEMAS = {name: model.model_json_schema() for name, model in MESSAGES.items()}
TASK = {"tags": {"kind": "build"}}
KEY_END = f"prov.pool.sched.{GROUP_ID}._"


def at(minutes: int) -> str:
    return f"2026-01-01T12:{minutes:02d}:00.000Z"


def body(message: EventMessage) -> dict[str, Any]:
    """Checks the body against its schema, and returns it."""
    parsed: dict[str, Any] = json.loads(message.body)
    name = ENTRY_OF[Exchange(message.topic)].schema.removeprefix("v1/").removesuffix(".json#")
    checker = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=checker).validate(parsed)
    return parsed


def status(state: str, runs: list[dict[str, Any]], retries_left: int = 2, priority: str = "low") -> dict[str, Any]:
    return {
        "taskId": TASK_ID,
        "provisionerId": "prov",
        "workerType": "pool",
        "taskQueueId": "prov/pool",
        "schedulerId": "sched",
        "projectId": "proj",
        "taskGroupId": GROUP_ID,
        "priority": priority,
        "deadline": "2026-01-02T12:00:00.000Z",
        "expires": "2027-01-02T12:00:00.000Z",
        "retriesLeft": retries_left,
        "state": state,
        "runs": runs,
    }


def pending(run_id: int, scheduled: int, created: str = "scheduled") -> dict[str, Any]:
    return {"runId": run_id, "state": "pending", "reasonCreated": created, "scheduled": at(scheduled)}


def running(run: dict[str, Any], started: int) -> dict[str, Any]:
    held = {"workerGroup": "group-1", "workerId": "worker-1"}
    return {**run, **held, "state": "running", "takenUntil": at(started + 20), "started": at(started)}


def resolved(run: dict[str, Any], state: str, reason: str, minute: int) -> dict[str, Any]:
    return {**run, "state": state, "reasonResolved": reason, "resolved": at(minute)}


def only(messages: list[EventMessage]) -> EventMessage:
    (message,) = messages
    return message


def test_defined_shows_the_task_as_it_was_first_even_when_it_is_pending_by_now() -> None:
    life = Life.begin()
    life.schedule()
    life.change_priority("high")
    message = only(life.defined())
    assert message.topic == message.subject == "task-defined"
    assert body(message) == {"version": 1, "status": status("unscheduled", []), "task": TASK}
    assert message.properties == {
        "routingKey": f"primary.{TASK_ID}._._._.{KEY_END}",
        "routingKeyKind": "primary",
        "taskId": TASK_ID,
        "runId": "_",
        "workerGroup": "_",
        "workerId": "_",
        "provisionerId": "prov",
        "workerType": "pool",
        "schedulerId": "sched",
        "taskGroupId": GROUP_ID,
        "reserved": "_",
        "routes": "|.index.project.main.latest.|.notify.by-email.|",
        "cc0": "00|index.01|project.02|main.03|latest.04",
        "cc1": "00|notify.01|by-email.02",
    }
    assert message.message_id == f"{TASK_ID}/_/task-defined"


def test_the_events_of_a_full_life() -> None:
    life = Life.begin()
    message = only(life.schedule())
    run = pending(0, 0)
    assert message.topic == "task-pending"
    assert message.message_id == f"{TASK_ID}/0/task-pending"
    assert body(message) == {"version": 1, "status": status("pending", [run]), "runId": 0, "task": TASK}
    assert message.properties["routingKey"] == f"primary.{TASK_ID}.0._._.{KEY_END}"

    message = only(life.claim())
    run = running(run, started=1)
    worker = {"workerGroup": "group-1", "workerId": "worker-1"}
    assert message.topic == "task-running"
    assert body(message) == {
        "version": 1,
        "status": status("running", [run]),
        "runId": 0,
        **worker,
        "takenUntil": at(21),
        "task": TASK,
    }
    assert message.properties["routingKey"] == f"primary.{TASK_ID}.0.group-1.worker-1.{KEY_END}"

    assert life.reclaim() == [], "renewing a claim is not announced"
    run |= {"takenUntil": at(22)}

    message = only(life.create_artifact())
    assert message.topic == "artifact-created"
    assert body(message) == {
        "version": 1,
        "status": status("running", [run]),
        "runId": 0,
        **worker,
        "artifact": {
            "storageType": "reference",
            "name": "public/build.log",
            "expires": "2027-01-02T12:00:00.000Z",
            "contentType": "text/plain",
        },
    }

    message = only(life.report(Resolved.COMPLETED))
    run = resolved(run, "completed", "completed", 3)
    assert message.topic == "task-completed"
    assert body(message) == {"version": 1, "status": status("completed", [run]), "runId": 0, **worker, "task": TASK}
    assert message.properties["routingKey"] == f"primary.{TASK_ID}.0.group-1.worker-1.{KEY_END}"


def test_failure_names_the_worker() -> None:
    life = Life.begin()
    life.schedule()
    life.claim()
    message = only(life.report(Resolved.FAILED))
    assert message.topic == "task-failed"
    run = resolved(running(pending(0, 0), 1), "failed", "failed", 2)
    assert body(message) == {
        "version": 1,
        "status": status("failed", [run]),
        "runId": 0,
        "workerGroup": "group-1",
        "workerId": "worker-1",
        "task": TASK,
    }


def test_an_exception_that_is_retried_shows_the_retry_run_and_is_followed_by_pending() -> None:
    life = Life.begin()
    life.schedule()
    life.claim()
    exception, again = life.report_exception(Resolved.WORKER_SHUTDOWN)
    runs = [
        resolved(running(pending(0, 0), 1), "exception", "worker-shutdown", 2),
        pending(1, 2, "retry"),
    ]
    expected = {"version": 1, "status": status("pending", runs, retries_left=1), "task": TASK}
    worker = {"workerGroup": "group-1", "workerId": "worker-1"}
    assert exception.topic == "task-exception"
    assert body(exception) == {**expected, "runId": 0, **worker}
    assert exception.properties["runId"] == "0"
    assert again.topic == "task-pending"
    assert body(again) == {**expected, "runId": 1}
    assert again.properties["routingKey"] == f"primary.{TASK_ID}.1._._.{KEY_END}"


def test_cancel_names_a_worker_only_if_the_run_had_one() -> None:
    waiting = Life.begin()
    message = only(waiting.cancel())
    assert body(message) == {
        "version": 1,
        "status": status(
            "exception",
            [resolved({**pending(0, 0), "reasonCreated": "exception"}, "exception", "canceled", 0)],
        ),
        "runId": 0,
        "task": TASK,
    }
    assert message.properties["routingKey"] == f"primary.{TASK_ID}.0._._.{KEY_END}"

    held = Life.begin()
    held.schedule()
    held.claim()
    message = only(held.cancel())
    assert body(message)["workerGroup"] == "group-1"
    assert message.properties["workerId"] == "worker-1"


@pytest.mark.parametrize("exchange", [Exchange.TASK_GROUP_RESOLVED, Exchange.TASK_GROUP_SEALED])
def test_group_messages(exchange: Exchange) -> None:
    event = group_event(exchange)
    message = render_group(event)
    assert message.topic == exchange.value
    assert body(message) == {
        "version": 1,
        "taskGroupId": GROUP_ID,
        "schedulerId": "sched",
        "expires": "2027-01-02T13:00:00.000Z",
    }
    assert message.properties == {
        "routingKey": f"primary.{GROUP_ID}.sched._",
        "routingKeyKind": "primary",
        "taskGroupId": GROUP_ID,
        "schedulerId": "sched",
        "reserved": "_",
    }
    sealed = render_group(replace(event, sealed=datetime(2026, 1, 1, 13, tzinfo=UTC)))
    assert body(sealed)["sealed"] == "2026-01-01T13:00:00.000Z"


def test_nothing_secret_is_in_a_message() -> None:
    life = Life.begin()
    messages = [*life.defined(), *life.schedule(), *life.claim(), *life.create_artifact()]
    messages += [*life.change_priority("high"), *life.report(Resolved.COMPLETED)]
    for message in messages:
        assert b"secret" not in message.body
        assert not any("secret" in value for value in message.properties.values())


def test_tags_are_left_out_of_a_message_that_would_be_too_large() -> None:
    life = Life.begin(tags={f"tag-{index}": "x" * 4096 for index in range(100)})
    message = only(life.schedule())
    assert "task" not in body(message)
    assert message.size < 256_000
    event = announcements.pending(life.task, 0)
    assert "task" in json.loads(render(event, life.definition, life.task, size_limit=1_000_000).body)


def test_message_ids_fit_and_say_what_happened() -> None:
    life = Life.begin()
    life.schedule()
    life.claim()
    long = only(life.create_artifact("x" * 1024))
    other = only(life.create_artifact("y" * 1024))
    assert long.message_id != other.message_id
    sealed = render_group(group_event(Exchange.TASK_GROUP_SEALED, occasion="z" * 500))
    assert max(len(message.message_id) for message in (long, sealed)) <= 128


@pytest.mark.parametrize(
    ("exchange", "run_id"),
    [(Exchange.TASK_PENDING, 1), (Exchange.TASK_PENDING, None), (Exchange.TASK_FAILED, 0), (Exchange.TASK_RUNNING, 7)],
)
def test_an_event_that_cannot_have_happened_is_refused(exchange: Exchange, run_id: int | None) -> None:
    life = Life.begin()
    life.schedule()
    event = TaskEvent(exchange=exchange, task_id=TASK_ID, run_id=run_id, retries_left=2)
    with pytest.raises(ValueError, match="run"):
        render(event, life.definition, life.task)


def test_every_exchange_has_a_schema_and_every_schema_is_closed() -> None:
    named = {ENTRY_OF[Exchange(topic)].schema.removeprefix("v1/").removesuffix(".json#") for topic in TOPICS}
    assert named == set(SCHEMAS)
    for schema in SCHEMAS.values():
        objects = [schema, *schema.get("$defs", {}).values()]
        assert all(part["additionalProperties"] is False for part in objects if part["type"] == "object")
        assert '"null"' not in json.dumps(schema), "an absent property is left out, never null"
