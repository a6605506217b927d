"""Addresses that people have in mails, checks and dashboards lead where they always led."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, WORKER_GROUP, Scene

HEADINGS = {
    "decision": "/tasks/groups/{group} /tasks/groups/{group}/timeline /tasks/groups/{group}/graph"
    " /tasks/groups/{group}/profiler",
    "build-2 failed": "/tasks/{task} /tasks/{task}/runs/0",
    f"build-2, run 0 {LOG}": "/tasks/{task}/runs/0/logs/{log} /tasks/{task}/runs/0/logs/live/{log}"
    " /tasks/{task}/runs/0/logs/{artifact_url}",
    LOG: "/tasks/{task}/runs/0/{log}",
    "Create a task": "/tasks/{task}/create /tasks/create",
    "Index": "/tasks/index /tasks/index/nobody.has.this /tasks/index/nobody.has/this",
    "Task queues": "/provisioners",
    "Task queues of {provisioner}": "/provisioners/{provisioner}",
    "{provisioner}/linux": "/provisioners/{provisioner}/worker-types/linux /worker-manager/{provisioner}%2Flinux"
    " /provisioners/{provisioner}/worker-types/linux/pending-tasks /worker-manager/{provisioner}%2Flinux/workers",
    "{worker}": "/provisioners/{provisioner}/worker-types/linux/workers/{worker}",
    "Clients": "/auth/clients",
    "Client static/taskcluster/root": "/auth/clients/static%2Ftaskcluster%2Froot",
    "Roles": "/auth/roles",
    "Scopes": "/auth/scopes",
    "Who you are": "/profile",
}


@pytest.mark.large
@pytest.mark.parametrize(
    ("path", "heading"), [(path, heading) for heading, paths in HEADINGS.items() for path in paths.split()]
)
def test_the_address_of_a_page(path: str, heading: str, settled: Scene, open_page: OpenPage) -> None:
    names = {
        "group": settled.group,
        "task": settled.ids["build-2"],
        "log": quote(LOG, safe=""),
        "provisioner": settled.task_queue.split("/")[0],
        "worker": f"{WORKER_GROUP}/worker-2",
    }
    site = settled.deployment.root_url
    url = f"{site}/api/queue/v1/task/{names['task']}/runs/0/artifacts/{names['log']}"
    page = open_page(path.format(**names, artifact_url=quote(url, safe="")))
    expect(page.get_by_role("heading", level=1)).to_have_text(heading.format(**names))
    expect(page).to_have_title(re.compile("."))
    expect(page).not_to_have_title("Taskcluster Queue")  # each has a name of its own


@pytest.mark.large
def test_an_id_is_found(settled: Scene, open_page: OpenPage) -> None:
    page = open_page("/tasks")
    field = page.get_by_label("Find a push, task, task queue or worker")
    field.fill(settled.ids["build-1"])
    field.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("build-1")


@pytest.mark.parametrize("path", [pytest.param("/auth/nothing/here/", marks=pytest.mark.large), "/no/such/page"])
def test_an_address_without_a_page_says_so(path: str, open_page: OpenPage) -> None:
    expect(open_page(path).get_by_role("heading", name="There is no such page")).to_be_visible()


@pytest.mark.parametrize(
    ("link", "module", "heading"),
    [("Task queues", "queues", "Task queues"), ("Operations", "operations", "Operations")],
)
def test_a_tab_outlives_a_deployment(link: str, module: str, heading: str, open_page: OpenPage) -> None:
    """The parts of the page that it loaded are gone; those of the new one have other addresses."""
    page = open_page("/")
    page.route(f"**/pages/{module}.js", lambda route: route.fulfill(status=404), times=1)
    page.get_by_role("link", name=link, exact=True).first.click()
    expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()


def test_every_page_of_the_navigation_is_one_of_the_services(open_page: OpenPage) -> None:
    page = open_page("/")
    navigation = page.get_by_role("navigation", name="Console").get_by_role("link")
    expect(navigation.first).to_be_visible()
    addresses = {link.get_attribute("href") or "" for link in navigation.all()} | {"/operations", "/login", "/profile"}
    assert {path: page.request.get(path).status for path in addresses} == dict.fromkeys(addresses, 200)
    assert page.request.get("/no/such/page").status == 404


def test_a_client_of_the_settings_cannot_be_changed(open_page: OpenPage) -> None:
    page = open_page("/auth/clients/static%2Ftaskcluster%2Froot")
    expect(page.get_by_text("belongs to the deployment's settings")).to_be_visible()
    for name in ("Save", "Delete", "Disable", "Reset token"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    for label in ("Description", "Scopes, one a line"):
        expect(page.get_by_label(label)).not_to_be_editable()
