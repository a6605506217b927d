"""Every transition is announced, and nothing else is (contract 10, "Sent when"). The fields of messages are tested with
the events themselves."""

from __future__ import annotations

import re

from shared.base.ids import new_slugid
from tests.promises.host.events import Event, Kind
from tests.promises.host.service import METADATA, Service, in_future

DEFINED: Kind = ("task-defined", None)
PENDING: Kind = ("task-pending", 0)
RUNNING: Kind = ("task-running", 0)
GROUP_RESOLVED: Kind = ("task-group-resolved", None)


def exception(run_id: int) -> Kind:
    return "task-exception", run_id


def by_kind(events: list[Event]) -> dict[Kind, Event]:
    return {event.kind: event for event in events}


def test_from_its_definition_to_its_completion(service: Service) -> None:
    task_id = service.completed(tags={"a": "b"}, taskGroupId=(group := new_slugid()), routes=["x.y"])
    found = by_kind(service.events.expect(task_id, DEFINED, PENDING, RUNNING, ("task-completed", 0)))
    service.events.expect(group, GROUP_RESOLVED)

    final = service.status(task_id)
    (run,) = final["runs"]
    assert found[DEFINED].body["status"] == {**final, "state": "unscheduled", "runs": []}
    assert found[PENDING].body["status"]["state"] == "pending"
    assert found[RUNNING].body["takenUntil"] == run["takenUntil"]
    assert found["task-completed", 0].body == {
        "version": 1,
        "status": final,
        "task": {"tags": {"a": "b"}},
        "runId": 0,
        "workerGroup": "g",
        "workerId": "w",
    }
    for event in found.values():
        assert event.body["task"] == {"tags": {"a": "b"}}
        assert event.properties["routes"] == "|.x.y.|"


def test_reclaims_are_not_announced_and_repeats_are_no_events_of_their_own(service: Service) -> None:
    task_id, task = new_slugid(), service.a_task(taskGroupId=new_slugid())
    for _ in range(2):
        service.queue.createTask(task_id, task)
    (claim,) = service.claim()
    service.worker(claim).reclaimTask(task_id, 0)
    for _ in range(2):
        service.worker(claim).reportCompleted(task_id, 0)
    service.queue.cancelTask(task_id)
    service.queue.scheduleTask(task_id)
    service.events.expect(task_id, DEFINED, PENDING, RUNNING, ("task-completed", 0))


def test_cancellation_is_announced(service: Service) -> None:
    blocked = service.create(dependencies=[service.create(priority="lowest")], taskGroupId=new_slugid())
    pending = service.create(taskGroupId=new_slugid(), priority="low")
    running = service.claimed(taskGroupId=new_slugid(), priority="high")["status"]["taskId"]
    for task_id in (blocked, pending, running):
        service.queue.cancelTask(task_id)
    found = service.events.expect(blocked, DEFINED, exception(0))
    assert "workerId" not in by_kind(found)[exception(0)].body
    service.events.expect(pending, DEFINED, PENDING, exception(0))
    found = service.events.expect(running, DEFINED, PENDING, RUNNING, exception(0))
    assert by_kind(found)[exception(0)].body["workerId"] == "w"


def test_scheduling_is_announced(service: Service) -> None:
    by_hand, by_rerun = (service.create(dependencies=[service.create()], taskGroupId=new_slugid()) for _ in range(2))
    service.queue.scheduleTask(by_hand)
    service.queue.rerunTask(by_rerun)
    service.events.expect(by_hand, DEFINED, PENDING)
    service.events.expect(by_rerun, DEFINED, PENDING)


def test_a_deadline_is_announced(service: Service) -> None:
    required = service.create()
    blocked = service.create(dependencies=[required], deadline=in_future(1), taskGroupId=(group := new_slugid()))
    running = service.claimed(deadline=in_future(1.5), taskGroupId=new_slugid(), priority="high")["status"]["taskId"]
    service.events.expect(blocked, DEFINED, exception(0))
    found = service.events.expect(running, DEFINED, PENDING, RUNNING, exception(0))
    body = by_kind(found)[exception(0)].body
    assert body["status"]["runs"][0]["reasonResolved"] == "deadline-exceeded"
    assert body.keys().isdisjoint({"workerGroup", "workerId"})
    service.events.expect(group, GROUP_RESOLVED)


def test_nothing_secret_is_announced(service: Service) -> None:
    """Payload, scopes and credentials are never announced (contract 10)."""
    secret = "s3cr3t-4-t3st"
    task_id = service.completed(
        payload={secret: secret},
        scopes=[secret],
        extra={secret: secret},
        metadata={**METADATA, "description": secret},
        taskGroupId=new_slugid(),
    )
    for event in service.events.expect(task_id, DEFINED, PENDING, RUNNING, ("task-completed", 0)):
        assert not re.search(secret, f"{event.body} {event.properties} {event.message_id}")
        assert len(event.message_id) <= 128
