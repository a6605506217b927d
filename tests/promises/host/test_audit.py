"""The audit log over HTTP: who did what (contract 2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises.host.service import Service, in_future, refused

DAY = 86_400.0


def _history(service: Service, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.call("GET", f"{path}/audit")["auditHistory"]
    return found


@pytest.mark.endpoint("taskAuditHistory")
@pytest.mark.endpoint("taskGroupAuditHistory")
def test_who_did_what_to_a_task_and_its_group(service: Service) -> None:
    task_id = service.create()
    group = service.queue.status(task_id)["status"]["taskGroupId"]
    assert _history(service, f"task/{task_id}") == []
    service.queue.changeTaskPriority(task_id, {"newPriority": "high"})
    service.queue.cancelTask(task_id)
    service.queue.cancelTask(task_id)
    service.queue.sealTaskGroup(group)
    found = _history(service, f"task/{task_id}")
    assert [(each["entityType"], each["actionType"], each.get("detail")) for each in found] == [
        ("task-group", "sealed", None),
        ("task", "canceled", None),
        ("task", "priority changed", "to high"),
    ]
    assert {each["entityId"] for each in found} == {task_id, group}
    (who,) = {each["clientId"] for each in found}
    assert who
    assert _history(service, f"task-group/{group}") == found
    first = service.call("GET", f"task/{task_id}/audit?limit=1")
    assert first["auditHistory"] == found[:1]
    token = first["continuationToken"]
    assert service.call("GET", f"task/{task_id}/audit?continuationToken={token}")["auditHistory"] == found[1:]
    with refused(403, "InsufficientScopes"):
        service.anonymous._makeHttpRequest("GET", f"task-group/{group}/audit", None)


@pytest.mark.endpoint("workerAuditHistory")
def test_who_quarantined_a_worker(service: Service) -> None:
    provisioner_id, worker_type = service.pool.split("/")
    worker = (provisioner_id, worker_type, "g", "audited")
    service.queue.declareWorker(*worker, {"expires": in_future(DAY)})
    until = in_future(DAY)
    for _ in range(2):
        service.queue.quarantineWorker(*worker, {"quarantineUntil": until, "quarantineInfo": "why"})
    service.queue.quarantineWorker(*worker, {"quarantineUntil": in_future(-DAY)})
    path = f"provisioners/{provisioner_id}/worker-types/{worker_type}/workers/g/audited"
    found = _history(service, path)
    assert [each["actionType"] for each in found] == ["released", "quarantined"]
    assert found[1]["entityId"] == "/".join(worker)
    assert found[1]["detail"] == f"until {until}"
    with refused(403, "InsufficientScopes"):
        service.anonymous._makeHttpRequest("GET", f"{path}/audit", None)
