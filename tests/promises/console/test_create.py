"""Creating a task: what one created lately is there to begin with, and nothing of it is kept but its name."""

from __future__ import annotations

import json
import re
from datetime import timedelta

from playwright.sync_api import Page, expect

from tests.promises.clients.deployment import format_time
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import Scene
from tests.promises.console.test_pages import faults_of

RECENT_KEY = "taskcluster-queue.recent"
MOST = 10


def _create(page: Page, scene: Scene, name: str, secret: str = "") -> str:
    """Creates a task by hand; returns its id."""
    page.get_by_role("link", name="Create a task").click()
    definition = {
        "taskQueueId": scene.task_queue,
        "created": format_time(timedelta()),
        "deadline": format_time(timedelta(hours=1)),
        "payload": {"env": {"TOKEN": secret}},
        "metadata": {"name": name, "description": "x", "owner": "me@example.com", "source": "https://example.com"},
    }
    page.get_by_label("Definition").fill(json.dumps(definition))
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    return page.url.rpartition("/")[2]


def test_what_was_created_lately_is_there_to_begin_with(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    page = open_page("/tasks/create")
    expect(page.get_by_label("Definition")).to_be_visible()
    expect(page.get_by_role("navigation", name="Used lately")).to_have_count(0)
    first = _create(page, scene, "build <b>it</b>", secret="of nobody else")
    second = _create(page, scene, "test")
    again = _create(page, scene, "test")

    page.goto("/tasks/create")
    lately = page.get_by_role("navigation", name="Used lately")
    expect(lately.get_by_role("link")).to_have_text(["test", "build <b>it</b>"])
    assert faults_of(page) == []
    stored = page.evaluate("key => localStorage.getItem(key)", RECENT_KEY)
    assert "of nobody else" not in stored
    assert second not in stored
    before = len(watch.requests)
    lately.get_by_role("link", name="build <b>it</b>").click()
    expect(page.get_by_label("Definition")).to_have_value(re.compile("TOKEN: of nobody else"))
    expect(page).to_have_url(f"{scene.deployment.root_url}/tasks/{first}/create")
    read = [request.url for request in watch.requests[before:] if "/api/" in request.url]
    assert read == [f"{scene.deployment.root_url}/api/queue/v1/task/{first}"]
    lately.get_by_role("link", name="test").click()
    expect(page.get_by_label("Definition")).to_have_value(re.compile("name: test"))
    expect(page).to_have_url(f"{scene.deployment.root_url}/tasks/{again}/create")


def test_what_is_kept_is_bounded_and_of_who_is_signed_in(scene: Scene, open_page: OpenPage) -> None:
    page = open_page("/tasks/create")
    for number in range(MOST + 1):
        page.evaluate(
            """async ([number, gone]) => {
              const app = document.querySelector("script[src*='app.js']").src;
              const { rememberTask } = await import(app.replace("app.js", "core/recent.js"));
              rememberTask({ taskId: gone, name: `task ${number}`, taskQueueId: "a/b", payload: "secret" });
            }""",
            [number, "AAAAAAAAQAaAAAAAAAAAAA"],
        )
    page.reload()
    links = page.get_by_role("navigation", name="Used lately").get_by_role("link")
    expect(links).to_have_text([f"task {number}" for number in range(MOST, 0, -1)])
    assert "secret" not in page.evaluate("key => localStorage.getItem(key)", RECENT_KEY)

    links.first.click()
    expect(page.get_by_role("alert")).to_contain_text("It may have expired")
    page.goto("/tasks/create")
    expect(links).to_have_count(0)  # all were of the same id
    _create(page, scene, "mine")
    page.goto("/profile")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.evaluate("key => localStorage.getItem(key)", RECENT_KEY) is None
