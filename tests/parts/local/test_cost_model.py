"""The cost model: it counts what the code does, its tables are those of the document, and its sums behave."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest

from shared.base.priority import PRIORITIES
from shared.base.settings import Settings
from shared.queue.claims.poll_urls import LIFE
from shared.queue.tasks.rules import Resolved
from shared.store.counting import counting
from tests.promises.infra import expected, templates
from tests.promises.simulator.world import World
from tools.bench import budgets
from tools.bench.cost_model.bill import LOG_ALERTS, METRIC_ALERTS, Bill
from tools.bench.cost_model.limits import lateness
from tools.bench.cost_model.model import INPUTS as INPUTS_FILE
from tools.bench.cost_model.model import PROFILES, QUEUE_FUNCTIONS, TIMER_FUNCTIONS, Model
from tools.bench.cost_model.tables import DOCUMENT, MARKS, document, report
from tools.local.state import ROOT
from worker.context import FRESH
from worker.options import Options
from worker.queue import SHORT

INPUTS: dict[str, Any] = json.loads(INPUTS_FILE.read_text())
MODELS = {name: Model.of(name, INPUTS) for name in PROFILES}


def test_the_document_has_the_tables_of_today() -> None:
    text = DOCUMENT.read_text()
    assert all(mark in text for mark in MARKS)
    assert text == document(text, report(INPUTS)), "run: python -m tools.bench.cost_model --write"


async def _counted(call: Awaitable[Any]) -> Counter[str]:
    with counting() as operations:
        await call
    return Counter(request.kind.value for request in operations.requests)


def test_the_calls_cost_no_more_than_the_model_says() -> None:
    world = World()

    async def story() -> None:
        group = await world.create()
        await world.claim()
        await world.services.lifecycle.report(group, 0, Resolved.COMPLETED)
        await world.drain(60)
        await world.create(taskGroupId=group)
        await world.claim()  # bands and workers are known again
        waits, done, task_id = sorted(world.slugid() for _ in range(3))
        await world.create(done, taskGroupId=group)
        await world.claim()
        await world.create(waits, taskGroupId=group, dependencies=[waits])
        await world.services.lifecycle.report(done, 0, Resolved.COMPLETED)
        await world.resolved_due_here({"taskId": done, "runId": 0, "put": "2026-01-01T00:00:00.000Z"})
        found = {"createTask": await _counted(world.create(task_id, taskGroupId=group))}
        found["claimWork"] = await _counted(world.claim())
        found["reclaimTask"] = await _counted(world.services.work.reclaim_task(task_id, 0))
        found["reportCompleted"] = await _counted(world.services.lifecycle.report(task_id, 0, Resolved.COMPLETED))
        found["status"] = await _counted(world.services.lifecycle.status(task_id))
        body = {"taskId": task_id, "runId": 0, "put": "2026-01-01T00:00:00.000Z"}
        found["resolved message"] = await _counted(world.resolved_due_here(body))
        for name, counts in found.items():
            assert counts.total() > 0
            assert counts.total() <= sum(budgets.CALLS[name].values()), name
            for kind, number in counts.items():
                assert number <= budgets.CALLS[name].get(kind, 0), f"{name}: {kind}"

    world.run(story())


def test_the_gauges_cost_no_more_than_the_model_says() -> None:
    world = World()

    async def story() -> None:
        await world.create()
        await world.claim()
        total: Counter[str] = Counter()
        for _ in range(24):
            await world.clock.sleep(300)
            total += await _counted(world.handlers.gauges.note_waiting())
        for kind in ("R", "W", "G"):
            costs = (budgets.NOTE, budgets.GAUGES, budgets.GAUGES_A_POOL)
            assert total[kind] <= 24 * sum(cost.get(kind, 0) for cost in costs) + (2 if kind == "R" else 0), kind

    world.run(story())


def test_the_life_of_a_task_is_within_the_design() -> None:
    life = budgets.life_of_a_task(artifacts=2.4, reads=0, relayed=2.4)
    assert 33 <= sum(life.values()) <= 37
    straight = budgets.life_of_a_task(artifacts=2.4, reads=0, relayed=0)
    by_the_worker = 2.4  # its own uploads
    assert 30 <= sum(straight.values()) - by_the_worker <= 37
    shared = budgets.life_of_a_task(artifacts=2.4, reads=0, relayed=2.4, processes=2)
    assert sum(shared.values()) - sum(life.values()) == pytest.approx(3 + 2 * 2.4)


def test_pages_name_the_sums_of_the_model() -> None:
    """The page on deploying names the monthly sums of the cost model, in tens of dollars."""
    bill = Bill(MODELS["small"])
    sums = [round(sum(each.values()), -1) for each in (bill.idle_cost(), bill.cost())]
    page = (ROOT / "infra" / "README.md").read_text()
    told = re.search(
        r"about (\d+) \$ a month for a small deployment that\s+nobody calls, some (\d+) \$ with ten workers", page
    )
    assert told is not None
    assert [int(each) for each in told.groups()] == sums


def test_what_stands_ready_is_not_late() -> None:
    small, large = (lateness(model) for model in MODELS.values())
    assert max(worst for title, _, worst in large if title == "a deadline passes") < 5
    assert any("after a scale to zero" in title for title, _, _ in small)
    assert not any("after a scale to zero" in title for title, _, _ in large)
    assert all(usual <= worst for title, usual, worst in (*small, *large))
    thresholds = [templates.document(f"profiles/{name}.json")["alerts"]["latenessSeconds"] for name in MODELS]
    for rows, threshold in zip((small, large), thresholds, strict=True):
        usual = [worst for title, _, worst in rows if "dies" not in title and "deleted" not in title]
        assert max(usual) < threshold, "no alert for what is normal"


def test_every_function_has_its_scale_group() -> None:
    """The model has a scale group for each function, which costs two ready instances with zone redundancy."""
    groups = {*QUEUE_FUNCTIONS, *TIMER_FUNCTIONS}
    assert groups | {"http"} == expected.function_names()
    large = MODELS["large"]
    assert large.profile["zoneRedundant"]
    assert sum(large.ready.values()) == 25
    assert min(large.ready.values()) == 2
    one_zone = dataclasses.replace(large, profile={**large.profile, "zoneRedundant": False})
    assert sum(one_zone.ready.values()) == 15
    line = "functions: always ready"
    assert Bill(large).idle_cost()[line] > Bill(one_zone).idle_cost()[line] + 200


def test_alerts_are_counted() -> None:
    assert len(list(templates.resources("Microsoft.Insights/scheduledQueryRules"))) == LOG_ALERTS
    topics = len(list(templates.resources("Microsoft.ServiceBus/namespaces/topics")))
    of_metrics = 0
    for each in templates.resources("Microsoft.Insights/metricAlerts"):
        (criterion,) = each.body["properties"]["criteria"]["allOf"]
        of_metrics += topics if "dimensions" in criterion else 1
    assert of_metrics == METRIC_ALERTS


def test_an_idle_worker_costs_what_its_document_says() -> None:
    """The requests and costs of an idle worker in its document are those of the model. Pauses with jitter count by
    their mean, and an instance that is kept awake is the smallest."""
    text, month = (ROOT / "worker" / "README.md").read_text(), INPUTS["assumptions"]["seconds_a_month"]
    model, settings = MODELS["small"], Settings.model_fields
    looks = month / (0.75 * Options.idle_seconds)
    requests = len(PRIORITIES) * looks / 1e6
    renewals = month / (FRESH * LIFE.total_seconds())
    assert f"{requests:.1f} million queue requests, a dollar; {round(renewals, -3):,.0f} calls" in text
    assert requests * model.prices["queue_per_million"]["Standard_LRS"] == pytest.approx(1, abs=0.1)
    calls = month / (settings["long_poll_seconds"].default + 0.75 * SHORT)
    awake = month * model.gigabytes * model.prices["functions_gb_second"]
    assert f"{round(calls, -4):,.0f} calls" in text
    assert f"some {round(awake, -1):.0f} dollars" in text
