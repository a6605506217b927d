"""Why a task failed, on its page: its log's first error and last lines, how it ended, and what was missing."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.promises.clients.deployment import Deployment, format_time
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene, lines, put

SAID = "[taskcluster 2026-11-23T10:00:00Z] "


def _failed(scene: Scene, content: bytes, encoding: str = "") -> str:
    """Returns the id of a task that failed with such a log."""
    scene.create("build", payload={"maxRunTime": 90})
    scene.claim("build")
    put(scene.begin_blob("build", LOG), content, encoding=encoding)
    scene.fail("build")
    return scene.ids["build"]


def _why(page: Page) -> tuple[str, ...]:
    shown = page.get_by_role("region", name="Why it failed")
    expect(shown.locator(".line").first).to_be_visible()
    return tuple(shown.locator(".line").all_inner_texts())


def test_the_first_error_and_the_last_lines_are_shown_and_lead_into_the_log(
    settled: Scene, open_page: OpenPage, watch: Watch
) -> None:
    page = open_page(f"/tasks/{settled.ids['build-2']}")
    why = page.get_by_role("region", name="Why it failed")
    expect(why).to_contain_text("The worker reported that the task failed.")
    expect(why.locator(".line.cause")).to_have_text("58First error: step 58 error: it broke")
    expect(why.locator(".line").last).to_contain_text("step 300")
    expect(why.get_by_text("… 228 lines")).to_be_visible()
    assert why.locator(".line").count() < 30
    expect(page.get_by_role("link", name="log", exact=False)).to_have_count(1)  # one log link
    why.get_by_role("link", name="Open the log").click()
    expect(page).to_have_url(re.compile(r"live\.log#L58$"))
    expect(page.locator(".line.chosen")).to_contain_text("step 58")


def test_on_a_phone_the_whole_error_is_read_without_scrolling(scene: Scene, open_page: OpenPage) -> None:
    error = f"[task 2026-11-23T10:00:00.000Z] ERROR - TEST-UNEXPECTED-FAIL | {'a/path/' * 12}test.html | timed out\n"
    page = open_page(f"/tasks/{_failed(scene, error.encode())}", viewport={"width": 390, "height": 800})
    expect(page.locator(".line.cause")).to_be_in_viewport()
    excerpt = page.get_by_role("region", name="End of the log")
    assert excerpt.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_how_it_ended_and_the_limit_are_said(scene: Scene, open_page: OpenPage) -> None:
    text = "building\n" * 40 + f"{SAID}The run ends here: ended after maxRunTime, 90 s.\n"
    page = open_page(f"/tasks/{_failed(scene, text.encode())}")
    expect(page.get_by_role("list", name="What the log says")).to_have_text("maxRunTime reached: 1 min 30 s")
    expect(page.locator(".line.cause")).to_contain_text("ended after maxRunTime")


@pytest.mark.parametrize(
    ("log", "is_missing"),
    [
        (f"built\n{SAID}Exit code 127\n", True),
        (f"error: it broke\n{SAID}Exit code 1\n", False),  # what came of an error is not its cause
    ],
)
def test_a_missing_artifact_is_named_by_what_the_worker_reported(
    log: str, is_missing: bool, scene: Scene, open_page: OpenPage
) -> None:
    """Those that the task can do without are not."""
    names = ("public/build.zip", "public/symbols.zip")
    stated = [{"name": name, "path": "x", "type": "file", "optional": name == names[1]} for name in names]
    scene.create("build", payload={"artifacts": stated})
    scene.claim("build")
    claim = scene.claims["build"]
    missing = {
        "storageType": "error",
        "reason": "file-missing-on-worker",
        "message": "there is no such file",
        "expires": format_time(timedelta(minutes=50)),
    }
    for name in names:
        scene.client(claim["credentials"]).createArtifact(claim["status"]["taskId"], claim["runId"], name, missing)
    scene.upload("build", LOG, log.encode())
    scene.fail("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    found = page.get_by_role("list", name="What the log says").get_by_role("listitem")
    ended = "exit code 127: the command was not found" if is_missing else "exit code 1"
    expect(found).to_have_text([ended, *(["missing: public/build.zip"] if is_missing else [])])


def test_the_error_is_the_headline(scene: Scene, open_page: OpenPage) -> None:
    text = f"building\n[task 2026-11-23T10:00:00.000Z] make: *** error: no rule\n{SAID}Exit code 2\n"
    scene.create("build")
    for name in ("test", "package"):
        scene.create(name, ["build"])
    scene.create("ship", ["test", "package"])
    scene.claim("build")
    scene.upload("build", LOG, text.encode())
    scene.fail("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    why = page.get_by_role("region", name="Why it failed").get_by_role("paragraph")
    expect(why.first).to_have_text("make: *** error: no rule")
    expect(page.get_by_text("Blocks 3 tasks")).to_be_visible()  # one that waits for those that wait for it, too


def test_the_end_of_a_log_is_followed_while_the_task_runs(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    scene.create("build")
    scene.claim("build")
    url = scene.upload("build", LOG, lines(100, errors=()))
    page = open_page(f"/tasks/{scene.ids['build']}")
    running = page.get_by_role("region", name="What it does")
    expect(running.locator(".line").last).to_contain_text("step 100")
    expect(running.get_by_text("live", exact=True)).to_be_visible()
    put(url, lines(200, errors=(150,)))
    expect(running.locator(".line").last).to_contain_text("step 200")
    expect(running.locator(".line.cause")).to_contain_text("step 150 error")
    put(url, lines(300, errors=(150,)))
    scene.fail("build")
    failed = page.get_by_role("region", name="Why it failed")
    expect(failed.locator(".line").last).to_contain_text("step 300")
    expect(failed.get_by_text("live", exact=True)).to_have_count(0)
    asked = [request.url for request in watch.requests if "/artifact-content/public%2Flogs" in request.url]
    assert len(asked) <= 2, "the address of a log is kept as long as it is good"


def test_the_log_of_a_completed_task_is_read_only_when_one_asks(
    settled: Scene, open_page: OpenPage, scene: Scene, watch: Watch
) -> None:
    scene.create("build")
    scene.claim("build")
    scene.upload("build", LOG, lines(100, errors=(50,)))
    scene.complete("build")
    page = open_page(f"/tasks/{scene.ids['build']}")
    ended = page.get_by_role("region", name="How it ended")
    expect(ended.get_by_role("link", name="Open the log")).to_be_visible()
    assert [request.url for request in watch.requests if "artifact-content/public%2Flogs" in request.url] == []
    ended.get_by_role("button", name="Show its end").click()
    expect(ended.locator(".line").last).to_contain_text("step 100")
    expect(ended.locator(".line.cause")).to_have_count(0)


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_only_the_end_of_a_long_log_is_read_where_that_can_be(
    encoding: str, scene: Scene, open_page: OpenPage, watch: Watch
) -> None:
    text = b"a line of some length, as many are\n" * 150_000 + b"error: it broke\n" + f"{SAID}Exit code 1\n".encode()
    page = open_page(f"/tasks/{_failed(scene, gzip.compress(text, 1) if encoding else text, encoding)}")
    shown = _why(page)
    assert any("error: it broke" in line for line in shown)
    numbered = page.locator(".excerpt .number")
    expect(numbered).to_have_count(0 if encoding == "" else len(shown) - 1)
    if encoding:
        expect(page.locator(".line.cause .number")).to_have_text("150001")
    else:
        parts = [request for request in watch.requests if "bytes=" in request.headers.get("range", "")]
        assert len(parts) == 1


def test_the_cause_comes_after_few_answers_in_sequence_and_few_bytes(settled: Scene, open_page: OpenPage) -> None:
    """The page with its modules, which it names, the task, where its log is, and the log: nothing else comes first."""
    page = open_page(None, own_clock=True)  # which has loaded nothing
    network = page.context.new_cdp_session(page)
    asked: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    network.on("Network.requestWillBeSent", lambda one: asked.update({one["requestId"]: one}))
    network.on("Network.loadingFinished", lambda one: answers.update({one["requestId"]: one}))
    network.send("Network.enable")
    page.goto(f"/tasks/{settled.ids['build-2']}")
    expect(page.locator(".headline")).to_have_text("step 58 error: it broke")
    fetched = [(one, answers.get(key, one)["timestamp"]) for key, one in asked.items() if one["type"] == "Fetch"]
    log = next(one["timestamp"] for one, _ in fetched if "/api/" not in one["request"]["url"])
    assert sum(one["encodedDataLength"] for one in answers.values() if one["timestamp"] <= log) < 165_000
    ends = [0.0]
    while later := [end for one, end in fetched if ends[-1] <= one["timestamp"] < end <= log]:
        ends.append(min(later))
    assert len(ends) - 1 == 2


def test_a_hostile_log_does_no_harm(scene: Scene, deployment: Deployment, open_page: OpenPage) -> None:
    markup = b"<img src=x onerror=window.ran=1>"
    content = b"\n".join(
        [
            b"\xff\xfe\x00\x01\x1b[2J\x1b]0;title\x07" + markup,
            b"x" * 400_000,
            b"\x1b[31mERROR: " + markup + b"\x1b[0m",
            b"",
        ]
    )
    page = open_page(f"/tasks/{_failed(scene, content)}")
    expect(page.locator(".line.cause")).to_contain_text("<img src=x onerror")
    assert page.evaluate("window.ran") is None
    assert page.locator(".excerpt").evaluate("(element) => element.textContent.length") < 5000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
