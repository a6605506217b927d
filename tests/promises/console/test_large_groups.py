"""A group of 5,000 tasks in a browser: what it costs is counted and bounded, how long it takes is measured and printed.

What the service does for such a group is measured elsewhere: here its answers are ready. Figures for docs/console.md:
`pytest -m large -rP tests/promises/console/test_large_groups.py`.
"""

from __future__ import annotations

import copy
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import Scene
from tests.promises.console.test_requests import MINUTE, asks

pytestmark = pytest.mark.large

TASKS = 5000
IN_GRAPH = 1000
PAGE = 1000
LAYER = 40
"""Tasks of the graph that do not depend on each other; each depends on two of the layer before."""
MANY_SECONDS = 120_000
MOST_IN_A_MINUTE = 22
"""Requests of one who watches so many open tasks: four looks at five pages, and what nothing takes."""
_FIRST_ROWS = """() => {
  const [read] = performance.getEntriesByType("resource").filter(({ name }) => /task-group.*list/.test(name));
  return (read?.responseEnd ?? 0) / 1000;
}"""
"""Seconds from the address to the answer with the first tasks; what is left until they are seen is drawing."""


@pytest.fixture(scope="module")
def template(deployment: Deployment) -> dict[str, Any]:
    """Returns the service's answer for a group of one task."""
    scene = Scene(deployment)
    scene.create("only", task_id=scene.group)
    answer: dict[str, Any] = scene.client().listTaskGroup(scene.group)
    return answer


@pytest.fixture(scope="module")
def pages(template: dict[str, Any]) -> list[dict[str, Any]]:
    """What listTaskGroup answers for a group of TASKS, page by page: the first IN_GRAPH of them depend on each other.

    Made from a real answer, since creating so many tasks takes minutes and nothing of it is in the browser.
    """
    (member,) = template["tasks"]
    ids = sorted(new_slugid() for _ in range(TASKS))

    def needs(number: int) -> list[str]:
        if not LAYER <= number < IN_GRAPH:
            return []
        before = (number // LAYER - 1) * LAYER
        return sorted({ids[before + number % LAYER], ids[before + (number * 7 + 1) % LAYER]})

    def one(number: int) -> dict[str, Any]:
        made: dict[str, Any] = copy.deepcopy(member)
        name = f"graph-{number:04}" if number < IN_GRAPH else f"task-{number:04}"
        made["task"]["metadata"]["name"] = name
        made["task"]["dependencies"] = needs(number)
        made["status"]["taskId"] = ids[number]
        if needs(number):
            made["status"] |= {"state": "unscheduled", "runs": []}
        return made

    numbers = range(TASKS)
    found = [{**template, "tasks": [one(number) for number in numbers[at : at + PAGE]]} for at in numbers[::PAGE]]
    for number, page in enumerate(found[1:], 1):
        found[number - 1]["continuationToken"] = str(number)
        page.pop("continuationToken", None)
    return found


@pytest.fixture
def open_large(template: dict[str, Any], pages: list[dict[str, Any]], open_page: OpenPage) -> Callable[[str], Page]:
    """Opens the page of the group with such a query."""
    bodies = [json.dumps(page) for page in pages]

    def answer(route: Route) -> None:
        token = parse_qs(urlsplit(route.request.url).query).get("continuationToken", ["0"])
        route.fulfill(content_type="application/json", body=bodies[int(token[0])])

    def opened(query: str = "") -> Page:
        page = open_page("/provisioners")
        page.route(f"**/task-group/{template['taskGroupId']}/list**", answer)
        page.goto(f"/tasks/groups/{template['taskGroupId']}{query}")
        return page

    return opened


class Clock:
    """The processor's time that a page has used, which other programs of the machine change little."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        found = {each["name"]: each["value"] for each in self._session.send("Performance.getMetrics")["metrics"]}
        return float(found["TaskDuration"])


@contextmanager
def measured(what: str, page: Page | None = None) -> Iterator[None]:
    """Prints how long it took, and how much of that the page was at work."""
    clock = Clock(page) if page is not None else None
    worked = clock.seconds() if clock is not None else 0.0
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    print(f"{what}: {took:.2f} s" + (f", {clock.seconds() - worked:.2f} s at work" if clock is not None else ""))


def frames(page: Page, what: str, move: Callable[[int], None], times: int = 20) -> None:
    """Prints how long the page took to draw after each of many moves."""
    clock = Clock(page)
    worked, began = clock.seconds(), time.perf_counter()
    for number in range(times):
        move(number)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    took = (time.perf_counter() - began) / times * 1000
    print(f"{what}: {took:.0f} ms each, {(clock.seconds() - worked) / times * 1000:.0f} ms at work")


def test_five_thousand_tasks_are_listed_filtered_and_sorted(open_large: Callable[[str], Page], watch: Watch) -> None:
    with measured("first rows"):
        page = open_large("")
        expect(page.get_by_role("row").nth(5)).to_be_visible(timeout=MANY_SECONDS)
    print(f"  of these, from the group's address to its first tasks: {page.evaluate(_FIRST_ROWS):.2f} s")
    with measured("all rows, after the first", page):
        expect(page.locator("dl").get_by_text(f"{TASKS:,}", exact=True)).to_be_visible(timeout=MANY_SECONDS)
    rows = page.get_by_role("row")
    assert rows.count() < 150, "only rows in view are in the document"
    listings = [request.url for request in watch.requests if "/list" in request.url]
    assert len(listings) <= 2 * (TASKS // 1000 + 1)
    with measured("filtered by name", page):
        page.get_by_label("Filter by name, owner").fill("task-4999")
        expect(page.get_by_text(f"1 of {TASKS:,} tasks")).to_be_visible()
    page.get_by_label("Filter by name, owner").fill("")
    page.get_by_role("button", name="Name").click()
    expect(rows.nth(1)).to_contain_text("graph-0000", timeout=MANY_SECONDS)
    with measured("sorted by name, backwards", page):
        page.get_by_role("button", name="Name").click()
        expect(rows.nth(1)).to_contain_text(f"task-{TASKS - 1}", timeout=MANY_SECONDS)
    frames(page, "scrolled by a screen", lambda number: page.mouse.wheel(0, 900))
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="graph-0000", exact=True)).to_be_visible()
    assert rows.count() < 150
    page.get_by_label("Select all that are listed").check()
    expect(page.get_by_text(f"{TASKS:,} tasks selected")).to_be_visible()
    heap = page.evaluate("performance.memory.usedJSHeapSize")
    print(f"JavaScript heap: {heap / 1e6:.0f} MB")
    assert heap < 500e6


def test_a_watched_group_makes_few_requests_in_its_first_minute(
    open_large: Callable[[str], Page], watch: Watch
) -> None:
    page = open_large("")
    began = time.monotonic()
    expect(page.locator("dl").get_by_text(f"{TASKS:,}", exact=True)).to_be_visible(timeout=MANY_SECONDS)
    page.wait_for_timeout((MINUTE - (time.monotonic() - began)) * 1000)
    asked = [request.url for request in watch.requests if asks(request) and "/task-queue-states" not in request.url]
    asked = asked[next(number for number, url in enumerate(asked) if "/list" in url) :]
    print(f"requests in the first minute: {len(asked)}")
    assert len(asked) <= MOST_IN_A_MINUTE
    looks = Counter(url.partition("continuationToken=")[2] for url in asked if "/list" in url)
    assert len(looks) == TASKS // PAGE
    assert max(looks.values()) - min(looks.values()) <= 1, "a look is a request for each page"


def test_a_graph_of_five_thousand_tasks_is_drawn_and_moved(open_large: Callable[[str], Page]) -> None:
    page = open_large("?view=graph")
    expect(page.locator("dl").get_by_text(f"{TASKS:,}", exact=True)).to_be_visible(timeout=MANY_SECONDS)
    graph = page.get_by_role("group", name="Dependencies of the tasks")
    with measured(f"graph of {TASKS:,} tasks, laid out and drawn", page):
        expect(graph.locator(".bundle")).to_have_count(IN_GRAPH // LAYER + 1, timeout=MANY_SECONDS)
    assert graph.locator(".edge").count() == IN_GRAPH // LAYER - 1
    graph.focus()
    frames(page, "zoomed", lambda number: page.keyboard.press("+"), times=10)
    frames(page, "moved", lambda number: page.keyboard.press("ArrowRight" if number % 2 else "ArrowLeft"))
    with measured(f"a level of {LAYER} opened", page):
        page.get_by_role("group", name="Levels").get_by_role("button", name="Level 2", exact=False).first.click()
        expect(graph.get_by_role("link")).to_have_count(LAYER)
    assert graph.locator("*").count() < 1500
    first = graph.get_by_role("link").first
    first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/tasks/[\w-]{22}$"))


def test_a_matrix_of_five_thousand_tasks_is_drawn(open_large: Callable[[str], Page]) -> None:
    page = open_large("?view=matrix")
    expect(page.locator("dl").get_by_text(f"{TASKS:,}", exact=True)).to_be_visible(timeout=MANY_SECONDS)
    with measured("matrix by other columns", page):
        page.get_by_label("Columns").select_option("queue")
        expect(page.get_by_role("table", name="and task queue")).to_be_visible()
    assert page.locator(".mark").count() < 2000
    with measured("filtered to a cell", page):
        page.locator(".mark.many").first.click()
        expect(page.get_by_role("row").nth(5)).to_be_visible()


def test_a_row_opens(open_large: Callable[[str], Page]) -> None:
    page = open_large("")
    expect(page.locator("dl").get_by_text(f"{TASKS:,}", exact=True)).to_be_visible(timeout=MANY_SECONDS)
    with measured("a row opened", page):
        page.get_by_role("button", name="Look at").first.click()
        expect(page.locator(".look")).to_be_visible()
