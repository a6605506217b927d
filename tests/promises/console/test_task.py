"""The page of a task: what can be done with it, and what it shows of its runs."""

import base64
import re
from urllib.parse import quote, urlsplit

from playwright.sync_api import Page, expect

from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene
from tests.promises.console.test_pages import faults_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGM4wcUFRAAHhwG58McqKwAAAABJRU5ErkJggg=="
)
"""Two pixels."""


def _act(page: Page, name: str, verb: str) -> None:
    """Press a button among the task's actions, and answer its question, which is called by what is to be done."""
    page.get_by_role("group", name="Actions on the task").get_by_role("button", name=name, exact=True).click()
    page.get_by_role("dialog", name=verb, exact=True).get_by_role("button", name=verb, exact=True).click()


def _is(page: Page, state: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text(state)


def test_a_failed_task_is_rerun(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.claim("build")
    scene.fail("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    _is(page, "failed")
    expect(page.get_by_text("The worker reported that the task failed.")).to_be_visible()
    _act(page, "Rerun", "Rerun the task")
    _is(page, "pending")
    expect(page.get_by_text("rerun by hand")).to_be_visible()
    expect(page.get_by_text("It is next in")).to_be_visible()


def test_a_task_is_cancelled_after_a_question(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    _is(page, "pending")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Go back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    _is(page, "pending")
    _act(page, "Cancel", "Cancel the task")
    _is(page, "cancelled")
    expect(page.get_by_text("The task was cancelled.")).to_be_visible()


def test_a_task_is_scheduled_and_gets_another_priority(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.create("test", ["build"])
    page = open_page(f"/tasks/{scene.ids['test']}")
    _is(page, "unscheduled")
    _act(page, "Schedule", "Schedule the task")
    _is(page, "pending")
    page.get_by_role("group", name="Actions on the task").get_by_role("combobox").select_option("very-high")
    _act(page, "Set priority", "Set the priority of the task to very-high")
    expect(page.locator("dd", has_text="very-high")).to_be_visible()


def test_a_task_is_retriggered_as_a_copy(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build", tags={"kind": "build"}, scopes=["secrets:get:a"])
    scene.run("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    page.get_by_role("button", name="Retrigger", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("They get the scopes of what they copy: secrets:get:a")
    page.get_by_role("dialog").get_by_role("button", name="Create a copy of the task").click()
    expect(page).not_to_have_url(re.compile(scene.ids["build"]))
    _is(page, "pending")
    copy = urlsplit(page.url).path.split("/")[2]
    made = scene.client().task(copy)
    assert made["taskGroupId"] == scene.group
    assert made["tags"] == {"kind": "build"}


def test_a_task_is_created_from_an_edited_definition(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    page.get_by_role("link", name="Edit").click()
    field = page.get_by_label("Definition")
    expect(field).to_have_value(re.compile("^scopes:.*name: build", re.DOTALL))
    field.fill(field.input_value().replace("name: build", "name: changed"))
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("changed")
    expect(page).to_have_url(re.compile("/tasks/[A-Za-z0-9_-]{22}$"))


def test_drafts_of_copies_are_kept_apart_and_outlast_a_reload(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    page = open_page(f"/tasks/{scene.ids['build']}/create")
    field = page.get_by_label("Definition")
    expect(field).to_have_value(re.compile("name: build"))
    field.fill("name: changed")
    page.goto("/tasks/create")
    expect(field).to_have_value(re.compile("name: hello"))
    page.goto(f"/tasks/{scene.ids['build']}/create")
    page.reload()
    expect(field).to_have_value("name: changed")
    page.get_by_role("button", name="Start over").click()
    expect(field).to_have_value(re.compile("name: build"))


def test_a_refused_definition_is_kept_with_what_is_wrong(scene: Scene, open_page: OpenPage) -> None:
    page = open_page("/tasks/create")
    page.get_by_label("Definition").fill("taskQueueId: no slash")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("taskQueueId")
    expect(page.get_by_label("Definition")).to_have_value("taskQueueId: no slash")


def test_dependencies_and_dependents_are_links_with_states(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['test-2']}")
    expect(page.get_by_role("listitem").filter(has_text=re.compile(r"^\s*build-2"))).to_contain_text("failed")
    expect(page.get_by_role("listitem").filter(has_text="package")).to_contain_text("unscheduled")


def test_a_blocked_task_says_what_blocks_it_and_a_failed_one_what_it_blocks(
    settled: Scene, open_page: OpenPage
) -> None:
    """Whatever lies in between: what is not scheduled waits for what failed, directly or not."""
    page = open_page(f"/tasks/{settled.ids['test-2']}")
    waits = page.get_by_role("region", name="What it waits for")
    expect(waits).to_contain_text("It cannot be scheduled: its only dependency, build-2, failed.")
    expect(page.get_by_role("heading", level=1)).to_contain_text("blocked by build-2")
    page.goto(f"/tasks/{settled.ids['package']}")
    expect(waits).to_contain_text("what it waits for is blocked by build-2, which failed.")
    needed = page.get_by_role("region", name="Dependencies").get_by_role("listitem")
    expect(needed.filter(has_text="test-2")).to_have_text("test-2 unscheduled blocked by build-2")
    waits.get_by_role("link", name="build-2").click()
    expect(page.get_by_role("region", name="Why it failed")).to_contain_text("Blocks 2 tasks")


_WAITS_LITTLE = """
const later = setTimeout, asked = globalThis.fetch;
globalThis.setTimeout = (call, delay) => later(call, Math.min(delay, 200));
globalThis.held = false;
globalThis.fetch = async (url, options) => {
  while (held && url.pathname.endsWith("/tasks/status")) await new Promise((go) => later(go, 20));
  return asked(url, options);
};
"""
"""No pause is long; what many tasks' states are is not answered while the test holds it."""


def test_a_task_that_a_failure_blocked_says_what_has_become_of_that(scene: Scene, open_page: OpenPage) -> None:
    """The failure may be farther away than the task's dependencies. Until they are known, the page says that."""
    scene.create("build")
    scene.create("test", ["build"])
    scene.create("publish", ["test"])
    scene.claim("build")
    scene.fail("build")
    page = open_page(f"/tasks/{scene.ids['publish']}", script=_WAITS_LITTLE.replace("held = false", "held = true"))
    waits = page.get_by_role("region", name="What it waits for")
    expect(waits).to_contain_text("Looking at what it waits for …")
    page.evaluate("held = false")
    expect(waits).to_contain_text("what it waits for is blocked by build, which failed.")
    scene.client().rerunTask(scene.ids["build"])
    expect(waits).to_contain_text("It is waiting for its only dependency, test. It ends within")
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("blocked")
    scene.claim("build")
    scene.fail("build")  # which is new, as far as the page knows
    expect(waits).to_contain_text("what it waits for is blocked by build, which failed.")


def test_what_must_happen_first_is_said_of_several(scene: Scene, open_page: OpenPage) -> None:
    for name in ("one", "two", "three"):
        scene.create(name)
    scene.create("gate", ["one", "two", "three"])
    page = open_page(f"/tasks/{scene.ids['gate']}")
    waits = page.get_by_role("region", name="What it waits for")
    expect(waits).to_contain_text("It is waiting for 3 of its 3 dependencies. They end within")
    scene.claim("two", "three")
    scene.fail("two", "three")
    page.reload()
    expect(waits).to_contain_text("2 of its 3 dependencies did not complete, first two. All must complete.")


def test_a_malformed_payload_is_to_be_edited_not_rerun(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.claim("build")
    claim = scene.claims["build"]
    scene.client(claim["credentials"]).reportException(scene.ids["build"], 0, {"reason": "malformed-payload"})
    page = open_page(f"/tasks/{scene.ids['build']}")
    actions = page.get_by_role("group", name="Actions on the task")
    expect(actions.locator("a, button").first).to_have_text("Edit as new")
    expect(actions.get_by_role("button", name="Rerun")).not_to_have_class(re.compile("primary"))


def test_artifacts_are_links_with_previews(settled: Scene, scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.claim("build")
    scene.upload("build", "public/info.json", b'{"b": [1]}', "application/json")
    scene.upload("build", "public/dot.png", PNG, "image/png")
    scene.upload("build", "public/huge.png", PNG[:16] + (60_000).to_bytes(4) * 2 + PNG[24:], "image/png")
    scene.complete("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    page.get_by_role("link", name="public/info.json").click()
    expect(page.locator("pre")).to_have_text('{\n  "b": [\n    1\n  ]\n}')
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "info.json"
    page.go_back()
    page.get_by_role("link", name="public/dot.png").click()
    expect(page.get_by_role("img", name="public/dot.png")).to_have_js_property("width", 2)
    page.go_back()
    page.get_by_role("link", name="public/huge.png").click()
    expect(page.get_by_text("There is no preview of such a file.")).to_be_visible()


def test_a_link_to_an_artifact_is_signed_when_it_is_opened(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['build-2']}/runs/0/{quote(LOG, safe='')}")
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Open the artifact").click()
    expect(opened.value.locator("body")).to_contain_text("step 300")
    assert not opened.value.url.startswith(settled.deployment.root_url)


def test_why_a_task_does_not_start_is_said(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['windows']}")
    expect(page.get_by_text("No worker takes the tasks")).to_contain_text("the task waits until a worker asks")


def test_a_copied_link_names_the_artifact_and_no_credentials(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['build-2']}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    copied = page.wait_for_function("navigator.clipboard.readText()").json_value()
    assert urlsplit(copied).path == f"/tasks/{settled.ids['build-2']}/runs/0/{LOG.replace('/', '%2F')}"
    assert urlsplit(copied).query == ""


def test_a_description_is_markdown(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    """A library renders it, which is loaded only if there is something for it to do."""
    text = (
        "# Builds **it**\nsee https://example.com/docs and [the wiki](https://example.com/wiki)\n\n"
        "- `one`\n- ~~two~~\n\n3. three\n\n```\nmake all\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "[![build](https://example.com/badge.svg)](https://example.com/builds)"
    )
    page = open_page(f"/tasks/{scene.create('build', description=text)}")
    shown = page.locator(".markdown")
    expect(shown.locator("strong").first).to_have_text("Builds it")
    expect(shown.get_by_role("heading")).to_have_count(0)
    expect(shown.get_by_role("link")).to_have_text(["https://example.com/docs", "the wiki", "build"])
    for link in shown.get_by_role("link").all():
        expect(link).to_have_attribute("rel", "noreferrer noopener nofollow")
    expect(shown.get_by_role("listitem")).to_have_text(["one", "two", "three"])
    expect(shown.locator("ol")).to_have_attribute("start", "3")
    expect(shown.locator("pre")).to_have_text("make all\n")
    expect(shown.get_by_role("cell")).to_have_text(["1", "2"])
    expect(shown.locator("img")).to_have_count(0)
    assert [request.url for request in watch.requests if "example.com" in request.url] == []
    assert faults_of(page) == []

    def parsers() -> int:
        return len([request for request in watch.requests if request.url.endswith("/markdown-it.js")])

    assert parsers() == 1
    page = open_page(f"/tasks/{scene.create('test', description='Runs the tests, and nothing else.')}")
    expect(page.get_by_text("Runs the tests, and nothing else.")).to_be_visible()
    expect(page.get_by_role("heading", name="Dependencies")).to_be_visible()
    assert parsers() == 1
