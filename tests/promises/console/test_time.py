"""What pages say when time passes, and when the service does not answer: nothing that is not so."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.promises.console.browser import answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene, lines

CLOCK = """
globalThis.minutes = MINUTES;
const Real = Date;
globalThis.Date = class extends Real {
  constructor(...given) { given.length ? super(...given) : super(Real.now() + minutes * 60_000); }
  static now() { return Real.now() + minutes * 60_000; }
};
"""
"""A browser whose clock is wrong by so many minutes."""

_STEPS = """
const real = performance.now.bind(performance), every = setInterval;
let stands, skipped = 0;
performance.now = () => (stands ?? real()) + skipped;
globalThis.pass = (milliseconds) => void (skipped += milliseconds);
globalThis.stand = () => void (stands = real());
globalThis.setInterval = (call, delay) => every(call, Math.min(delay, 100));
const asked = globalThis.fetch;
Object.assign(globalThis, { frozen: "", flying: 0, held: 0, heartbeats: 0 });
globalThis.fetch = async (url, options) => {
  const isHeld = () => frozen && String(url).includes(frozen);
  heartbeats += String(url).includes("heartbeat");
  held += Boolean(isHeld());
  while (isHeld()) await new Promise((later) => setTimeout(later, 20));
  flying += 1;
  return asked(url, options).finally(() => (flying -= 1));
};
"""
"""What answers nothing to addresses with the frozen part, and a clock that the test can advance, or stop as well."""


_SOON = """
const real = performance.now.bind(performance), later = setTimeout, every = setInterval;
const at = Date.now() - real();
let [from, shown, fast] = [real(), real(), 1];
performance.now = () => shown + (real() - from) * fast;
Date.now = () => at + performance.now();
globalThis.hurry = (times) => void ([from, shown, fast] = [real(), performance.now(), times]);
globalThis.setTimeout = (call, delay) => later(call, delay / fast);
globalThis.setInterval = (call, delay) => every(call, Math.min(delay, 20));
globalThis.looks = 0;
const asks = globalThis.fetch;
globalThis.fetch = (url, options) => {
  if (new URL(url).pathname.endsWith("/list")) looks += 1;
  return asks(url, options);
};
"""
"""Time runs faster once the test says so, also for what is answered without a date; lists that are read are counted."""


def _large(case: object) -> Any:
    return pytest.param(case, marks=pytest.mark.large)


@pytest.mark.parametrize("minutes", [*map(_large, (-90, -10, 10)), 90])
def test_a_wrong_clock_says_nothing_wrong(minutes: int, scene: Scene, open_page: OpenPage) -> None:
    """The service's clock counts, and signs; also when somebody sets the browser's while a page is open."""
    scene.create("build")
    scene.claim("build")
    page = open_page(f"/tasks/{scene.ids['build']}", script=CLOCK.replace("MINUTES", str(minutes)))
    running = page.get_by_role("region", name="What it does")
    expect(running).to_contain_text(re.compile(r"Its claim ends in (20 min|19 min \d+ s) unless"))
    facts = page.locator("dl.facts").first
    expect(facts).to_contain_text(re.compile(r"Started\s*(\d+ s ago|now)"))
    page.evaluate("minutes -= 45")
    scene.complete("build")
    expect(page.get_by_role("heading", level=1)).to_contain_text("completed")
    expect(facts).to_contain_text(re.compile(r"Resolved\s*(\d+ s ago|now)"))
    expect(facts).not_to_contain_text(" min")
    page.get_by_role("button", name="Retrigger").click()
    page.get_by_role("dialog").get_by_role("button", name="Create a copy of the task").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("pending")
    expect(page.locator("dl.facts").last).to_contain_text(re.compile(r"Deadline\s*in (1 h|59 min)"))


def _freeze(page: Page, path: str) -> None:
    """No answer from now on; the page asks, and ten seconds pass."""
    page.evaluate("frozen = '/api/'; dispatchEvent(new Event('online')); pass(10_000)")
    expect(page.get_by_role("alert")).to_contain_text("No answer from the service.")


@pytest.mark.parametrize(
    "path",
    [
        "/tasks/groups/{group}",
        "/operations",
        *map(_large, ("/", "/tasks/{pending}", "/provisioners", "/provisioners/{queue}")),
    ],
)
def test_a_page_says_how_old_it_is_and_that_it_has_no_answer(path: str, settled: Scene, open_page: OpenPage) -> None:
    names = {
        "group": settled.group,
        "pending": settled.ids["windows"],
        "queue": settled.task_queue.replace("/", "/worker-types/"),
    }
    healthy = answered("/api/queue/v1/health", {"healthy": True, "findings": []})
    page = open_page(path.format(**names), script=healthy + _STEPS)
    expect(page.get_by_role("banner")).to_contain_text(re.compile(r"as of \d\d:\d\d:\d\d"))
    well = page.get_by_text(re.compile("The service is well|Nothing is wrong"))
    if path in ("/", "/operations"):
        expect(well).to_be_visible()
    _freeze(page, path)
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"What is shown is as of \d\d:\d\d:\d\d, \d+ s ago\."))
    expect(well).to_have_count(0)  # a verdict that nobody has just given is none
    page.evaluate("frozen = ''")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.evaluate("fetch = async () => new Response(new ReadableStream({ pull: (to) => to.error(0) }))")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.get_by_role("alert").filter(has_text="The service cannot be reached.").first).to_be_visible()


@pytest.mark.parametrize("silent", ["all", "tables", _large("Service Bus")])
def test_who_uses_a_page_that_reads_seldom_learns_within_ten_seconds_that_nothing_answers(
    silent: str, settled: Scene, open_page: OpenPage
) -> None:
    """Nor the storage of a service that answers; what keeps no call from being answered is not told."""
    page = open_page(f"/tasks/groups/{settled.group}", script=_STEPS)
    expect(page.get_by_role("link", name="package", exact=True)).to_be_visible()
    page.route("**/__heartbeat__", lambda route: route.fulfill(status=503, json={"message": f"from: {silent}"}))
    unanswered = "/api/" if silent == "all" else "/task-group/"
    page.wait_for_function(f"() => flying === 0 && (frozen = '{unanswered}', stand(), pass(4600), true)")
    page.mouse.move(100, 100)
    page.wait_for_function("() => heartbeats === 1" if silent == "all" else "() => heartbeats >= 2 && flying === 0")
    page.evaluate("pass(4600)")
    alert = page.get_by_role("alert")
    page.evaluate("new Promise((done) => { let left = 3; setInterval(() => --left || done(), 100); })")
    expect(alert).to_have_text([] if silent == "Service Bus" else [re.compile("^No answer from the service.")])
    page.unroute_all()
    page.evaluate("frozen = ''")
    expect(alert).to_have_count(0)


@pytest.mark.parametrize("path", ["", "/runs/0/logs/live/public%2Flogs%2Flive.log"])
def test_a_log_is_not_called_live_while_its_storage_does_not_answer(
    path: str, scene: Scene, open_page: OpenPage
) -> None:
    scene.create("build")
    scene.claim("build")
    scene.upload("build", LOG, lines(9, errors=()))
    page = open_page(f"/tasks/{scene.ids['build']}{path}", script=_STEPS)
    live = page.get_by_role("status").filter(has_text=re.compile("live$"))
    expect(live).to_be_visible()
    page.evaluate("frozen = 'sig='")
    page.wait_for_function("() => held > 0")
    page.evaluate("pass(10_000)")
    expect(page.get_by_role("alert")).to_contain_text("No answer from the service.")
    expect(live).to_have_count(0)
    page.evaluate("frozen = ''")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(live).to_be_visible()


def test_an_answer_that_storage_is_down_is_no_verdict_that_all_is_well(open_page: OpenPage) -> None:
    page = open_page("/operations", script=answered("/api/queue/v1/health", {"healthy": True, "findings": []}))
    expect(page.get_by_text("Nothing is wrong.")).to_be_visible()
    said = "Storage (tables) is silent."
    down = {"code": "tables-silent", "severity": "critical", "message": said, "remedy": "Wait."}
    page.evaluate(
        answered("/api/queue/v1/health", {"healthy": False, "findings": [down]})
        + answered("/api/queue/v1/operations", {"message": "storage is not available"}, status=503)
    )
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.get_by_label("Health")).to_contain_text(said)
    expect(page.get_by_text("Nothing is wrong.")).to_have_count(0)
    expect(page.get_by_role("alert")).to_contain_text("Storage is not available.")


@pytest.mark.parametrize(("path", "age"), [("/tasks/groups/{group}", 14), ("/", 50)])
def test_what_is_not_read_again_gets_no_younger(path: str, age: int, settled: Scene, open_page: OpenPage) -> None:
    """A look that asks for nothing makes nothing fresh, and a page that rests says how old it is."""
    group = settled.client().getTaskGroup(settled.group)
    recent = {"name": "build", "owner": "me", "source": "", "created": group["expires"], "projectId": "none"}
    answers = {
        "/list": settled.many("completed", 200),
        "/task-groups": {"taskGroups": [{**group, **recent}]},
        "/health": {"healthy": True, "findings": []},
    }
    script = "".join(answered(end, body) for end, body in answers.items())
    page = open_page(path.format(group=settled.group), script=script + _SOON)
    expect(page.get_by_role("banner")).to_contain_text(re.compile(r"as of \d\d:\d\d:\d\d(?!,)"))
    page.wait_for_function("looks === 1")
    page.evaluate("hurry(30)")
    aged = "age => performance.now() > age * 1000 && [looks, document.querySelector('.as-of').innerText]"
    looks, said = page.wait_for_function(aged, arg=age).json_value()
    assert looks == 1
    found = re.search(r"as of \d\d:\d\d:\d\d, nothing heard for (\d+) s", said)
    assert found and int(found[1]) > age - 8, said
    expect(page.get_by_text(re.compile(r"The service was well at \d\d:\d\d:\d\d"))).to_have_count(int(path == "/"))


def test_a_browser_that_is_offline_says_so_at_once(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}")
    expect(page.get_by_role("link", name="package", exact=True)).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("This browser is offline.")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("combobox", name="Find").fill("package")
    expect(page.get_by_text("Nothing could be searched")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_times_are_shown_with_their_zone_or_in_utc(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['build-1']}", timezone_id="Asia/Kolkata")
    resolved = page.locator("dl.facts").first.locator("time").last
    expect(resolved).to_have_attribute("title", re.compile(r"\d\d:\d\d:\d\d GMT\+5:30$"))
    page.get_by_label("Times").select_option("UTC")
    expect(resolved).to_have_text(re.compile(r"^[A-Z][a-z]{2} \d+, \d{4}, \d\d:\d\d:\d\d UTC$"))
    page.reload()
    expect(resolved).to_have_text(re.compile("UTC$"))
    assert json.loads(page.evaluate("JSON.stringify(Intl.DateTimeFormat().resolvedOptions().timeZone)"))
