"""The search: what it suggests while one types, what it costs, and whom it shows what."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import WORKER_GROUP, Scene
from tests.promises.console.test_pages import PHONE, WIDE, faults_of, keep

#: Text and Enter within one frame: what an effect does after paint comes later than both.
TYPED_AND_SENT = """async (input, text) => {
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await Promise.resolve();
  input.form.requestSubmit();
}"""


def _box(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Find a push, task, task queue or worker")


def _suggested(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Suggestions").get_by_role("option")


@pytest.fixture(scope="module")
def named(deployment: object) -> str:
    """Returns a word that nothing else in the deployment has."""
    return f"word{uuid.uuid4().hex[:10]}"


def test_groups_queues_workers_and_index_paths_are_suggested(
    scene: Scene, open_page: OpenPage, watch: Watch, named: str
) -> None:
    path = f"project.{named}.latest.build"
    scene.create(f"decision-{named}", task_id=scene.group, routes=[f"index.{path}"])
    scene.run(f"decision-{named}")
    page = open_page("/tasks/index")
    expect(page.get_by_role("heading", name="Index")).to_be_visible()
    page.keyboard.press("/")
    expect(_box(page)).to_be_focused()
    before = len(watch.requests)
    _box(page).press_sequentially(f"decision-{named}"[:-1], delay=20)
    expect(_suggested(page)).to_have_text([f"task group decision-{named} me@example.com {scene.group}"])
    asked = [urlsplit(request.url).path.rsplit("/v1/")[-1] for request in watch.requests[before:]]
    assert sorted(asked) == ["namespaces", "task-groups", "task-queues"], "one page of each list"
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="light")
        assert faults_of(page) == []
        keep(page, f"search-{size['width']}")
        page.emulate_media(color_scheme="dark")
        assert faults_of(page) == []
    _box(page).press("ArrowDown")
    expect(_suggested(page).first).to_have_attribute("aria-selected", "true")
    _box(page).press("Enter")
    expect(page).to_have_url(f"{scene.deployment.root_url}/tasks/groups/{scene.group}")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("heading", name=f"decision-{named}", exact=True)).to_be_visible()

    queue, before = scene.task_queue, len(watch.requests)
    page.keyboard.press("/")
    _box(page).fill(queue[:-2])
    expect(_suggested(page)).to_have_text([f"task queue {queue}"])
    _box(page).fill(f"{queue}/work")
    expect(_suggested(page)).to_have_text([f"worker {WORKER_GROUP}/worker-1 {queue}"])
    _suggested(page).click()
    expect(page.get_by_role("dialog")).to_have_count(0)  # while it is open, a slash is one of its own
    expect(page.get_by_role("heading", name=f"{WORKER_GROUP}/worker-1")).to_be_visible()
    lists = ("/task-groups", "/task-queues", "/namespaces")
    again = [request.url for request in watch.requests[before:] if urlsplit(request.url).path.endswith(lists)]
    assert again == [], "what was read is remembered for a minute"

    page.keyboard.press("/")
    _box(page).fill(f"project.{named}.latest.bu")
    expect(_suggested(page)).to_have_text([f"index {path}"])
    _box(page).press("Enter")
    expect(page).to_have_url(f"{scene.deployment.root_url}/tasks/index/{path}")
    expect(page.get_by_role("heading", name="Latest task")).to_be_visible()


def test_tasks_revisions_and_owners_are_found(scene: Scene, open_page: OpenPage, named: str) -> None:
    """A search finds what is in the lists it suggests from; of anything else it says only where it has looked."""
    revision = f"{uuid.uuid4().hex}00000000"
    source, owner = f"https://example.com/some/webapp/commit/{revision}", f"{named}-dev@example.com"
    for name in ("decision", f"integration-{named}", *(f"integration-{named}-{other}" for other in range(12))):
        metadata = {"name": name, "description": "", "owner": owner, "source": source}
        scene.create(name, task_id=scene.group if name == "decision" else None, metadata=metadata)
    push = f"some/webapp @ {revision[:7]}"
    page = open_page("/tasks")
    for text in (revision, revision[:7], f"{named}-dev"):
        _box(page).fill(text)
        expect(_suggested(page).filter(has_text=push)).to_contain_text(owner)
    _box(page).fill(f"integration-{named}")
    expect(page.get_by_text("Press Enter to search the tasks of the latest")).to_be_visible()
    _box(page).press("Enter")
    _suggested(page).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"integration-{named} pending")
    page.goto("/tasks")
    _box(page).evaluate(TYPED_AND_SENT, f"nobody-{named}")
    expect(page.get_by_text("Not found in what was searched")).to_contain_text("latest")


def test_a_slash_in_a_field_is_a_slash(scene: Scene, open_page: OpenPage) -> None:
    page = open_page("/tasks")
    expect(_box(page)).to_be_visible()
    page.keyboard.press("/")
    expect(_box(page)).to_be_focused()
    page.keyboard.type("a/b")
    expect(_box(page)).to_have_value("a/b")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("dialog", name="Find")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_nobody_is_shown_what_he_may_not_read(scene: Scene, open_page: OpenPage, watch: Watch, named: str) -> None:
    scene.create(f"secret-{named}", task_id=scene.group)
    reader = scene.deployment.new_client("queue:list-task-queues")
    page = open_page("/tasks", reader)
    _box(page).fill(f"secret-{named}")
    with page.expect_response(lambda response: response.url.endswith("/task-groups?limit=100")) as answer:
        pass
    assert answer.value.status == 403
    _box(page).press("Enter")
    expect(page.get_by_text("Not found in what was searched")).to_be_visible()
    expect(_suggested(page)).to_have_count(0)
    assert [request.url for request in watch.requests if request.url.endswith("/task-groups?limit=100")] != []
