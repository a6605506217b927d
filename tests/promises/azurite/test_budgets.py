"""What each call costs in a warm process is what the tables of design 6 and of its contexts say. `pytest -rP` shows it.
By default on the twin, and on Azurite the whole life of a task, whose calls make most of the requests; with `--all`
each call on Azurite as well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from shared.base.ids import new_slugid
from shared.queue.artifacts.rules import StorageType, Upload
from shared.queue.claims.work import Claim
from shared.runtime import utc_now
from shared.store.counting import counting
from shared.store.interface import Storage
from tests.promises.azurite.budget_table import by_lists, evaluated, figures, table
from tests.promises.azurite.budgets import BUDGETS, Bench, Budget
from tests.promises.azurite.calls import artifacts
from tests.promises.azurite.rounds import twin_in_rounds
from tests.promises.simulator.artifact_scenarios import relay_to
from tests.promises.simulator.world import POOL, WORKER
from tools.local.state import ROOT

_ARTIFACTS = "tests/promises/simulator/test_artifact_budgets.py"
ELSEWHERE = {
    "createTask … 10,000 dependencies": "tests/promises/simulator/test_dependency_costs.py",
    "createArtifact … that expires in an earlier hour than its task": _ARTIFACTS,
    "relay PUT, the first, to the creating process": _ARTIFACTS,
    "relay PUT, another one": _ARTIFACTS,
    "getArtifact, the first after a direct PUT": _ARTIFACTS,
    "getArtifact … of gzip": _ARTIFACTS,
    "life of an ordinary task, 2.4 artifacts by relay": "tests/promises/azurite/test_budgets.py",
}
"""Rows of the tables that other tests measure."""


@pytest.fixture(params=["twin", pytest.param("azurite", marks=pytest.mark.large)])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Returns the account whose requests are counted."""
    if request.param == "twin":
        return twin_in_rounds()
    on_azurite: Storage = request.getfixturevalue("storage_in_rounds")
    return on_azurite


@pytest.fixture
async def bench(storage: Storage) -> Bench:
    made = Bench(storage)
    await made.warm()
    return made


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.large] if "1,000" in case.name else [])  # a minute each
        for case in BUDGETS
    ],
)
async def test_a_call_costs_what_the_table_says(bench: Bench, case: Budget) -> None:
    operations = await case.scenario(bench)
    wanted = figures(*case.rows, n=case.n)
    counts = " ".join(f"{count}{kind}" for kind, count in sorted(operations.counts.items()))
    print(f"{case.name}: {operations.total} operations ({counts}), depth {operations.depth}; the table: {wanted}")
    listed = "\n".join(f"{each.level} {each.kind} {each.target}" for each in operations.requests)
    if wanted.is_exact:
        assert operations.total == wanted.operations, listed
    assert operations.total <= wanted.operations, listed
    assert wanted.depth is None or operations.depth <= wanted.depth, listed
    assert operations.retries == 0


def test_each_row_of_the_table_is_measured() -> None:
    measured = {row for case in BUDGETS for row in case.rows}
    assert (measured - set(by_lists())) | set(ELSEWHERE) == set(table())
    for row, path in ELSEWHERE.items():
        assert f'figures("{row}"' in (ROOT / path).read_text(), row


@pytest.mark.parametrize(
    ("formula", "value"), [("6", 6), ("≤ 20", 20), ("+2n", 6), ("5 + n", 8), ("+3n + 1", 10), ("2 + 4n", 14)]
)
def test_formulas_of_the_table(formula: str, value: int) -> None:
    assert evaluated(formula, 3) == value


async def test_the_whole_life_of_an_ordinary_task(storage_in_rounds: Storage) -> None:
    """The whole life of an ordinary task costs what the table says: create, claim, a reclaim, 2.4 artifacts by relay,
    complete, what follows, expiry; in one process, which follows resolutions up as it does by default. What a process
    asks for once, and the job once an hour, is done before. The clock hardly moves: on a slow machine more of what is
    remembered for some seconds would have to be read again."""
    began = utc_now()
    bench = Bench(storage_in_rounds, lambda: began)
    bench.calls = bench.handlers = services = bench.process(max_followed_resolutions=8)
    await bench.warm()
    await services.following.finish(60)
    count, uploads = 20, 48
    steps: dict[str, int] = {}

    async def step(name: str, call: Awaitable[Any]) -> Any:
        bench.ahead += timedelta(milliseconds=1)
        with counting() as operations:
            answer = await call
        steps[name] = steps.get(name, 0) + operations.total
        return answer

    async def completed(claim: Claim) -> None:
        await bench.complete(claim)
        await services.following.finish(60)

    async def upload(claim: Claim, through: Callable[[str, Awaitable[Any]], Awaitable[Any]]) -> None:
        task = claim.task
        wanted = artifacts.artifact(StorageType.S3, task.expires, upload=Upload.RELAY)
        created = await through("createArtifact", services.artifacts.creation.create_or_find(task.task_id, 0, wanted))
        url = services.artifacts.urls.url(created.stored, created.upload_until)
        await through("relay PUT", relay_to(services, url))

    async def uncounted(name: str, call: Awaitable[Any]) -> Any:
        return await call

    await bench.create()
    (other,) = await bench.claims(1)
    await upload(other, uncounted)
    await completed(other)
    bench.group = new_slugid()
    ordinary = bench.definition(expires=timedelta(hours=4))
    for _ in range(count):
        definition = bench.definition(deadline=ordinary.body["deadline"], expires=timedelta(hours=4))
        await step("createTask", services.create_task(definition))
    claims = [(await step("claimWork", services.work.claim_work(POOL, WORKER, 1, 5)))[0] for _ in range(count)]
    for claim in claims:
        await step("reclaimTask", services.work.reclaim_task(claim.task.task_id, 0))
    for number in range(uploads):
        await upload(claims[number % count], step)
    # A check looks at the group's first active task: in which order they end decides how many of them it looks at.
    for claim in Random(1).sample(sorted(claims, key=lambda each: each.task.task_id), count):
        await step("reportCompleted, followed up", completed(claim))
    bench.ahead = timedelta(hours=4)
    assert await services.expiration.run(60) == 0
    bench.ahead = timedelta(hours=7)
    assert await step("expiration", services.expiration.run(60)) == 2, "the group, and its row in the list of groups"
    for claim in claims:
        assert await services.lifecycle._stores.tasks.status(claim.task.task_id) is None

    for name, total in steps.items():
        print(f"{name}: {total / count:.2f}")
    assert sum(steps.values()) / count <= figures("life of an ordinary task, 2.4 artifacts by relay").operations
