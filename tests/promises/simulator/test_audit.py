"""The audit log: nothing that happened is missing, nothing that did not is confirmed, no repeat counts (design 14)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from shared.app.apis import AUTH, INDEX, QUEUE
from shared.app.services import Services
from shared.base.dates import format_date
from shared.index.rules import IndexEntry
from shared.overview.operator_endpoints import NOT_CONFIRMED
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, encode_body
from shared.queue.tasks.messages import poison_queue
from shared.store import keys
from shared.store.interface import Delete
from tests.parts.twin.driver import Simulation
from tests.parts.twin.gate import Gate
from tests.promises.simulator.situations import GROUP, A, B
from tests.promises.simulator.test_handlers_of_endpoints import called
from tests.promises.simulator.world import POOL, World

PROVISIONER, WORKER_TYPE = POOL.split("/")
WORKER = {"provisionerId": PROVISIONER, "workerType": WORKER_TYPE, "workerGroup": "group", "workerId": "worker"}
ALL = (*QUEUE.endpoints, *AUTH.endpoints, *INDEX.endpoints)
PATH = "project.build"
CLIENT, ROLE = "project/ci", "project:ci"
History = list[dict[str, Any]]


async def call(services: Services, name: str, query: Mapping[str, str] | None = None, **given: Any) -> Any:
    """Calls the handler of an endpoint as somebody who may do anything."""
    asked = called(ALL, name, "*", query=query or {}, **given)
    return await asked.endpoint.handler(services, asked)


def client(world: World, **changes: Any) -> dict[str, Any]:
    expires = world.fixed.setdefault("expires", format_date(world.clock.now() + timedelta(days=1)))
    return {"description": "", "expires": expires, "scopes": ["a"], **changes}


async def pending(world: World) -> None:
    await world.create(A, taskGroupId=GROUP)


async def waiting(world: World) -> None:
    await world.create(B, taskGroupId=GROUP)
    await world.create(A, taskGroupId=GROUP, dependencies=[B])


async def resolved(world: World) -> None:
    await pending(world)
    await world.services.lifecycle.cancel(await world.services.lifecycle.existing(A))
    await world.drain(30)


async def sealed(world: World) -> None:
    await pending(world)
    await world.services.groups.seal(await world.services.groups.existing(GROUP))


async def a_worker(world: World) -> None:
    await pending(world)
    assert await world.claim()


async def a_client(world: World) -> None:
    await call(world.process(), "createClient", params={"clientId": CLIENT}, body=client(world))
    await forget(world)


async def a_role(world: World) -> None:
    await call(world.process(), "createRole", params={"roleId": ROLE}, body={"description": "", "scopes": ["a"]})
    await forget(world)


async def forget(world: World) -> None:
    """Deletes what has been noted so far."""
    tables = world.memory.tables
    for row in world.rows(keys.AUDIT):
        await tables.transact(keys.AUDIT, row.partition, [Delete(row.key)])


async def given_up(world: World) -> None:
    queues = world.memory.queues
    await queues.create_queue(poison_queue(CLAIM_QUEUE))
    await queues.put_message(poison_queue(CLAIM_QUEUE), encode_body({"version": 1}))


async def indexed(world: World) -> None:
    expires = world.clock.now() + timedelta(days=1)
    await world.services.index.insert(
        IndexEntry(path=PATH, task_id=A, rank=0, data={}, expires=expires, at=world.clock.now())
    )


async def nothing(world: World) -> None:
    """Nothing is there."""


@dataclass(frozen=True)
class Story:
    """A call that is noted: its subject, its action, and whether it has happened."""

    name: str
    prepare: Callable[[World], Coroutine[Any, Any, None]]
    params: Mapping[str, str]
    happened: Callable[[World], bool]
    history: str
    action: str
    body: Callable[[World], dict[str, Any]] | None = None
    detail: str = ""
    entity: tuple[str, str] | None = None
    """Type and name by which the history is found, if the parameters of the call do not say them."""

    async def act(self, world: World, services: Services | None = None) -> None:
        """Makes the call."""
        given = {} if self.body is None else {"body": self.body(world)}
        await call(services or world.services, self.name, params=self.params, **given)

    async def read(self, world: World) -> History:
        """Returns the history of what the call was done to."""
        params = self.params
        if self.entity is not None:
            params = dict(zip(("auditedType", "entityId"), self.entity, strict=True))
        elif self.history == "getEntityHistory":
            ((name, entity_id),) = self.params.items()
            params = {"entityType": name.removesuffix("Id"), "entityId": entity_id}
        elif self.history == "taskAuditHistory":
            params = TASK
        found: History = (await call(world.services, self.history, params=params))["auditHistory"]
        return found


def state(*wanted: str) -> Callable[[World], bool]:
    return lambda world: [str(run.state) for run in world.tasks()[A].runs] == list(wanted)


def registered(table: str, kind: str, name: str, **values: Any) -> Callable[[World], bool]:
    def is_there(world: World) -> bool:
        found = [row.values for row in world.rows(table) if row.values.get(kind) == name]
        return any(all(row.get(key) == value for key, value in values.items()) for row in found)

    return is_there


def gone(table: str, kind: str, name: str) -> Callable[[World], bool]:
    return lambda world: not registered(table, kind, name)(world)


def is_sealed(world: World) -> bool:
    return any(row.values.get("sealed") for row in world.rows(keys.GROUPS) if row.key == keys.GROUP)


def is_quarantined(world: World) -> bool:
    return any(row.key.startswith("quarantine~") for row in world.rows(keys.POOLS))


def is_moved(world: World) -> bool:
    return not world.memory.queues.messages(poison_queue(CLAIM_QUEUE))


def is_unindexed(world: World) -> bool:
    return any(row.values.get("gone") for row in world.rows(keys.INDEX))


TASK, ENTITY, GROUPS = {"taskId": A}, "getEntityHistory", {"taskGroupId": GROUP}
HIGH = {"newPriority": "high"}
UNTIL = "2999-01-01T00:00:00.000Z"
STORIES = [
    Story("cancelTask", pending, TASK, state("exception"), "taskAuditHistory", "canceled"),
    Story("scheduleTask", waiting, TASK, state("pending"), "taskAuditHistory", "scheduled"),
    Story("rerunTask", resolved, TASK, state("exception", "pending"), "taskAuditHistory", "rerun"),
    Story(
        "changeTaskPriority",
        pending,
        TASK,
        lambda world: world.tasks()[A].priority == "high",
        "taskAuditHistory",
        "priority changed",
        lambda world: HIGH,
        "to high",
    ),
    Story("sealTaskGroup", pending, GROUPS, is_sealed, "taskGroupAuditHistory", "sealed"),
    Story("cancelTaskGroup", sealed, GROUPS, state("exception"), "taskAuditHistory", "canceled"),
    Story(
        "changeTaskGroupPriority",
        pending,
        GROUPS,
        lambda world: world.tasks()[A].priority == "high",
        "taskGroupAuditHistory",
        "priority changed",
        lambda world: HIGH,
        "to high",
    ),
    Story(
        "quarantineWorker",
        a_worker,
        WORKER,
        is_quarantined,
        "workerAuditHistory",
        "quarantined",
        lambda world: {"quarantineUntil": UNTIL, "quarantineInfo": "a reason"},
        f"until {UNTIL}",
    ),
    Story(
        "deleteTask",
        indexed,
        {"namespace": PATH},
        is_unindexed,
        "entityAuditHistory",
        "deleted",
        entity=("index", PATH),
    ),
    Story(
        "createClient",
        nothing,
        {"clientId": CLIENT},
        registered("Clients", "clientId", CLIENT),
        ENTITY,
        "created",
        client,
    ),
    Story(
        "updateClient",
        a_client,
        {"clientId": CLIENT},
        registered("Clients", "clientId", CLIENT, description="new"),
        ENTITY,
        "updated",
        lambda world: client(world, description="new"),
    ),
    Story(
        "disableClient",
        a_client,
        {"clientId": CLIENT},
        registered("Clients", "clientId", CLIENT, disabled=True),
        ENTITY,
        "client disabled",
    ),
    Story("deleteClient", a_client, {"clientId": CLIENT}, gone("Clients", "clientId", CLIENT), ENTITY, "deleted"),
    Story(
        "createRole",
        nothing,
        {"roleId": ROLE},
        registered("Roles", "roleId", ROLE),
        ENTITY,
        "created",
        lambda world: {"description": "", "scopes": ["a"]},
    ),
    Story(
        "updateRole",
        a_role,
        {"roleId": ROLE},
        registered("Roles", "roleId", ROLE, description="new"),
        ENTITY,
        "updated",
        lambda world: {"description": "new", "scopes": ["a"]},
    ),
    Story("deleteRole", a_role, {"roleId": ROLE}, gone("Roles", "roleId", ROLE), ENTITY, "deleted"),
]
MOVES = [
    *(
        Story(
            name,
            given_up,
            {"queueName": CLAIM_QUEUE},
            is_moved,
            "entityAuditHistory",
            action,
            lambda world: {},
            "all",
            ("internal-queue", CLAIM_QUEUE),
        )
        for name, action in (
            ("redrivePoisonMessages", "poison messages redriven"),
            ("deletePoisonMessages", "poison messages deleted"),
        )
    )
]
"""Stories in which a message is moved that a dead process has received and so hidden from others for a while."""
each_story_and_move = pytest.mark.parametrize("story", [*STORIES, *MOVES], ids=lambda story: story.name)


def prepared(story: Story, *gates: Gate) -> World:
    world = World(Simulation.scripted([]), *gates)
    world.run(story.prepare(world))
    assert not story.happened(world)
    return world


def act(world: World, story: Story) -> BaseException | None:
    """Makes the call as the victim; returns the error that it has raised."""
    outcome: BaseException | None = world.simulation.outcomes(world.victim(story.act(world)))[0]
    return outcome


async def by_somebody(world: World) -> History:
    answer: History = (await call(world.services, "listAuditHistory", params={"clientId": "somebody"}))["auditHistory"]
    return answer


def histories(world: World, story: Story) -> tuple[History, History]:
    """Returns the histories of the subject and of the client, without the times."""
    of, by = world.run(story.read(world), by_somebody(world))
    return of, by


def confirmed(history: Sequence[Mapping[str, Any]]) -> list[str]:
    return [entry["actionType"] for entry in history if not entry["actionType"].endswith(NOT_CONFIRMED)]


def check(world: World, story: Story) -> None:
    """Checks that the histories have the one call, or none if it has not happened."""
    for history in histories(world, story):
        actions = [entry["actionType"].removesuffix(NOT_CONFIRMED) for entry in history]
        assert actions in ([], [story.action])
        if story.happened(world):
            assert actions, "it happened, and nobody knows who did it"
        else:
            assert confirmed(history) == [], "it has not happened"


@each_story_and_move
def test_a_call_is_noted_once_with_what_it_was_done_to_and_by_whom(story: Story) -> None:
    world = prepared(story)
    began = format_date(world.clock.now())
    for _ in range(2):
        world.simulation.outcomes(story.act(world))  # a repeat may be refused: that the priority is in force
        world.run(world.clock.sleep(1))
    of, by = histories(world, story)
    ((entry,), (mine,)) = of, by
    assert entry.pop("detail", "") == story.detail
    assert entry == mine
    assert (entry["clientId"], entry["actionType"]) == ("somebody", story.action)
    assert began <= entry["created"] < format_date(world.clock.now())
    assert story.entity in (None, (entry["entityType"], entry["entityId"]))


def test_a_history_of_a_task_is_that_of_its_group_without_the_other_tasks() -> None:
    world = World()

    async def story() -> None:
        for task_id in (A, B):
            await world.create(task_id, taskGroupId=GROUP)
            await call(world.services, "cancelTask", params={"taskId": task_id})
            await world.clock.sleep(1)
        await call(world.services, "sealTaskGroup", params=GROUPS)
        group = (await call(world.services, "taskGroupAuditHistory", params=GROUPS))["auditHistory"]
        assert [(each["entityType"], each["entityId"]) for each in group] == [
            ("task-group", GROUP),
            ("task", B),
            ("task", A),
        ]
        of_a = (await call(world.services, "taskAuditHistory", params=TASK))["auditHistory"]
        assert [each["entityId"] for each in of_a] == [GROUP, A]
        found, query = [], {"limit": "1"}
        while True:
            page = await call(world.services, "taskAuditHistory", query, params=TASK)
            found.extend(page["auditHistory"])
            if "continuationToken" not in page:
                break
            query["continuationToken"] = page["continuationToken"]
        assert found == of_a
        none = await call(world.services, "taskGroupAuditHistory", {"limit": "0"}, params=GROUPS)
        assert none == {"auditHistory": []}

    world.run(story())


def test_no_secret_and_no_text_of_a_caller_is_kept() -> None:
    world = World()

    async def story() -> None:
        params = {"clientId": CLIENT}
        created = await call(world.services, "createClient", params=params, body=client(world, description="words"))
        reset = await call(world.services, "resetAccessToken", params=params)
        await a_worker(world)
        body = {"quarantineUntil": UNTIL, "quarantineInfo": "words"}
        await call(world.services, "quarantineWorker", params=WORKER, body=body)
        kept = repr(world.rows(keys.AUDIT))
        for text in (created["accessToken"], reset["accessToken"], "words"):
            assert text not in kept

    world.run(story())
