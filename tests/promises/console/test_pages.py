"""Every page, light and dark, wide and on a phone: axe finds nothing, nothing is cut off; a picture is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.promises.clients.deployment import Deployment
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, WORKER_GROUP, Scene, lately
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
    "before": ("/tasks/groups/{group}?view=before", "No earlier group"),
    "compare": ("/tasks/compare?one={failed}/0&other={passed}/0", "step 58"),
    "timeline": ("/tasks/groups/{group}?view=timeline", "worker-2"),
    "task": ("/tasks/{failed}", "step 300"),
    "pending": ("/tasks/{pending}", "No worker takes the tasks"),
    "running": ("/tasks/{running}", "Its claim ends in"),
    "log": ("/tasks/{failed}/runs/0/logs/{log}#L50", "step 50"),
    "artifact": ("/tasks/{failed}/runs/0/{log}", "Open the artifact"),
    "create": ("/tasks/create", "Definition"),
    "index": ("/tasks/index", "All namespaces"),
    "queues": ("/provisioners/{provisioner}", "{provisioner}/linux"),
    "queue": ("/provisioners/{provisioner}/worker-types/linux", "worker-2"),
    "waiting": ("/provisioners/{provisioner}/worker-types/windows/pending-tasks", "windows"),
    "worker": ("/provisioners/{provisioner}/worker-types/linux/workers/{worker}", "running 1 task"),
    "operations": ("/operations", "What only the logs know"),
    "clients": ("/auth/clients", "static/taskcluster/root"),
    "client": ("/auth/clients/static%2Ftaskcluster%2Froot", "static/taskcluster/root"),
    "new-client": ("/auth/clients/create", "Valid for"),
    "roles": ("/auth/roles", "Roles"),
    "scopes": ("/auth/scopes", "Scopes"),
    "profile": ("/profile", "What you may do"),
    "nothing": ("/tasks/nothing/here", "There is no such page"),
}
"""Addresses by the names of their pictures, and what is on the page when it has loaded."""

_LOOK = "async (options) => (await axe.run(document, options)).violations"
"""What is well is not sent: it is most of what axe says."""
_WIDER = """() => [...document.querySelectorAll("html, .top nav, .tabs, .table-frame:not(:has(.matrix))")]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.outerHTML.slice(0, 300))"""
ONLY_COLORS = {"runOnly": ["color-contrast"]}


def _faults(page: Page, options: Mapping[str, Any]) -> list[str]:
    """Returns what axe finds. It is put in by `evaluate`, which leaves the content security policy on."""
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate(AXE.read_text())
    found = page.evaluate(_LOOK, {**options, "resultTypes": ["violations"]})
    return [f"{fault['id']}: {node['html']} {node['failureSummary']}" for fault in found for node in fault["nodes"]]


def faults_of(page: Page) -> list[str]:
    """Returns what axe finds on the page as it is."""
    return _faults(page, {})


def cut_off(page: Page) -> list[str]:
    """Returns what is wider than its place, so that one would have to scroll it sideways; a matrix may be."""
    return list(page.evaluate(_WIDER))


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
    assert cut_off(page) == []


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
