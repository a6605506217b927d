"""The home page: what groups are called and how far they are, filtered by what people look for, with few requests."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import JANE, JOE, SHERIFF, Scene, lately
from tests.promises.console.test_pages import PHONE, cut_off

Groups = dict[str, Scene]
NAMES = {
    "autoland": "integration/autoland @ 4f2a9c1",
    "widgets": "example/widgets @ 0b5e214",
    "tools": f"Tasks of {JOE}",
    "cron-0": "nightly",
}
"""What groups are called: never as any one of several tasks."""


@pytest.fixture(scope="package")
def groups(deployment: Deployment) -> Groups:
    """Returns the groups of `lately`."""
    return lately(deployment)


def _row(page: Page, scene: Scene) -> Locator:
    return page.get_by_role("row").filter(has=page.locator(f'a[href="/tasks/groups/{scene.group}"]'))


def _only(page: Page, groups: Groups, *names: str) -> None:
    """Waits until the list shows those of these groups that are named, and none of the others."""
    for name, scene in groups.items():
        expect(_row(page, scene)).to_have_count(1 if name in names else 0)


def test_groups_are_called_after_their_push(groups: Groups, open_page: OpenPage) -> None:
    page = open_page("/?single=show")
    for name, title in NAMES.items():
        expect(_row(page, groups[name]).get_by_role("link").first).to_have_text(title)
    expect(_row(page, groups["autoland"])).to_contain_text(SHERIFF)
    for name in ("widgets", "tools"):
        page.goto(f"/tasks/groups/{groups[name].group}")
        expect(page.get_by_role("heading", level=1)).to_have_text(NAMES[name])
    page.goto("/")
    page.get_by_label("Find a push, task").fill("0b5e214f")
    expect(page.get_by_role("option").filter(has_text=NAMES["widgets"]).first).to_be_visible()


def test_groups_of_one_task_are_folded(groups: Groups, open_page: OpenPage) -> None:
    page = open_page("/")
    _only(page, groups, "autoland", "widgets", "tools")
    page.get_by_role("button", name=re.compile("groups of one task")).click()
    _only(page, groups, *groups)
    expect(page).to_have_url(re.compile(r"\?single=show$"))
    page.get_by_role("button", name=re.compile("Fold .* groups of one task")).click()
    _only(page, groups, "autoland", "widgets", "tools")
    page.get_by_label("Filter by name").fill("nightly")
    _only(page, groups, "cron-0", "cron-1", "cron-2")


def test_groups_are_filtered_by_owner_project_and_state_in_the_address(groups: Groups, open_page: OpenPage) -> None:
    page = open_page("/?single=show")
    page.get_by_label("Owner", exact=True).select_option(JOE)
    _only(page, groups, "tools", "cron-0", "cron-1", "cron-2")
    page.get_by_label("Owner", exact=True).select_option("")
    page.get_by_label("Project", exact=True).select_option("widgets")
    _only(page, groups, "widgets")
    page.get_by_label("Project", exact=True).select_option("")
    for state, names in {"failed": ["widgets"], "completed": ["autoland"], "cancelled": []}.items():
        page.get_by_label("State", exact=True).select_option(state)
        _only(page, groups, *names)
    page.get_by_label("State", exact=True).select_option("open")
    _only(page, groups, "widgets", "tools", "cron-0", "cron-1", "cron-2")
    again = open_page(f"{page.url}&owner={JANE}")
    _only(again, groups, "widgets")
    expect(_row(again, groups["widgets"])).to_contain_text("1 failed, 1 open of 2")


def test_mine_are_those_of_the_owner_whom_one_has_named(groups: Groups, open_page: OpenPage) -> None:
    page = open_page("/?single=show")
    _only(page, groups, *groups)
    expect(page.get_by_role("button", name="Mine")).to_have_count(0)
    page.get_by_label("Owner", exact=True).select_option(JANE)
    page.get_by_role("button", name="That is me").click()
    mine = page.get_by_role("button", name="Mine")
    expect(mine).to_have_attribute("aria-pressed", "true")
    mine.click()
    _only(page, groups, *groups)
    page.reload()
    mine.click()
    expect(page).to_have_url(re.compile("owner=jane"))
    _only(page, groups, "widgets")


def test_who_is_signed_in_as_an_owner_need_not_say_so(
    groups: Groups, deployment: Deployment, open_page: OpenPage
) -> None:
    """Client ids of people who sign in end with their names, by which they are known as owners."""
    page = open_page("/", deployment.new_client("*", suffix="/joe"))
    page.get_by_role("button", name="Mine").click()
    _only(page, groups, "tools")


def test_on_a_phone_groups_come_before_filters(groups: Groups, open_page: OpenPage) -> None:
    warning = {"code": "some", "severity": "warning", "message": "Something is slow. " * 20, "remedy": "Mend it."}
    found = answered("/api/queue/v1/health", {"healthy": True, "findings": [warning] * 3})
    page = open_page("/", viewport=PHONE, script=found)
    expect(page.get_by_text("3 warnings about the service")).to_be_visible()
    expect(_row(page, groups["autoland"]).get_by_role("link").first).to_be_in_viewport()
    expect(page.get_by_label("Owner", exact=True)).not_to_be_visible()
    page.get_by_text("Filters").click()
    expect(page.get_by_label("Owner", exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


_LISTED = """
(many) => {
  const asked = globalThis.fetch;
  globalThis.lookedAt = new Set();
  globalThis.fetch = async (url, options) => {
    const { pathname, searchParams } = new URL(url);
    if (pathname.includes("/task-group/")) lookedAt.add(pathname);
    if (!pathname.endsWith("/task-groups")) return asked(url, options);
    const start = Number(searchParams.get("continuationToken") ?? 0);
    const end = start + Number(searchParams.get("limit"));
    const rest = end < many.length ? { continuationToken: String(end) } : {};
    return Response.json({ taskGroups: many.slice(start, end), ...rest });
  };
}
"""
"""The list of groups by pages, and of which the tasks were read."""


def test_many_groups_are_listed_with_few_rows_and_requests(groups: Groups, open_page: OpenPage) -> None:
    """The states of the ten latest groups are read; those of all that are listed when one asks for a state."""
    answer = groups["autoland"].client()._makeHttpRequest("GET", "task-groups?limit=1", None)
    one = {**answer["taskGroups"][0], "owner": "somebody.with.names@example.com"}
    many = [{**one, "taskGroupId": f"{number:021}A", "single": False} for number in range(120)]
    tasks = groups["widgets"].client().listTaskGroup(groups["widgets"].group)
    page = open_page("/", script=f"{answered('/list', tasks)}({_LISTED})({json.dumps(many)})")

    def looked_at() -> int:
        return int(page.evaluate("lookedAt.size"))

    expect(page.get_by_text("1 failed")).to_have_count(10)
    assert looked_at() == 10
    assert page.get_by_role("row").count() <= 1 + 50
    page.get_by_label("State", exact=True).select_option("failed")
    expect(page.get_by_text("50 groups", exact=True)).to_be_visible()
    assert looked_at() == 50
    page.get_by_label("State", exact=True).select_option("")
    page.get_by_role("button", name="Older groups").click()
    expect(page.get_by_text("100 groups", exact=True)).to_be_visible()
    assert looked_at() == 50
    assert page.get_by_role("row").count() < 90

    completed = groups["autoland"].client().listTaskGroup(groups["autoland"].group)
    with page.add_init_script(answered("/list", {**completed, "continuationToken": "there are more"})):
        page.goto("/")
    expect(page.get_by_text("2 completed of 2+")).to_have_count(10)
    page.get_by_label("State", exact=True).select_option("completed")
    expect(page.get_by_text("No group matches.")).to_be_visible()  # what was not read may have failed
    with page.add_init_script(answered("/list", {**tasks, "continuationToken": "there are more"})):
        page.goto("/")
    expect(page.get_by_text("at least 1 failed")).to_have_count(10)
    assert cut_off(page) == []
