"""The page of a task group: it follows the group by itself, and acts on many tasks at once."""

import re
from datetime import timedelta

from playwright.sync_api import Page, Route, expect

from tests.promises.clients.deployment import format_time
from tests.promises.console.browser import answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import Scene
from tests.promises.console.test_look import PHONE


def _has(page: Page, **counts: int) -> None:
    """The page counts so many tasks by state."""
    bar = page.get_by_role("group", name="Filter by state")
    for state, count in counts.items():
        expect(bar.get_by_role("button", name=f"{count} {state}", exact=True)).to_be_visible()


def _yes(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button").first.click()


def test_a_group_is_followed_from_its_creation_to_its_end_without_a_reload(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build", task_id=scene.group)
    page = open_page(f"/tasks/groups/{scene.group}")
    _has(page, pending=1, completed=0)
    page.evaluate("window.notReloaded = true")
    scene.create("test", ["build"])
    scene.claim("build")
    _has(page, running=1)
    scene.complete("build")
    _has(page, completed=1, running=0)
    scene.claim("test")
    scene.fail("test")
    _has(page, completed=1, failed=1, running=0, pending=0)
    expect(page.get_by_text("1 task failed")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^1 failed · 2/2 · "))
    assert page.evaluate("window.notReloaded") is True


def test_filters_and_order_are_in_the_address(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}")
    page.get_by_label("Filter by name, owner").fill("build")
    page.get_by_role("group", name="Filter by state").get_by_role("button", name="1 failed").click()
    page.get_by_role("button", name="Name").click()
    expect(page.get_by_text("1 of 7 tasks")).to_be_visible()
    expect(page).to_have_url(re.compile(r"name=build&state=failed&sort=name$"))
    page.get_by_role("button", name="completed").click()  # several states at once
    expect(page.get_by_text("2 of 7 tasks")).to_be_visible()
    expect(page).to_have_url(re.compile(r"state=failed%2Ccompleted"))
    page.get_by_role("button", name="All states").click()
    for words, count in (("kind:test", 2), ("me@ RUNS kind:build", 2), ("worker-2", 1), ("nothing of all this", 0)):
        page.get_by_label("Filter by name, owner").fill(words)
        expect(page.get_by_text(f"{count} of 7 tasks")).to_be_visible()
    page.get_by_label("Filter by name, owner").fill("build")
    page.get_by_role("button", name="1 failed").click()

    again = open_page(page.url)
    expect(again.get_by_role("link", name="build-2").last).to_be_visible()
    expect(again.get_by_role("link", name="build-1")).to_have_count(0)


def test_what_is_wrong_is_said_first(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}")
    expect(page.get_by_label("What is wrong").get_by_role("listitem")).to_have_text(
        [
            "1 task failed: build-2.",
            "2 tasks are blocked by build-2, directly or not.",
            re.compile("none is known. 1 pending task"),
        ]
    )
    expect(page.get_by_role("row").nth(1)).to_contain_text("build-2")  # the list begins with it as well
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="package", exact=True))
    expect(row).to_contain_text("blocked by build-2")


def test_tasks_chosen_by_a_filter_are_cancelled_together(scene: Scene, open_page: OpenPage) -> None:
    for name in ("build-1", "build-2", "build-3", "test"):
        scene.create(name)
    page = open_page(f"/tasks/groups/{scene.group}?name=build")
    page.get_by_label("Select all that are listed").check()
    expect(page.get_by_text("3 tasks selected")).to_be_visible()
    page.get_by_role("button", name="Cancel 3").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 3 tasks", exact=True).click()
    expect(page.get_by_text("Cancel: 3 of 3 tasks done.")).to_be_visible()
    _has(page, cancelled=3, exception=0, pending=1)


def test_a_click_with_shift_selects_all_from_the_one_before(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}?sort=name")
    page.get_by_label("Select build-2").check()
    page.get_by_label("Select test-1").click(modifiers=["Shift"])
    expect(page.get_by_text("4 tasks selected")).to_be_visible()  # build-2, decision, package, test-1


def test_copies_are_made_of_a_selection_and_count_once(scene: Scene, open_page: OpenPage) -> None:
    """Each says of what it is a copy; the last copy stands for all, though the task's creator has a fast clock."""
    scene.create("build", created=format_time(timedelta(minutes=1)))
    scene.create("test")
    scene.claim("build", "test")
    scene.fail("build", "test")
    page = open_page(f"/tasks/groups/{scene.group}")
    _has(page, failed=2)
    page.get_by_label("Select build").check()
    page.get_by_role("button", name="Retrigger 1").click()
    page.get_by_label("Copies of each").fill("2")
    page.get_by_role("dialog").get_by_role("button", name="Create 2 copies").click()
    expect(page.get_by_text("Retrigger: 2 of 2 tasks done.")).to_be_visible()
    _has(page, failed=1, pending=1)
    expect(page.get_by_label("What is wrong")).to_contain_text("1 task failed: test.")
    page.get_by_role("link", name="2 tasks superseded by copies").click()
    _has(page, failed=2, pending=2)
    page.get_by_role("row").filter(has_text="pending").first.get_by_role("link", name="build", exact=True).click()
    original = page.get_by_text("A copy of")
    expect(original.get_by_role("link")).to_have_attribute("href", f"/tasks/{scene.ids['build']}")
    original.get_by_role("link").click()
    expect(page.get_by_text("Retriggered:").get_by_role("link")).to_have_count(2)


def test_what_cannot_be_rerun_is_left_out(scene: Scene, open_page: OpenPage) -> None:
    """Past its deadline the service refuses it, and a malformed payload fails again."""
    for name in ("build", "late", "malformed"):
        scene.create(name)
    scene.claim("build", "late", "malformed")
    scene.fail("build", "late", "malformed")
    answer = scene.client().listTaskGroup(scene.group)
    for one in answer["tasks"]:
        name = one["task"]["metadata"]["name"]
        if name == "late":
            one["status"]["deadline"] = "2020-01-01T00:00:00.000Z"
        if name == "malformed":
            one["status"]["state"] = one["status"]["runs"][0]["state"] = "exception"
            one["status"]["runs"][0]["reasonResolved"] = "malformed-payload"
    page = open_page(f"/tasks/groups/{scene.group}", script=answered("/list", answer))
    page.get_by_role("button", name="Rerun all that failed").click()
    expect(page.get_by_role("dialog", name="Rerun 1 task")).to_contain_text(
        "Left out: 1 (the deadline has passed), 1 (the payload is malformed)."
    )


_HALF = """
const asks = globalThis.fetch;
globalThis.fetch = (url, options) =>
  new URL(url).searchParams.has("continuationToken") ? new Promise(() => {}) : asks(url, options);
"""


def test_a_group_that_is_still_being_read_counts_nothing_as_all(settled: Scene, open_page: OpenPage) -> None:
    answer = {**settled.client().listTaskGroup(settled.group), "continuationToken": "there are more"}
    page = open_page(f"/tasks/groups/{settled.group}", viewport=PHONE, script=answered("/list", answer) + _HALF)
    expect(page.get_by_text("7 tasks so far …")).to_be_visible()
    expect(page).to_have_title(re.compile("3/7 so far"))
    page.get_by_text("Actions and filters").click()
    expect(page.get_by_role("button", name="Rerun all that failed")).to_be_disabled()
    page.get_by_role("link", name="Before", exact=True).click()
    expect(page.get_by_text("Reading the rest of the group")).to_be_visible()


def test_back_leads_to_the_same_place(settled: Scene, open_page: OpenPage) -> None:
    listed = answered("/list", settled.many("completed", 400))
    page = open_page(f"/tasks/groups/{settled.group}", script=listed)
    expect(page.get_by_role("link", name="zz-000", exact=True)).to_be_visible()
    page.mouse.wheel(0, 6000)
    link = page.get_by_role("link", name="zz-170", exact=True)
    expect(link).to_be_in_viewport()
    page.wait_for_function("() => history.state?.top > 5000")
    link.click()
    expect(page).to_have_url(re.compile("/tasks/[^/]+$"))
    page.go_back()
    expect(link).to_be_in_viewport()


def test_all_that_failed_is_rerun(scene: Scene, open_page: OpenPage) -> None:
    for name in ("build-1", "build-2", "build-3"):
        scene.create(name)
    scene.claim("build-1", "build-2", "build-3")
    scene.fail("build-1", "build-2")
    scene.complete("build-3")
    page = open_page(f"/tasks/groups/{scene.group}")
    _has(page, failed=2, completed=1)
    page.get_by_role("button", name="Rerun all that failed").click()
    _yes(page)
    _has(page, failed=0, pending=2, completed=1)


def test_what_a_task_refuses_is_named(scene: Scene, open_page: OpenPage) -> None:
    mine, theirs = scene.create("mine"), scene.create("theirs")
    reads = ["queue:list-task-group:*", "queue:get-task:*", "queue:status:*"]
    may = scene.deployment.new_client(f"queue:cancel-task:tests/{scene.group}/{mine}", *reads)
    page = open_page(f"/tasks/groups/{scene.group}", may)
    page.get_by_label("Select all that are listed").check()
    page.get_by_role("button", name="Cancel 2").click()
    _yes(page)
    expect(page.get_by_text("Cancel: 1 of 2 tasks done, 1 failed.")).to_be_visible()
    page.get_by_text("What failed").click()
    needs = f"it needs queue:cancel-task:tests/{scene.group}/{theirs}, or queue:cancel-task-in-project:none, or "
    expect(page.get_by_role("listitem").filter(has_text="theirs")).to_contain_text(f" may not do this: {needs}")


def test_a_sealed_group_is_cancelled(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build", task_id=scene.group)
    scene.create("test", ["build"])
    page = open_page(f"/tasks/groups/{scene.group}")
    actions = page.get_by_role("group", name="Actions on the group")
    expect(actions.get_by_role("button", name="Cancel")).to_be_disabled()
    actions.get_by_role("button", name="Seal").click()
    _yes(page)
    actions.get_by_role("button", name="Cancel").click()
    _yes(page)
    _has(page, cancelled=2, exception=0, pending=0, unscheduled=0)
    expect(page.get_by_text("2 tasks were cancelled.")).to_be_visible()
    expect(page.get_by_label("What is wrong")).not_to_contain_text("failed")
    expect(page).to_have_title(re.compile(r"^2 cancelled · 2/2 · "))
    expect(actions.get_by_role("button", name="Rerun all that failed")).to_be_disabled()
    page.goto("/")
    row = page.get_by_role("row").filter(has=page.locator(f'a[href="/tasks/groups/{scene.group}"]'))
    expect(row).to_contain_text("2 cancelled")


_LONG_AGO = """
for (const [key, value] of Object.entries(sessionStorage))
  if (key.includes("cancelling"))
    sessionStorage.setItem(key, JSON.stringify({ ...JSON.parse(value), changed: Date.now() - 300_000 }));
"""


def test_a_cancellation_that_goes_on_in_the_background_says_how_far_it_is(scene: Scene, open_page: OpenPage) -> None:
    for name in ("build", "test"):
        scene.create(name)
    scene.client().sealTaskGroup(scene.group)
    cancelling = answered("/cancel", {})  # it has answered, and cancels from now on
    page = open_page(f"/tasks/groups/{scene.group}", script=cancelling)
    page.get_by_role("group", name="Actions on the group").get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 2 tasks").click()
    progress = page.get_by_role("status").filter(has_text="Cancelling goes on in the background")
    expect(progress).to_contain_text("0 of 2 tasks so far")
    scene.client().cancelTask(scene.ids["build"])
    expect(progress).to_contain_text("1 of 2 tasks so far")
    page.reload()
    expect(progress).to_contain_text("1 of 2 tasks so far")
    page.evaluate(_LONG_AGO)
    page.reload()
    expect(page.get_by_text("1 of 2 tasks have ended since, none seen in the last 5 min")).to_be_visible()
    scene.client().cancelTask(scene.ids["test"])
    expect(page.get_by_text("2 tasks were cancelled.")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    scene.client().rerunTask(scene.ids["test"])
    _has(page, cancelled=1, pending=1)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    page.evaluate(answered("/cancel", {"message": "not you"}, status=403))
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog", name="Cancel 1 task").get_by_role("button", name="Cancel 1 task").click()
    expect(page.get_by_text("not you")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)


def test_what_was_cancelled_is_not_rerun_with_what_failed(scene: Scene, open_page: OpenPage) -> None:
    for name in ("build", "test"):
        scene.create(name)
    scene.claim("build", "test")
    scene.fail("build")
    scene.client().cancelTask(scene.ids["test"])
    page = open_page(f"/tasks/groups/{scene.group}")
    expect(page.get_by_text("1 task was cancelled.")).to_be_visible()
    expect(page.get_by_label("What is wrong")).to_contain_text("1 task failed: build.")
    page.get_by_role("button", name="Rerun all that failed").click()
    expect(page.get_by_role("dialog")).to_contain_text("Rerun 1 task")
    _yes(page)
    _has(page, failed=0, pending=1, cancelled=1, exception=0)
    page.get_by_label("Select all that are listed").check()
    page.get_by_role("button", name="Rerun 1", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Including 1 cancelled.")


def test_what_failed_first_is_named_first_and_what_followed_from_it_last(scene: Scene, open_page: OpenPage) -> None:
    scene.create("z-root")
    scene.create("a-report", ["z-root"], requires="all-resolved")
    scene.create("m-late")
    scene.claim("z-root", "m-late")
    scene.fail("z-root")
    scene.claim("a-report")
    scene.fail("a-report")
    scene.fail("m-late")
    page = open_page(f"/tasks/groups/{scene.group}")
    expect(page.get_by_label("What is wrong")).to_contain_text("3 tasks failed: z-root, m-late, a-report.")


def test_dependencies_are_drawn_and_can_be_followed(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}")
    page.get_by_role("link", name="Graph").click()
    page.get_by_role("group", name="Dependencies").get_by_role("link", name=re.compile("^build-2.*failed")).click()
    expect(page).to_have_url(re.compile(f"/tasks/{settled.ids['build-2']}$"))
    page.go_back()
    page.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("row").filter(has=page.get_by_role("link", name="build-1"))).to_contain_text("worker-1")
    expect(page.get_by_text("; 2 tasks without a run are not shown")).to_be_visible()


def test_one_may_go_back_before_the_next_page_has_loaded(settled: Scene, open_page: OpenPage) -> None:
    held: list[Route] = []
    page = open_page(f"/tasks/groups/{settled.group}")
    page.route("**/pages/task.js", lambda route: held.append(route))
    with page.expect_request("**/pages/task.js") as asked:
        page.get_by_role("row").get_by_role("link", name="build-2").click()
    page.go_back()
    expect(page.get_by_text("1 task failed: build-2.")).to_be_visible()
    held[0].continue_()
    page.evaluate("(module) => import(module).then(() => true)", asked.value.url)
    expect(page.get_by_role("heading", name="decision", exact=True)).to_be_visible()


_NOTED = """
globalThis.told = [];
globalThis.asked = 0;
globalThis.Notification = class {
  constructor(title, { body }) { told.push(`${title}: ${body}`); }
  static async requestPermission() { asked += 1; return "ANSWER"; }
};
globalThis.away = false;
Object.defineProperty(document, "hidden", { get: () => away });
const later = setTimeout;
globalThis.setTimeout = (call, delay) => later(call, away ? Math.min(delay, 50) : delay);
"""
"""A browser that gives leave to notify, and whose tab the test hides; what is due in a hidden tab comes at once."""


def test_one_who_asks_is_notified_when_a_group_or_a_task_ends_though_the_tab_is_hidden(
    scene: Scene, open_page: OpenPage
) -> None:
    for name in ("build", "test"):
        scene.create(name, task_id=scene.group if name == "build" else None)
    scene.claim("build", "test")
    page = open_page(f"/tasks/groups/{scene.group}", script=_NOTED.replace("ANSWER", "granted"))
    button = page.get_by_role("button", name="Notify me when it ends")
    expect(button).to_be_visible()
    assert page.evaluate("asked") == 0, "the browser is asked only on a click"
    button.click()
    expect(page.get_by_role("button", name="You will be notified")).to_have_attribute("aria-pressed", "true")
    scene.complete("build")
    _has(page, completed=1, running=1)
    assert page.evaluate("told") == []
    task = open_page(f"/tasks/{scene.ids['test']}", script=_NOTED.replace("ANSWER", "granted"))
    task.get_by_role("button", name="Notify me when it ends").click()
    for each in (page, task):
        each.evaluate("away = true")
    scene.fail("test")
    for each, told in ((page, "build: 1 failed of 2 tasks"), (task, "test: failed: ")):
        each.wait_for_function("() => told.length > 0")
        assert each.evaluate("[told, asked]") == [[told], 1]
        expect(each.get_by_role("button", name=re.compile("notif", re.IGNORECASE))).to_have_count(0)


def test_who_allows_no_notifications_is_told_so(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    page = open_page(f"/tasks/groups/{scene.group}", script=_NOTED.replace("ANSWER", "denied"))
    page.get_by_role("button", name="Notify me when it ends").click()
    expect(page.get_by_text("This browser allows no notifications from here.")).to_be_visible()
    expect(page.get_by_role("button", name="Notify me when it ends")).to_have_attribute("aria-pressed", "false")
