"""What people have who sign in as docs/console.md sets it up for Entra ID: pages, and for administrators actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.promises.clients.deployment import Deployment
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, WORKER_GROUP, Scene, lines
from tests.promises.console.test_openid import GROUP, sign_in

pytestmark = pytest.mark.usefixtures("roles")

LACKS = re.compile("lack a scope|Sign in")
VIEWED = """
/ /tasks/groups/{group} /tasks/groups/{group}?view=before /tasks/{failed} /tasks/{pending} /tasks/index /profile
/tasks/{failed}/runs/0/logs/{log} /provisioners /provisioners/{queue} /provisioners/{queue}/pending-tasks
/provisioners/{queue}/claimed-tasks /provisioners/{queue}/workers/{worker} /auth/clients /auth/roles
/auth/roles/login%3Aadmins
"""
"""What everybody who works here looks at."""


@pytest.fixture
def work(deployment: Deployment) -> Mapping[str, str]:
    """Creates something to look at; returns what addresses are filled with."""
    scene = Scene(deployment)
    scene.create("build", task_id=scene.group)
    scene.claim("build")
    scene.upload("build", LOG, lines())
    scene.fail("build")
    scene.create("test")
    return {
        "group": scene.group,
        "failed": scene.group,
        "pending": scene.ids["test"],
        "log": quote(LOG, safe=""),
        "queue": scene.task_queue.replace("/", "/worker-types/"),
        "worker": f"{WORKER_GROUP}/worker-1",
    }


def _rerun(page: Page) -> None:
    page.get_by_role("button", name="Rerun", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Rerun the task").click()


def test_who_is_in_no_group_looks_at_everything_and_changes_nothing(
    work: Mapping[str, str], open_page: OpenPage
) -> None:
    page = open_page("/login?then=/profile", None)
    sign_in(page, "nobody")
    main = page.get_by_role("main")
    expect(main.get_by_text("assume:login:everybody", exact=True)).to_be_visible()
    expect(main.get_by_text("assume:login:admins", exact=True)).to_have_count(0)
    for path in VIEWED.format(**work).split():
        page.goto(path)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        expect(page.locator(".loading").filter(visible=True)).to_have_count(0)
        assert page.get_by_role("alert").filter(has_text=LACKS).all_inner_texts() == [], path
    page.goto(f"/tasks/{work['failed']}")
    _rerun(page)
    expect(page.get_by_role("alert").first).to_contain_text("queue:rerun-task")


def test_an_administrator_acts(work: Mapping[str, str], open_page: OpenPage) -> None:
    page = open_page(f"/login?then=/tasks/{work['failed']}", None)
    sign_in(page, GROUP)
    _rerun(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("pending")
