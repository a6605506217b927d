"""A graph that is too large to be read as a whole: where it begins, and how one moves in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.promises.clients.deployment import Deployment
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import Scene
from tests.promises.console.test_pages import faults_of

WIDE: ViewportSize = {"width": 1440, "height": 900}
TESTS = [f"test-of-something-large-{number:02}" for number in range(32)]
FAILED = TESTS[0]
WHOLLY = 0.999  # of a node is in view: where the drawing is scaled, some browsers compute a little less than 1


@pytest.fixture(scope="package")
def fan(deployment: Deployment) -> Scene:
    """Returns a task that many wait for; one of these has failed."""
    scene = Scene(deployment)
    scene.create("build")
    for name in TESTS:
        scene.create(name, ["build"])
    scene.run("build")
    scene.claim(FAILED)
    scene.fail(FAILED)
    return scene


@pytest.fixture
def graph(fan: Scene, open_page: OpenPage) -> Locator:
    """Returns the drawing, on its page."""
    page = open_page(f"/tasks/groups/{fan.group}?view=graph", viewport=WIDE)
    return page.get_by_role("group", name="Dependencies of the tasks")


def _node(graph: Locator, state: str) -> Locator:
    return graph.get_by_role("link", name=re.compile(rf"{state}$"))


def _box(node: Locator) -> Mapping[str, float]:
    box = node.bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def _moved(page: Page, graph: Locator, key: str, times: int) -> None:
    graph.focus()
    for _ in range(times):
        page.keyboard.press(key)


def test_it_begins_at_what_failed_large_enough_to_be_read(graph: Locator) -> None:
    node = _node(graph, "failed")
    expect(node).to_be_in_viewport(ratio=WHOLLY)
    assert _box(node)["height"] > 25
    expect(node).to_contain_text(re.compile(r"test-of.*….*-00"))  # names differ at their ends


def test_what_failed_is_found_again(graph: Locator) -> None:
    page, node = graph.page, _node(graph, "failed")
    expect(node).to_be_in_viewport()
    _moved(page, graph, "ArrowRight", 20)
    expect(node).not_to_be_in_viewport()
    page.get_by_role("button", name="Next failure").click()
    expect(node).to_be_in_viewport(ratio=WHOLLY)


def test_it_is_dragged_by_a_task_without_opening_it(graph: Locator) -> None:
    page, node = graph.page, _node(graph, "failed")
    expect(node).to_be_in_viewport(ratio=WHOLLY)
    before = _box(node)
    x, y = before["x"] + 20, before["y"] + 10
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 30, steps=4)
    page.mouse.up()
    expect(graph).to_be_visible()
    after = _box(node)
    assert after["x"] - before["x"] == pytest.approx(60, abs=2), "it follows the pointer"
    assert after["y"] - before["y"] == pytest.approx(30, abs=2)
    assert page.url.endswith("view=graph")
    node.click()
    expect(page).to_have_url(re.compile(r"/tasks/[\w-]{22}$"))
    expect(page.get_by_role("main")).to_be_focused()


def test_a_fan_of_any_size_is_one_bundle_and_one_edge(graph: Locator) -> None:
    bundle = graph.get_by_role("button", name=f"test, {len(TESTS) - 1} tasks")
    expect(bundle).to_have_attribute("aria-expanded", "false")
    expect(graph.locator(".edge")).to_have_count(2)  # to the bundle, and to what failed
    expect(graph.get_by_role("link")).to_have_count(2)  # what all wait for, and what failed
    assert faults_of(graph.page) == []


def test_levels_open_and_close(graph: Locator) -> None:
    page = graph.page
    expect(graph.locator(".edge")).to_have_count(2)
    page.get_by_role("group", name="Levels").get_by_role("button", name="Level 2").click()
    expect(graph.get_by_role("link", name=re.compile("(pending|running)$"))).to_have_count(len(TESTS) - 1)
    expect(graph.locator(".edge")).to_have_count(2)  # as when it was closed
    expect(graph.get_by_role("button", name="test, 31 tasks")).to_be_in_viewport()
    graph.get_by_role("button", name="test, 31 tasks").press("Enter")
    expect(graph.get_by_role("link", name=re.compile("(pending|running)$"))).to_have_count(0)


def test_tab_goes_from_task_to_task_and_each_is_seen(graph: Locator) -> None:
    page = graph.page
    page.get_by_role("group", name="Levels").get_by_role("button", name="Level 2").click()
    expect(graph.get_by_role("link", name=re.compile("(pending|running)$")).first).to_be_visible()
    graph.focus()
    for _ in range(len(TESTS) // 4):
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_be_in_viewport(ratio=WHOLLY)
