"""What failed is understood without leaving the group: a row of the list opens, and so does a mark of the matrix."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import Watch, answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene, lines

PHONE: ViewportSize = {"width": 390, "height": 800}
PLATFORMS = ("linux", "windows", "mac")
CHUNKS = 2
ROW_HEIGHT = 34
"""Of a row of a long table, in pixels: console/parts/table.js."""


@pytest.fixture(scope="package")
def platforms(deployment: Deployment) -> Scene:
    """Returns tasks of two kinds on three platforms; one has failed, one runs."""
    scene = Scene(deployment)
    scene.create("decision", task_id=scene.group, tags={"kind": "decision"})
    for platform in PLATFORMS:
        build = f"build-{platform}"
        scene.create(build, ["decision"], tags={"kind": "build", "platform": platform, "project": "try"})
        for chunk in range(CHUNKS):
            name = f"test-{platform}-{chunk}"
            scene.create(name, [build], tags={"kind": "test", "platform": platform, "project": "try"})
    scene.run("decision")
    scene.claim(*(f"build-{platform}" for platform in PLATFORMS))
    scene.complete("build-linux")
    scene.upload("build-mac", LOG, lines(300, errors=(58,)))
    scene.fail("build-mac")
    scene.claim("test-linux-0", "test-linux-1")
    scene.complete("test-linux-0")
    return scene


def _look(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=f"About {name}")


def _asked(watch: Watch) -> list[str]:
    return [urlsplit(request.url).path for request in watch.requests if re.search("/api/.*/artifact", request.url)]


def test_a_row_opens_in_place_with_the_cause(platforms: Scene, open_page: OpenPage, watch: Watch) -> None:
    page = open_page(f"/tasks/groups/{platforms.group}")
    rows = page.get_by_role("row")
    expect(rows).to_have_count(2 + len(platforms.ids) - 1)  # a head, and a row for each task
    assert _asked(watch) == [], "nothing is read for a row that is closed"
    page.get_by_role("button", name="Look at build-mac").click()
    look = _look(page, "build-mac")
    expect(look.locator(".line.cause")).to_contain_text("step 58 error")
    expect(look.get_by_role("link", name="Open the log")).to_have_attribute("href", re.compile("#L58$"))
    expect(page).to_have_url(re.compile(rf"open={platforms.ids['build-mac']}$"))
    assert len(_asked(watch)) <= 3  # artifacts of the run, the log's address, and its content
    again = open_page(page.url)
    expect(_look(again, "build-mac").locator(".line.cause")).to_be_in_viewport()
    page.get_by_role("button", name="Look at build-mac").click()
    expect(look).to_have_count(0)


def test_what_is_wrong_opens_in_place_whatever_is_filtered(platforms: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{platforms.group}?name=linux&view=timeline")
    page.get_by_label("What is wrong").get_by_role("link", name="build-mac").first.click()
    expect(_look(page, "build-mac").locator(".line.cause")).to_be_in_viewport()
    assert urlsplit(page.url).path == f"/tasks/groups/{platforms.group}"


def test_a_task_without_a_run_says_what_it_waits_for(platforms: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{platforms.group}")
    page.get_by_role("button", name="Look at test-mac-0").click()
    expect(_look(page, "test-mac-0")).to_contain_text(re.compile(r"It waits for:\s*build-mac\s*failed"))


def test_rows_below_an_open_one_are_reached(open_page: OpenPage, platforms: Scene) -> None:
    listed = answered("/list", platforms.many("failed", 400))
    page = open_page(f"/tasks/groups/{platforms.group}?open={platforms.ids['build-mac']}&sort=name", script=listed)
    expect(_look(page, "build-mac").locator(".line.cause")).to_be_visible()
    assert page.get_by_role("row").count() < 150
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="zz-399", exact=True)).to_be_in_viewport()
    page.keyboard.press("Home")
    expect(page.get_by_role("button", name="Look at build-mac")).to_be_in_viewport()


def test_the_first_rows_are_there_wherever_the_way_up_was_interrupted(open_page: OpenPage, platforms: Scene) -> None:
    answer = platforms.many("completed", 400)  # which is named once
    listed = answered("/list", {**answer, "tasks": answer["tasks"][1:]})
    page = open_page(f"/tasks/groups/{platforms.group}?sort=name", script=listed)
    expect(page.get_by_role("link", name="zz-000", exact=True)).to_be_attached()
    for stop in range(11, 20):
        page.evaluate("() => scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.get_by_role("link", name="zz-399", exact=True)).to_be_in_viewport()
        page.evaluate(
            "rows => scrollBy(0, document.querySelector('table[aria-rowcount]').getBoundingClientRect().top + rows)",
            stop * ROW_HEIGHT,
        )
        expect(page.get_by_role("link", name=f"zz-{stop + 2:03}", exact=True)).to_be_in_viewport()
        page.evaluate("() => scrollTo(0, 0)")
        expect(page.get_by_role("link", name="zz-000", exact=True)).to_be_attached()


def test_tasks_by_platform_and_kind_with_a_mark_that_opens_its_cause(
    platforms: Scene, open_page: OpenPage, watch: Watch
) -> None:
    page = open_page(f"/tasks/groups/{platforms.group}")
    page.get_by_role("link", name="Matrix").click()
    matrix = page.get_by_role("table", name="Tasks by platform and kind")
    expect(matrix.get_by_role("columnheader")).to_have_text(["platform", "build", "decision", "test"])
    heads = matrix.get_by_role("rowheader").all_inner_texts()
    assert [head.split()[0] for head in heads] == ["mac", "linux", "windows", "–"], "what is wrong comes first"
    assert "1 of 3" in heads[0]
    linux = matrix.get_by_role("row").filter(has_text="linux")
    expect(linux.get_by_role("cell").last).to_have_text("▶✓")  # a sign, not the colour alone
    before = len(_asked(watch))
    matrix.get_by_role("link", name="build-mac failed").click()
    expect(_look(page, "build-mac").locator(".line.cause")).to_contain_text("step 58 error")
    expect(matrix.get_by_role("link", name="build-mac failed")).to_be_in_viewport()
    assert before == 0
    assert len(_asked(watch)) <= 3
    matrix.get_by_role("link", name="build-mac failed").click()
    expect(_look(page, "build-mac")).to_have_count(0)
    matrix.get_by_role("link", name="test-mac-0 unscheduled").click()
    expect(_look(page, "test-mac-0")).to_contain_text("its only dependency, build-mac, failed")


def test_which_tags_the_matrix_goes_by_is_chosen_and_remembered(platforms: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{platforms.group}?view=matrix")
    page.get_by_label("Rows").select_option("kind")
    page.get_by_label("Columns").select_option("task queue")
    table = page.get_by_role("table", name="Tasks by kind and task queue")
    expect(table).to_be_visible()
    expect(page).to_have_url(re.compile(r"rows=tag%3Akind&columns=queue$"))
    page.goto(f"/tasks/groups/{platforms.group}?view=matrix")
    expect(table).to_be_visible()
    table.get_by_role("link", name="test", exact=True).click()
    expect(page.get_by_text("6 of 10 tasks")).to_be_visible()
    page.get_by_role("button", name="Remove the filter test").click()
    expect(page.get_by_role("row")).to_have_count(1 + len(platforms.ids))


def test_many_tasks_of_a_cell_are_counted_by_state(open_page: OpenPage, platforms: Scene) -> None:
    answer = platforms.client().listTaskGroup(platforms.group)
    by_name = {one["task"]["metadata"]["name"]: one for one in answer["tasks"]}
    tasks = [
        {**by_name[name], "status": {**by_name[name]["status"], "taskId": f"{name[6:9]}{number:019}"}}
        for name, count in (("build-linux", 1000), ("build-mac", 30))
        for number in range(count)
    ]
    listed = answered("/list", {**answer, "tasks": tasks})
    page = open_page(f"/tasks/groups/{platforms.group}?view=matrix", script=listed)
    expect(page.get_by_role("link", name="6 tasks failed")).to_be_visible()
    expect(page.locator(".mark")).to_have_count(24 + 2)
    page.get_by_role("link", name="1,000 tasks completed").click()
    expect(page.get_by_text("1,000 of 1,030 tasks")).to_be_visible()


def test_on_a_phone_tasks_come_before_controls(platforms: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{platforms.group}", viewport=PHONE)
    expect(page.get_by_role("link", name="build-mac").last).to_be_in_viewport()
    expect(page.get_by_role("group", name="Actions on the group")).not_to_be_visible()
    page.get_by_text("Actions and filters").click()
    expect(page.get_by_role("group", name="Actions on the group")).to_be_visible()
    page.get_by_role("button", name="Look at build-mac").click()
    expect(_look(page, "build-mac").get_by_role("link", name="Open the log")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_heads_of_many_columns_are_read_whole(open_page: OpenPage, platforms: Scene) -> None:
    answer = platforms.client().listTaskGroup(platforms.group)
    kinds = [f"{one}-{other}" for one in ("artifacts", "mochitest-browser-chrome") for other in range(15)]
    tasks = [
        {
            "task": {**answer["tasks"][0]["task"], "tags": {"kind": kind, "platform": "linux"}},
            "status": {**answer["tasks"][0]["status"], "taskId": f"{number:022}"},
        }
        for number, kind in enumerate(kinds)
    ]
    page = open_page(
        f"/tasks/groups/{platforms.group}?view=matrix&rows=platform&columns=kind",
        script=answered("/list", {**answer, "tasks": tasks}),
    )
    heads = page.get_by_role("columnheader").locator("a")
    expect(heads.nth(20)).to_be_visible()
    assert heads.evaluate_all("heads => heads.filter((head) => head.scrollHeight > head.clientHeight + 1).length") == 0
    page.set_viewport_size(PHONE)
    row = page.get_by_role("row").last.bounding_box()
    assert row and row["height"] < 70, "what has no column of its own lies side by side"
