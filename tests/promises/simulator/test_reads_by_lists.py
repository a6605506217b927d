"""Every call that reads by a list reads no more than design 12 says, and takes the turn that it says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shared.api.endpoint import Endpoint
from shared.app.apis import AUTH, INDEX, OBJECT, QUEUE
from shared.base import bounds
from shared.base.errors import ServiceUnavailable
from shared.base.shares import Place
from shared.store.counting import counting
from tests.promises.azurite.budget_table import by_lists
from tests.promises.simulator.situations import A
from tests.promises.simulator.test_handlers_of_endpoints import called
from tests.promises.simulator.world import POOL, World, unordered

ALL = (*QUEUE.endpoints, *AUTH.endpoints, *OBJECT.endpoints, *INDEX.endpoints)
MANY = 2500
"""Number of items of a list that has more than any page."""
PROVISIONER, _, WORKER_TYPE = POOL.partition("/")
PARAMS = {
    "taskId": A,
    "runId": "0",
    "taskGroupId": A,
    "taskQueueId": POOL,
    "provisionerId": PROVISIONER,
    "workerType": WORKER_TYPE,
    "namespace": "a.b",
    "workerGroup": "group",
    "workerId": "worker",
    "clientId": "somebody",
    "entityType": "client",
    "auditedType": "client",
    "entityId": "somebody",
}


def many_ids(number: int) -> list[str]:
    return [f"{item:08}{A[8:]}" for item in range(number)]


BODIES: dict[str, dict[str, list[str]]] = {
    "tasks": {"taskIds": many_ids(MANY)},
    "statuses": {"taskIds": many_ids(MANY)},
    "findTasksAtIndex": {"indexes": [f"a.b{number}" for number in range(MANY)]},
    "taskQueueCountsBatch": {"taskQueueIds": [f"p/w{number}" for number in range(1000)]},
}
"""Bodies of the calls whose list is in their body, with as many items as may be."""


STATED = by_lists()
"""The costs that the document states."""

LISTS = {"taskIds", "taskQueueIds", "indexPaths", "names"}
"""Parameters whose items are authorised and read one by one."""
ELSEWHERE = {"createTask", "defineTask", "artifact", "latestArtifact", "getArtifact", "getLatestArtifact"}
"""Calls that test_dependency_costs.py and test_links.py measure."""


def reads_by_a_list(endpoint: Endpoint) -> bool:
    lists = set(re.findall(r"'in': '(\w+)'", str(endpoint.scopes)))
    takes_dependencies = endpoint.input is not None and "dependencies" in endpoint.input.model_fields
    return "limit" in endpoint.query or takes_dependencies or bool(lists & LISTS)


async def send(world: World, name: str, **query: str) -> Any:
    (endpoint, *_) = (each for each in ALL if each.name == name)
    params = {param: PARAMS[param] for param in re.findall(r"<(\w+)>", endpoint.route)}
    call = called(ALL, name, "*", params=params, query=query, body=BODIES.get(name))
    return await endpoint.handler(world.services, call)


def a_world() -> World:
    world = unordered()
    world.run(world.create(A, taskGroupId=A))
    return world


def test_the_table_names_the_calls_that_there_are() -> None:
    assert set(STATED) == {endpoint.name for endpoint in ALL if reads_by_a_list(endpoint)}
    assert set(BODIES) == {each.name for each in ALL if reads_by_a_list(each) and each.input is not None} - ELSEWHERE


@pytest.mark.parametrize("name", [name for name in STATED if name not in ELSEWHERE])
def test_no_call_reads_more_than_stated(name: str) -> None:
    world = a_world()
    most = STATED[name].operations

    async def story() -> None:
        with counting() as operations:
            await send(world, name, limit=str(bounds.PAGE))
        assert 0 < operations.total <= most

    world.run(story())


@pytest.mark.parametrize("kind", ["lookup", "page"])
def test_calls_are_refused_when_as_many_wait_for_their_turn_as_may(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, {"lookup": "LOOKUPS_WAITING", "page": "LISTS_WAITING"}[kind], 0)
    world = a_world()
    services = world.services
    turns = services.stores.tasks.definitions._turns if kind == "page" else services.batches._lookups._turns
    refused = set()

    async def story() -> None:
        while turns.try_take(Place(share=str(turns.used))):
            pass
        for name in STATED.keys() - ELSEWHERE:
            try:
                await send(world, name, limit="1")
            except ServiceUnavailable as error:
                assert "as many lists as it can" in str(error)
                refused.add(name)

    world.run(story())
    assert refused == {name for name, each in STATED.items() if each.turn == kind}
