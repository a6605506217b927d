"""The pages of the index: from a task to the paths that it is indexed as, and from a namespace to the task."""

import re
import uuid

import taskcluster
from playwright.sync_api import expect

from tests.console.conftest import OpenPage
from tests.console.scene import Scene
from tests.host.service import eventually


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


def test_an_unknown_path_says_so(open_page: OpenPage) -> None:
    page = open_page("/tasks/index/nobody.has.this")
    expect(page.get_by_text("Nothing is indexed here.")).to_be_visible()
