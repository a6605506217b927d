"""Many workers at one task queue, on two hosts, claim each task exactly once, and leave none."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.projections import settle
from tests.promises.host.service import Service, at_once
from tests.promises.host.test_dependencies import create_all

CLAIMERS = 50


@pytest.mark.large
def test_fifty_claimers_and_five_hundred_tasks(service: Service) -> None:
    count = 500
    task_ids = sorted(new_slugid() for _ in range(count))
    claims: list[dict[str, Any]] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        request: dict[str, Any] = {"workerGroup": "g", "workerId": f"w{number}", "tasks": 1 + number % 4}
        while len(claims) < count:
            found = service.queue.claimWork(service.pool, request)["tasks"]
            assert len(found) <= request["tasks"]
            assert all(claim["workerId"] == f"w{number}" for claim in found)
            with lock:
                claims.extend(found)

    def create() -> None:
        create_all(service, task_ids)

    at_once(create, *(partial(work, number) for number in range(CLAIMERS)))

    assert sorted(claim["status"]["taskId"] for claim in claims) == task_ids
    statuses = {claim["status"]["taskId"]: service.status(claim["status"]["taskId"]) for claim in claims}
    for claim in claims:
        (run,) = statuses[claim["status"]["taskId"]]["runs"]
        assert (run["state"], run["workerId"], run["takenUntil"]) == ("running", claim["workerId"], claim["takenUntil"])
    assert service.queue.claimWork(service.pool, {"workerGroup": "g", "workerId": "w"}) == {"tasks": []}
    settle(service.running, task_ids)
