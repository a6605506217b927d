"""A tab that was open when the service went away goes on by itself when it is back: nobody loads it anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.parts.local.stacks import free_ports
from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import storage_of
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene, put
from tests.promises.host.conftest import QUICK
from tools.local import state
from tools.local.stack import Stack, StackOptions

LONGEST = 150_000
"""Milliseconds: a page that fails looks less and less often, once a minute in the end."""
UNREACHABLE = "The service cannot be reached"


@pytest.fixture
def options() -> Iterator[StackOptions]:
    """Returns the options of a stack of the test's own, whose data outlive it."""
    made = StackOptions(free_ports(), app_settings=QUICK)
    yield made
    shutil.rmtree(state.folder(made.ports.api), ignore_errors=True)


@pytest.mark.large
@pytest.mark.timeout(600)
def test_open_tabs_go_on_after_an_outage(options: StackOptions, open_page: OpenPage) -> None:
    """After the outage open tabs show what has become of their things; a page that none has loaded comes, too."""
    with Stack.start(options) as stack:
        deployment = Deployment.of(stack)
        scene = Scene(deployment)
        scene.create("build")
        scene.create("test", ["build"])
        scene.claim("build")
        url = scene.upload("build", LOG, b"first\n")
        context = open_page("about:blank", None, storage_state=storage_of(deployment.root_url, deployment.root)).context
        root = deployment.root_url
        addresses = {
            "group": f"{root}/tasks/groups/{scene.group}",
            "task": f"{root}/tasks/{scene.ids['test']}",
            "queue": f"{root}/provisioners/{scene.task_queue.replace('/', '/worker-types/')}",
            "log": f"{root}/tasks/{scene.ids['build']}/runs/0/logs/live/{LOG.replace('/', '%2F')}",
            "other": f"{root}/tasks/index",
        }
        pages = {name: context.new_page() for name in addresses}
        for name, page in pages.items():
            page.goto(addresses[name])
        expect(pages["group"].get_by_role("link", name="test", exact=True)).to_be_visible()
        expect(pages["task"].get_by_role("heading", level=1)).to_contain_text("unscheduled")
        expect(pages["queue"].get_by_role("row").nth(1)).to_contain_text("running its last task")
        expect(pages["log"].get_by_role("region", name="Log")).to_contain_text("first")
        expect(pages["other"].get_by_role("heading", level=1)).to_be_visible()
        for page in pages.values():
            page.evaluate("window.kept = true")

    for name in ("group", "task", "queue"):
        expect(pages[name].get_by_role("alert").first).to_contain_text(UNREACHABLE, timeout=LONGEST)
        expect(pages[name].get_by_role("heading", level=1)).to_be_visible()  # what was known stays
    pages["other"].get_by_role("link", name="Clients", exact=True).click()
    expect(pages["other"].get_by_role("alert").first).to_be_visible()

    with Stack.start(options):
        put(url, b"first\nsecond\n")
        scene.complete("build")
        expect(pages["task"].get_by_role("heading", level=1)).to_contain_text("pending", timeout=LONGEST)
        expect(pages["group"].get_by_role("button", name="1 completed")).to_be_visible(timeout=LONGEST)
        expect(pages["queue"].get_by_role("row").nth(1)).to_contain_text("seen in the last half hour", timeout=LONGEST)
        expect(pages["log"].get_by_role("region", name="Log")).to_contain_text("second", timeout=LONGEST)
        for name in ("group", "task", "queue", "log"):
            expect(pages[name].get_by_role("alert")).to_have_count(0, timeout=LONGEST)
            assert pages[name].evaluate("window.kept"), "the tab was loaded anew"
        listed = pages["other"].get_by_role("main").get_by_role("link", name="static/taskcluster/root")
        expect(listed).to_be_visible(timeout=LONGEST)
