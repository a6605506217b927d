"""What ran before: the same task in the groups before, a group against the one before it, and two runs side by side."""

from __future__ import annotations

import re
import uuid

import pytest
import taskcluster
from playwright.sync_api import expect
from taskcluster.exceptions import TaskclusterRestFailure

from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene
from tests.promises.console.test_look import PHONE
from tests.promises.console.test_pages import faults_of
from tests.promises.host.service import eventually

REVISIONS = ("1111111aaaa", "2222222bbbb")


def _log(broken: bool) -> bytes:
    steps = [f"[{number}] 12:00:0{number % 10} step {number} of the build" for number in range(1, 400)]
    if broken:
        steps[200:] = ["error: it broke", *steps[380:]]
    return "\n".join(steps).encode() + b"\n"


@pytest.fixture(scope="module")
def pushes(deployment: Deployment) -> tuple[Scene, Scene]:
    """Returns two groups of one repository: in the second another task fails, and one has another command."""
    repository = f"https://example.com/{uuid.uuid4().hex[:6]}z"
    scenes = []
    for number, revision in enumerate(REVISIONS):
        scene = Scene(deployment)
        for name in ("decision", "build", "test", "gone" if number == 0 else "new"):
            metadata = {
                "name": name,
                "description": "",
                "owner": "me@example.com",
                "source": f"{repository}/raw-file/{revision}/.taskcluster.yml",
            }
            task_id = scene.group if name == "decision" else None
            scene.create(name, task_id=task_id, metadata=metadata, payload={"command": f"make {number}"})
        scene.claim("decision", "build", "test")
        scene.upload("build", LOG, _log(broken=number == 1))
        scene.complete("decision", "test")
        scene.fail("build") if number == 1 else scene.complete("build")
        scenes.append(scene)
    return scenes[0], scenes[1]


def test_a_failure_is_called_new_and_its_log_is_put_beside_the_one_before(
    pushes: tuple[Scene, Scene], open_page: OpenPage, watch: Watch
) -> None:
    _, new = pushes
    page = open_page(f"/tasks/{new.ids['build']}")
    expect(page.get_by_role("region", name="Why it failed").locator(".line.cause")).to_contain_text("error: it broke")
    assert [request.url for request in watch.requests if "/task-groups" in request.url] == [], "read when asked"
    page.get_by_role("button", name="The last 10 pushes").click()
    before = page.get_by_role("region", name="Before")
    expect(before).to_contain_text("This failure is new: it completed in the push before.")
    before.get_by_text("Each of them").click()
    expect(before.get_by_role("listitem")).to_have_count(1)
    expect(before.get_by_role("listitem")).to_contain_text(re.compile(r"completed in \d+ s"))
    before.get_by_role("link", name="Compare the logs with").click()
    first, second = page.get_by_role("region", name="First log"), page.get_by_role("region", name="Second log")
    expect(first.locator(".line.marked")).to_contain_text("error: it broke")
    expect(second.locator(".line.marked")).to_contain_text("step 201 of the build")  # where the other one broke
    expect(first.locator(".line.marked")).to_be_in_viewport()
    expect(second.locator(".line.marked")).to_be_in_viewport()
    expect(page.get_by_text("differences of the definitions")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="payload.command")).to_contain_text("make 1")
    assert page.locator(".log .line").count() < 400
    assert faults_of(page) == []


_VERDICT = """
async (runs) => {
  const { verdictOn } = await import(new URL("core/before.js", document.querySelector("script[src]").src));
  const run = (sign) => ({ state: sign === "C" ? "completed" : "failed" });
  const found = runs.split(" ").map((signs) => ({ status: { runs: [...signs].map(run), ...run(signs.at(-1)) } }));
  return verdictOn(found[0], found.slice(1).map((member) => ({ how: "", member })));
}
"""


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ("C C F", "It failed in 1 of the last 2 pushes that ran it, and completed in all after those."),
        ("C F C F", "It is flaky: it failed in 2 of the last 3 pushes that ran it, and completed in between."),
        ("C C FC", "It is flaky: it failed in 1 of the last 2 pushes that ran it, and completed in between."),
    ],
)
def test_what_was_mended_is_not_called_flaky(runs: str, verdict: str, open_page: OpenPage) -> None:
    """The latest task first, each by its runs: C completed, F failed."""
    assert open_page("/login", None).evaluate(_VERDICT, runs) == verdict


def test_two_logs_scroll_together(pushes: tuple[Scene, Scene], open_page: OpenPage) -> None:
    old, new = pushes
    page = open_page(f"/tasks/compare?one={new.ids['build']}/0&other={old.ids['build']}/0")
    logs = page.get_by_role("region", name=re.compile(" log$"))
    expect(page.locator(".line.marked")).to_have_count(2)
    before = [logs.nth(at).evaluate("(log) => log.scrollTop") for at in (0, 1)]
    logs.first.hover()
    page.mouse.wheel(0, -200)
    page.wait_for_function(
        "(was) => [...document.querySelectorAll('.log')].every((log, at) => log.scrollTop === was[at] - 200)",
        arg=before,
    )
    page.get_by_label("Scroll together").uncheck()
    page.mouse.wheel(0, -100)
    logs.first.hover()
    page.mouse.wheel(0, -100)
    page.wait_for_function("(was) => document.querySelector('.log').scrollTop < was - 200", arg=before[0])
    assert logs.last.evaluate("(log) => log.scrollTop") == before[1] - 200


def test_a_task_that_never_ran_before_says_so(pushes: tuple[Scene, Scene], open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{pushes[1].ids['new']}")
    page.get_by_role("button", name="The last 10 pushes").click()
    expect(page.get_by_text("No task of this name was found in the groups before.")).to_be_visible()


def test_the_last_that_was_indexed_is_found(scene: Scene, open_page: OpenPage) -> None:
    path = f"project.p{uuid.uuid4().hex[:8]}.latest.build"
    for name in ("first", "second"):
        scene.create(name, routes=[f"index.{path}"])
    scene.run("first")
    page = open_page(f"/tasks/{scene.ids['second']}")
    index = taskcluster.Index(scene.client().options)

    def is_indexed() -> bool:
        try:
            return bool(index.findTask(path)["taskId"] == scene.ids["first"])
        except TaskclusterRestFailure:
            return False

    eventually(is_indexed, timeout=60)
    page.get_by_role("button", name="The last 10 pushes").click()
    before = page.get_by_role("region", name="Before")
    expect(before.get_by_role("link", name=path).first).to_be_visible()
    expect(before).to_contain_text("It completed in the push before.")


def test_a_group_is_put_against_the_one_before(pushes: tuple[Scene, Scene], open_page: OpenPage, watch: Watch) -> None:
    old, new = pushes
    page = open_page(f"/tasks/groups/{new.group}")
    page.get_by_role("link", name="Before", exact=True).click()
    expect(page.get_by_text("1 task fails that did not before.")).to_be_visible()
    table = page.get_by_role("table", name="Tasks against those before")
    changes = {
        row.get_by_role("cell").first.inner_text(): row.get_by_role("cell").nth(1).inner_text()
        for row in table.get_by_role("row").all()[1:]
    }
    assert changes == {
        "build": "fails now",
        "new": "new",
        "gone": "gone",
        "decision": "as before",
        "test": "as before",
    }
    expect(table.get_by_role("row").nth(1)).to_contain_text("build")
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"/tasks/groups/{new.group}?view=before&state=failed")
    expect(table.get_by_role("row")).to_have_count(2)  # what a filter hides is not gone
    page.goto(f"/tasks/groups/{new.group}?view=before")
    expect(page.get_by_role("link", name="The group before")).to_have_attribute("href", f"/tasks/groups/{old.group}")
    table.get_by_role("link", name="Compare").first.click()
    expect(page.locator(".line.marked")).to_have_count(2)


def test_runs_of_a_task_are_compared(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    for broken in (True, False):
        scene.claim("build")
        scene.upload("build", LOG, _log(broken))
        scene.fail("build")
        scene.client().rerunTask(scene.ids["build"])
    page = open_page(f"/tasks/{scene.ids['build']}/runs/1")
    page.get_by_role("link", name="Compare with run 0").click()
    expect(page.get_by_role("region", name="Run 1 of build")).to_contain_text("failed")
    expect(page.get_by_role("region", name="Run 0 of build")).to_contain_text("failed")
    expect(page.get_by_text("differences of the definitions")).to_have_count(0)
    expect(page.get_by_role("link", name="Open the log")).to_have_count(2)
