"""The pages of the index: from a task to the paths that it is indexed as, and from a namespace to the task."""

import re
import uuid
from datetime import timedelta
from urllib.parse import urlsplit

import taskcluster
from playwright.sync_api import expect

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment, format_time
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene, lines
from tests.promises.console.test_pages import faults_of
from tests.promises.host.service import eventually


def test_a_task_leads_to_its_paths_and_a_namespace_to_its_task(scene: Scene, open_page: OpenPage) -> None:
    space = f"console-{uuid.uuid4().hex}"
    path = f"{space}.v2.latest.100%"
    task_id = scene.create("build", routes=[f"index.{path}", "other"], extra={"index": {"rank": 7, "data": {"k": 1}}})
    scene.claim("build")
    scene.complete("build")
    index = taskcluster.Index(scene.deployment.options(scene.deployment.root))
    eventually(lambda: index.listTasks(f"{space}.v2.latest")["tasks"] or None)
    page = open_page(f"/tasks/{task_id}")
    page.get_by_role("link", name=path, exact=True).click()
    expect(page.get_by_role("heading", name="Latest task")).to_be_visible()
    expect(page.get_by_role("link", name=task_id)).to_be_visible()
    expect(page.get_by_text('"k": 1')).to_be_visible()
    page.get_by_role("link", name=space, exact=True).click()
    for name in ("v2", "latest", "100%"):
        page.get_by_role("article").get_by_role("listitem").get_by_role("link", name=name, exact=True).click()
    page.get_by_role("link", name=task_id).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("build")
    page = open_page(f"/tasks/index/{space}.v2.latest/100%25/task-group")
    expect(page).to_have_url(re.compile(f"/tasks/groups/{scene.group}$"))


def test_an_entry_shows_what_its_task_left_and_where_the_latest_always_is(
    scene: Scene, open_page: OpenPage, deployment: Deployment, watch: Watch
) -> None:
    space = f"console-{uuid.uuid4().hex}"
    task_id = scene.create("build", routes=[f"index.{space}.latest"])
    scene.claim("build")
    scene.upload("build", LOG, lines())
    scene.upload("build", "public/build.zip", b"PK" + bytes(3000), "application/zip")
    scene.complete("build")
    index = taskcluster.Index(deployment.options(deployment.root))
    eventually(lambda: index.listTasks(space)["tasks"] or None)
    page = open_page("/tasks/index", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Path").fill(f"index.{space}.latest")  # as a task's route has it
    page.get_by_role("button", name="Go").click()
    expect(page).to_have_url(re.compile(f"/tasks/index/{space}.latest$"))
    artifacts = page.locator(".artifacts").get_by_role("listitem")
    expect(artifacts).to_have_count(2)
    expect(artifacts.nth(1)).to_contain_text("2.9 KiB")
    assert faults_of(page) == []
    artifacts.nth(1).get_by_role("button", name="Copy link").click()
    address = f"{deployment.root_url}/api/index/v1/task/{space}.latest/artifacts/public/build.zip"
    assert page.evaluate("navigator.clipboard.readText()") == address
    expect(artifacts.nth(1).get_by_role("link")).to_have_attribute("href", re.compile(f"{task_id}/runs/0/.*build.zip$"))
    asked = [urlsplit(request.url).path for request in watch.requests]
    assert asked.count(f"/api/queue/v1/task/{task_id}/runs/0/artifacts") == 1
    artifacts.nth(0).get_by_role("link", name=LOG).click()
    expect(page.get_by_role("region", name="Log")).to_contain_text("step 300")

    page.goto("/tasks/index")
    page.get_by_label("Path").fill(f"{space}.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article").get_by_role("listitem").get_by_role("link", name="latest")).to_be_visible()


def test_an_entry_whose_task_is_gone_says_so(open_page: OpenPage, deployment: Deployment) -> None:
    path = f"console-{uuid.uuid4().hex}"
    entry = {"taskId": new_slugid(), "rank": 0, "data": {}, "expires": format_time(timedelta(days=1))}
    taskcluster.Index(deployment.options(deployment.root)).insertTask(path, entry)
    page = open_page(f"/tasks/index/{path}")
    expect(page.get_by_text("There is no such task here")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_an_unknown_path_says_so(open_page: OpenPage) -> None:
    page = open_page("/tasks/index/nobody.has.this")
    expect(page.get_by_text("Nothing is indexed here.")).to_be_visible()
