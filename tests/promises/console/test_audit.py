"""Who did what, on the pages of a task, a group, a worker, a client and a role."""

from __future__ import annotations

import uuid
from datetime import timedelta
from urllib.parse import quote

import taskcluster
from playwright.sync_api import Page, expect

from tests.promises.clients.deployment import format_time
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import WORKER_GROUP, Scene
from tests.promises.console.test_pages import PHONE, WIDE, cut_off, faults_of, keep

TOMORROW = format_time(timedelta(days=1))


def _history(page: Page, title: str = "Who did what") -> list[str]:
    """Returns the rows of a history, once it was opened."""
    part = page.locator("details.audit").filter(has=page.locator("summary", has_text=title))
    part.locator("summary").click()
    expect(part.get_by_role("button", name="Look again")).to_be_visible()
    return part.locator("tbody tr").all_inner_texts()


def _asked(watch: Watch) -> int:
    return sum(request.url.partition("?")[0].endswith("/audit") for request in watch.requests)


def test_a_task_and_its_group_say_who_did_what(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    task_id = scene.create("build")
    queue, root = scene.client(), scene.deployment.root["clientId"]
    queue.changeTaskPriority(task_id, {"newPriority": "high"})
    queue.cancelTask(task_id)
    queue.rerunTask(task_id)
    queue.sealTaskGroup(scene.group)
    page = open_page(f"/tasks/{task_id}")
    expect(page.get_by_role("heading", name="build")).to_be_visible()
    assert _asked(watch) == 0, "nothing is asked until somebody wants to know"
    rows = _history(page)
    for action, row in zip(("sealed", "rerun", "canceled", "to high"), rows, strict=True):
        assert action in row
    assert all(root in row for row in rows)
    assert _asked(watch) == 1
    page.get_by_role("link", name=scene.group).last.click()
    page.get_by_role("link", name="Who did what").click()  # a tab, not what is below a list of any length
    table = page.get_by_role("table", name="Who did what, latest first")
    expect(table.get_by_role("row")).to_have_count(1 + 4)
    assert _asked(watch) == 2
    page.set_viewport_size(PHONE)
    assert cut_off(page) == []
    table.get_by_role("link", name="build").first.click()
    expect(page.get_by_role("heading", name="build")).to_be_visible()


def test_a_worker_a_client_and_a_role_say_who_did_what(scene: Scene, open_page: OpenPage) -> None:
    name = f"test/{uuid.uuid4().hex}"
    auth = taskcluster.Auth(scene.deployment.options(scene.deployment.root))
    definition = {"expires": TOMORROW, "description": "", "scopes": ["queue:*"]}
    token = auth.createClient(name, definition)["accessToken"]
    auth.createRole(name, {"description": "", "scopes": []})
    auth.disableClient(name)
    auth.enableClient(name)
    scene.create("build")
    scene.run("build")
    worker = (*scene.task_queue.split("/"), WORKER_GROUP, "worker-1")
    own = scene.client({"clientId": name, "accessToken": token})
    own.quarantineWorker(*worker, {"quarantineUntil": TOMORROW, "quarantineInfo": "why"})

    page = open_page(f"/provisioners/{worker[0]}/worker-types/{worker[1]}/workers/{WORKER_GROUP}/worker-1")
    [row] = _history(page)
    assert (name in row, "quarantined" in row, "until" in row) == (True, True, True)
    page.locator("details.audit").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=f"Client {name}")).to_be_visible()
    done = _history(page, "What was done to it")
    for action, row in zip(("enabled", "disabled", "created"), done, strict=True):
        assert action in row
    [did] = _history(page, "What it did")
    assert ("quarantined" in did, "/".join(worker) in did, token in page.content()) == (True, True, False)
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="light")
        assert (faults_of(page), cut_off(page)) == ([], [])
        keep(page, f"audit-{size['width']}")
        page.emulate_media(color_scheme="dark")
        assert faults_of(page) == []
    page.goto(f"/auth/roles/{quote(name, safe='')}")
    [made] = _history(page)
    assert "created" in made

    nobody = open_page(f"/auth/clients/{quote(name, safe='')}", scene.deployment.new_client("auth:get-client:*"))
    nobody.locator("summary", has_text="What it did").click()
    expect(nobody.get_by_role("alert")).to_contain_text("auth:client-audit-history")
