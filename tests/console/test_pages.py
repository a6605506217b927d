"""Every page, light and dark, wide and on a phone: axe finds nothing, nothing is cut off; a picture is kept."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.clients.deployment import Deployment
from tests.console.browser import answered
from tests.console.conftest import OpenPage
from tests.console.scene import LOG, WORKER_GROUP, Scene, lately
from tools.local.state import ROOT

PICTURES = Path(os.environ.get("CONSOLE_PICTURES", ROOT / ".local" / "console"))
"""Where pictures of the pages are kept; CI keeps the folder."""

WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 800}
AXE = ROOT / "tools" / "node_modules" / "axe-core" / "axe.min.js"

PAGES: Mapping[str, tuple[str, str]] = {
    "home": ("/", "1 failed"),
    "group": ("/tasks/groups/{group}", "decision"),
    "graph": ("/tasks/groups/{group}?view=graph", "Whole graph"),
    "row": ("/tasks/groups/{group}?open={failed}", "step 300"),
    "matrix": ("/tasks/groups/{group}?view=matrix&open={failed}", "step 300"),
    "before": ("/tasks/groups/{group}?view=before", "No group before"),
    "compare": ("/tasks/compare?one={failed}/0&other={passed}/0", "step 58"),
    "timeline": ("/tasks/groups/{group}?view=timeline", "worker-2"),
    "task": ("/tasks/{failed}", "step 300"),
    "pending": ("/tasks/{pending}", "No worker takes the tasks"),
    "running": ("/tasks/{running}", "its claim holds for"),
    "log": ("/tasks/{failed}/runs/0/logs/{log}#L50", "step 50"),
    "artifact": ("/tasks/{failed}/runs/0/{log}", "Open the artifact"),
    "create": ("/tasks/create", "Definition"),
    "index": ("/tasks/index", "All namespaces"),
    "queues": ("/provisioners/{provisioner}", "{provisioner}/linux"),
    "queue": ("/provisioners/{provisioner}/worker-types/linux", "worker-2"),
    "waiting": ("/provisioners/{provisioner}/worker-types/windows/pending-tasks", "windows"),
    "worker": ("/provisioners/{provisioner}/worker-types/linux/workers/{worker}", "runs 1 task"),
    "history": ("/history", "Time from scheduled to started"),
    "operations": ("/operations", "What only the logs know"),
    "clients": ("/auth/clients", "static/taskcluster/root"),
    "client": ("/auth/clients/static%2Ftaskcluster%2Froot", "static/taskcluster/root"),
    "new-client": ("/auth/clients/create", "Lives for"),
    "roles": ("/auth/roles", "Roles"),
    "scopes": ("/auth/scopes", "Scopes"),
    "profile": ("/profile", "What you may do"),
    "nothing": ("/tasks/nothing/here", "There is no such page"),
}
"""Addresses by the names of their pictures, and what is on the page when it has loaded."""

_LOOK = "async (options) => (await axe.run(document, options)).violations"
"""What is well is not sent: it is most of what axe says."""
ONLY_COLORS = {"runOnly": ["color-contrast"]}


def _faults(page: Page, options: Mapping[str, Any]) -> list[str]:
    """What axe finds. Put in by `evaluate`, which leaves the content security policy on."""
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate(AXE.read_text())
    found = page.evaluate(_LOOK, {**options, "resultTypes": ["violations"]})
    return [f"{fault['id']}: {node['html']} {node['failureSummary']}" for fault in found for node in fault["nodes"]]


def faults_of(page: Page) -> list[str]:
    """What axe finds on the page as it is."""
    return _faults(page, {})


def keep(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def _open(name: str, scene: Scene, open_page: OpenPage, **options: Any) -> Page:
    path, loaded = PAGES[name]
    names = {
        "group": scene.group,
        "failed": scene.ids["build-2"],
        "passed": scene.ids["build-1"],
        "pending": scene.ids["windows"],
        "running": scene.ids["test-1"],
        "log": quote(LOG, safe=""),
        "provisioner": scene.task_queue.split("/")[0],
        "worker": f"{WORKER_GROUP}/worker-2",
    }
    page = open_page(path.format(**names), viewport=WIDE, **options)
    expect(page.get_by_role("main").get_by_text(loaded.format(**names)).first).to_be_visible()
    return page


@pytest.mark.large
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_usable_by_everybody(name: str, settled: Scene, deployment: Deployment, open_page: OpenPage) -> None:
    if name == "home":
        lately(deployment)
    page = _open(name, settled, open_page)
    keep(page, name)
    assert _faults(page, {}) == []
    page.set_viewport_size(PHONE)
    keep(page, f"{name}-phone")
    assert _faults(page, {}) == []
    page.set_viewport_size(WIDE)
    page.get_by_role("button", name="Dark", exact=True).click()
    keep(page, f"{name}-dark")
    assert _faults(page, ONLY_COLORS) == []
    page.set_viewport_size(PHONE)
    assert _faults(page, ONLY_COLORS) == []
    beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert beyond <= 0, "the page scrolls sideways"


_LINE_COLORS = """() => {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, alpha] = data.subarray(at, at + 4);
    if (alpha < 255 || Math.max(red, green, blue) - Math.min(red, green, blue) < 80) continue;
    const color = [red, green, blue].join();
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count > 200).map(([color]) => color).sort();
}"""
"""The colours that fill more than some dots of the first plot."""


def _line_colors(page: Page) -> list[str]:
    colors: list[str] = page.evaluate(_LINE_COLORS)
    return colors


def test_the_history_is_drawn_of_all_task_queues_and_of_one(settled: Scene, open_page: OpenPage) -> None:
    page = _open("history", settled, open_page)
    expect(page.get_by_role("img")).to_have_count(4)
    expect(page.get_by_role("img", name=re.compile(r"Tasks; latest: pending \d+, running \d+"))).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"pending\s*\d+\s*running\s*\d+"))  # the latest
    light = _line_colors(page)
    assert len(light) == 2, "pending and running"
    page.get_by_role("button", name="Dark", exact=True).click()
    page.wait_for_function(f"() => JSON.stringify(({_LINE_COLORS})()) !== {json.dumps(json.dumps(light))}")
    page.get_by_label("Task queue").select_option(settled.task_queue)
    expect(page).to_have_url(re.compile(r"/history\?queue="))
    expect(page.get_by_role("img", name="Runs resolved between samples; latest: completed")).to_be_visible()
    page.get_by_label("Time span").select_option("30 days")
    expect(page).to_have_url(re.compile(r"span=30"))


def test_a_history_without_samples_says_when_there_will_be_some(open_page: OpenPage) -> None:
    # As on the first five minutes of a deployment: this one has samples already.
    none = answered("/api/queue/v1/history", {"intervalSeconds": 300, "samples": []})
    page = open_page("/history", viewport=WIDE, script=none)
    expect(page.get_by_text("There are fewer than two samples of this time yet")).to_be_visible()


def test_the_theme_is_the_systems_until_one_chooses(settled: Scene, open_page: OpenPage) -> None:
    page = _open("queues", settled, open_page, color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light", exact=True).click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.reload()
    expect(page.get_by_role("button", name="Dark", exact=True)).to_be_visible()


def test_the_keyboard_reaches_everything(settled: Scene, open_page: OpenPage) -> None:
    page = _open("group", settled, open_page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    rerun = page.get_by_role("button", name="Rerun all that failed")
    for _ in range(30):
        if rerun.evaluate("(element) => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(rerun).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Rerun 1 task").get_by_role("button", name="Rerun 1 task")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(rerun).to_be_focused()


def test_the_graph_is_moved_by_keys(settled: Scene, open_page: OpenPage) -> None:
    page = _open("graph", settled, open_page)
    graph = page.get_by_role("group", name="Dependencies of the tasks")
    whole = graph.get_attribute("viewBox")
    graph.focus()
    page.keyboard.press("+")
    expect(graph).not_to_have_attribute("viewBox", str(whole))
    page.keyboard.press("0")
    expect(graph).to_have_attribute("viewBox", str(whole))
