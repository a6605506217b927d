"""Handlers of endpoints add to their use cases: authorisation, tokens of pages, dates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from shared.api.caller import Caller, Verifier
from shared.api.endpoint import Call, Endpoint
from shared.api.scopes import ScopeSet
from shared.app.apis import OBJECT
from shared.base.dates import parse_date
from shared.base.errors import InsufficientScopes
from shared.queue.artifacts import object_endpoints as objects
from shared.queue.artifacts.reading import LIFE
from shared.queue.pools import worker_endpoints as workers
from shared.queue.tasks import endpoints as task_endpoints
from shared.queue.tasks.rules import Worker
from tests.promises.simulator.artifact_scenarios import artifact
from tests.promises.simulator.registry import after
from tests.promises.simulator.situations import A, B, running
from tests.promises.simulator.world import POOL, World


def called(endpoints: Sequence[Endpoint], name: str, *scopes: str, **given: Any) -> Call:
    """Returns a call of somebody with these scopes; `given` as for `Call`, with the body as it comes in JSON."""
    endpoint = next(each for each in endpoints if each.name == name)
    body = given.pop("body", None)
    if body is not None:
        assert endpoint.input is not None
        given["body"] = endpoint.input.model_validate(body)

    async def caller(verifier: Verifier | None = None) -> Caller:
        return Caller(client_id="somebody", scopes=ScopeSet(scopes))

    return Call(endpoint=endpoint, authenticate=caller, **{"params": {}, **given})


@pytest.mark.parametrize("name", ["tasks", "statuses"])
def test_every_task_of_a_list_is_authorised_for_each_of_its_pages(name: str) -> None:
    """Every task of a list is authorised for each of its pages (contract 2.3), not only those of the page."""
    world = World()
    verb = {"tasks": "get-task", "statuses": "status"}[name]
    handler = {"tasks": task_endpoints.tasks, "statuses": task_endpoints.statuses}[name]

    async def asked(*scopes: str) -> Mapping[str, Any]:
        call = called(task_endpoints.ENDPOINTS, name, *scopes, body={"taskIds": [A, B]}, query={"limit": "1"})
        return await handler(world.services, call)

    async def story() -> None:
        await world.create(A)
        await world.create(B)
        assert len((await asked(f"queue:{verb}:*"))[name]) == 1
        with pytest.raises(InsufficientScopes):
            await asked(f"queue:{verb}:{A}")

    world.run(story())


def test_a_page_of_workers_that_the_filter_leaves_empty_is_not_the_last() -> None:
    world = World()
    provisioner_id, worker_type = POOL.split("/")
    params = {"provisionerId": provisioner_id, "workerType": worker_type}

    async def story() -> None:
        registry = world.services.workers
        for worker_id in ("a", "b"):
            worker = Worker(worker_group="group", worker_id=worker_id)
            await registry.declare(POOL, worker, after(world, 3600))
        await registry.quarantine(POOL, worker, after(world, 3600), client_id="", info="")
        found, token = list[str](), dict[str, str]()
        for _ in range(2):
            query = {"limit": "1", "quarantined": "true", **token}
            page = await workers.list_workers(
                world.services, called(workers.ENDPOINTS, "listWorkers", params=params, query=query)
            )
            found.extend(each["workerId"] for each in page["workers"])
            token = {name: page[name] for name in page if name == "continuationToken"}
        assert (found, token) == (["b"], {})

    world.run(story())


def test_a_download_is_said_to_last_as_long_as_its_url() -> None:
    world = World()

    async def story() -> None:
        await running(world)
        wanted = artifact(world, "object", "public/o", details={"projectId": "none", "uploadId": B})
        await world.services.artifacts.creation.create_or_find(A, 0, wanted)
        uses = world.services.artifacts.objects
        name = f"t/{A}/0/public/o"
        await uses.put_inline(await uses.existing(name), b"data", {})
        await uses.finish(await uses.existing(name), {})
        body = {"acceptDownloadMethods": {"getUrl": True}}
        call = called(OBJECT.endpoints, "startDownload", params={"name": name}, body=body)
        shown = (await objects.start_download(world.services, call)).body
        expires = parse_date(json.loads(shown)["expires"])
        assert expires == world.clock.now().replace(microsecond=0) + LIFE

    world.run(story())
