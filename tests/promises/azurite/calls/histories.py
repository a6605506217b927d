"""Scenarios that measure who did what (design 6, 14)."""

from __future__ import annotations

from shared.api.caller import Caller, Verifier
from shared.api.endpoint import Call
from shared.api.scopes import ScopeSet
from shared.app.apis import AUTH, QUEUE
from shared.base.ids import new_slugid
from shared.store.counting import Operations
from tests.promises.azurite.budgets import Bench, budget


async def call(bench: Bench, name: str, **params: str) -> None:
    """Calls the handler of an endpoint, as somebody who may do anything."""

    async def caller(verifier: Verifier | None = None) -> Caller:
        return Caller(client_id="somebody", scopes=ScopeSet(("*",)))

    endpoint = next(each for each in (*QUEUE.endpoints, *AUTH.endpoints) if each.name == name)
    await endpoint.handler(bench.calls, Call(endpoint=endpoint, params=params, authenticate=caller))


@budget("cancelTask, noted", "cancelTask … pending", "a noted call, besides")
async def cancel_again(bench: Bench) -> Operations:
    await call(bench, "cancelTask", taskId=await bench.create())
    return await bench.measure(call(bench, "cancelTask", taskId=await bench.create()))


@budget(
    "cancelTask, noted for the first time",
    "cancelTask … pending",
    "a noted call, besides",
    "a noted call … the first of a day on this or by this client",
)
async def cancel_first(bench: Bench) -> Operations:
    await call(bench, "cancelTask", taskId=await bench.create())
    return await bench.measure(call(bench, "cancelTask", taskId=await bench.create(taskGroupId=new_slugid())))


@budget("listAuditHistory", "listAuditHistory")
async def of_a_client(bench: Bench) -> Operations:
    return await bench.measure(call(bench, "listAuditHistory", clientId="somebody"))


@budget("taskAuditHistory", "taskAuditHistory")
async def of_a_task(bench: Bench) -> Operations:
    task_id = await bench.create()
    await call(bench, "cancelTask", taskId=task_id)
    return await bench.measure(call(bench, "taskAuditHistory", taskId=task_id))


@budget("deleteClient, of nobody", "deleteClient, noted")
async def delete_client(bench: Bench) -> Operations:
    await call(bench, "deleteClient", clientId="nobody")
    return await bench.measure(call(bench, "deleteClient", clientId="nobody"))
