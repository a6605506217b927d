"""The page of a log: colours, search, errors, links to lines, and following it while it is written."""

import gzip
import re
from itertools import pairwise

import pytest
import requests
from azure.storage.blob import BlobBlock, BlobClient
from playwright.sync_api import Locator, Page, expect

from tests.promises.console.browser import answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene, lines, put

ENCODED = LOG.replace("/", "%2F")


def _line(page: Page, number: int) -> Locator:
    """Returns a line by its number."""
    return page.locator(".log .line").filter(has=page.get_by_role("link", name=str(number), exact=True))


def test_the_log_of_a_failed_task_is_found_and_read(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}")
    page.get_by_label("What is wrong").get_by_role("link", name="build-2").first.click()
    page.get_by_role("link", name="Open the log").click()
    expect(page.get_by_text("300 lines")).to_be_visible()
    expect(_line(page, 58)).to_be_in_viewport()
    expect(_line(page, 58)).to_contain_text("step 58 error: it broke")
    expect(_line(page, 58).locator(".fg-red")).to_be_visible()
    page.get_by_role("button", name="Next error").click()
    expect(_line(page, 212)).to_be_in_viewport()
    expect(_line(page, 58)).to_have_count(0)


_LATE_EFFECTS = """
const later = setTimeout, frame = requestAnimationFrame;
globalThis.setTimeout = (call, delay) => later(call, delay < 100 ? 300 : delay);
globalThis.requestAnimationFrame = (call) => frame(() => later(call, 300));
"""
"""What components do after they were painted happens later than the first scrolling, as on a busy machine."""


def test_a_text_is_searched(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['build-2']}/runs/0/logs/{ENCODED}", script=_LATE_EFFECTS)
    search = page.get_by_label("Search in the log")
    search.fill("STEP 12")
    expect(page.get_by_text("0 of 11")).to_be_visible()
    search.press("Enter")
    expect(page.get_by_text("1 of 11")).to_be_visible()
    expect(_line(page, 12)).to_be_in_viewport()
    search.press("Shift+Enter")
    expect(page.get_by_text("11 of 11")).to_be_visible()
    expect(_line(page, 129)).to_be_in_viewport()


def test_a_log_opens_at_its_error_or_its_end_however_busy_the_machine_is(
    scene: Scene, settled: Scene, open_page: OpenPage
) -> None:
    page = open_page(f"/tasks/{settled.ids['build-2']}/runs/0/logs/{ENCODED}", script=_LATE_EFFECTS)
    expect(_line(page, 58)).to_be_in_viewport()
    expect(_line(page, 58)).to_have_class(re.compile("marked"))
    expect(page).to_have_title(f"{LOG} · build-2 · Taskcluster Queue")
    scene.create("build")
    scene.claim("build")
    scene.upload("build", LOG, lines())
    scene.complete("build")
    page.goto(f"/tasks/{scene.ids['build']}/runs/0/logs/{ENCODED}")
    expect(_line(page, 300)).to_be_in_viewport()


def test_lines_are_linked(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['build-2']}/runs/0/logs/{ENCODED}#L120-122")
    expect(_line(page, 120)).to_be_in_viewport()
    expect(page.locator(".line.chosen")).to_have_count(3)
    _line(page, 125).get_by_role("link").click()
    expect(page).to_have_url(re.compile("#L125$"))
    _line(page, 127).get_by_role("link").click(modifiers=["Shift"])
    expect(page).to_have_url(re.compile("#L125-127$"))
    expect(page.locator(".line.chosen")).to_have_count(3)


def test_a_log_is_followed_until_its_run_ends(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.claim("build")
    url = scene.upload("build", LOG, lines(100, errors=()))
    page = open_page(None, own_clock=True)
    page.clock.install()
    page.goto(f"/tasks/{scene.ids['build']}/runs/0/logs/live/{ENCODED}")
    expect(page.get_by_text("100 lines", exact=True)).to_be_visible()
    expect(_line(page, 100)).to_be_in_viewport()

    put(url, lines(200, errors=()))
    page.clock.fast_forward(5_000)
    expect(page.get_by_text("200 lines", exact=True)).to_be_visible()
    expect(_line(page, 200)).to_be_in_viewport()

    page.route(lambda read: "/api/" not in read and "live.log" in read, lambda route: route.abort())
    page.clock.fast_forward(5_000)
    expect(page.get_by_role("alert")).to_contain_text("The storage of the log cannot be reached.")
    expect(_line(page, 200)).to_be_in_viewport()
    page.unroute_all()
    page.clock.fast_forward(10_000)
    expect(page.get_by_role("alert")).to_have_count(0)

    page.get_by_role("region", name="Log").evaluate("(log) => log.scrollTo(0, 0)")
    expect(page.get_by_label("Follow")).not_to_be_checked()
    put(url, lines(300, errors=()))
    scene.complete("build")
    page.clock.fast_forward(20_000)
    expect(page.get_by_text("300 lines", exact=True)).to_be_visible()
    expect(_line(page, 1)).to_be_in_viewport()


def test_a_log_is_followed_that_its_worker_writes_block_by_block(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.claim("build")
    url = scene.begin_blob("build", LOG)
    with BlobClient.from_blob_url(url) as blob:
        blocks: list[BlobBlock] = []

        def append(content: bytes) -> None:
            blocks.append(BlobBlock(f"{len(blocks):03d}"))
            blob.stage_block(blocks[-1].id, content)
            blob.commit_block_list(blocks)

        append(b"\x1b[31mfirst\x1b[0m\n 1%\r")
        page = open_page(f"/tasks/{scene.ids['build']}/runs/0/logs/live/{ENCODED}")
        expect(page.get_by_text("2 lines", exact=True)).to_be_visible()
        expect(_line(page, 1).locator(".fg-red")).to_have_text("first")
        append(b" 2%\r100%\nlast\n")
        expect(page.get_by_text("3 lines", exact=True)).to_be_visible()
        expect(_line(page, 2)).to_contain_text("100%")
        scene.complete("build")
        expect(page.get_by_text("3 lines", exact=True)).to_be_visible()


def test_the_end_of_a_log_that_unpacks_to_more_than_is_kept_is_there(scene: Scene, open_page: OpenPage) -> None:
    """The failure is at the end. Its lines are counted as they come, so their numbers are true."""
    count, width = 144_000, 480
    text = b"".join(b"step %d ".ljust(width, b".") % number + b"\n" for number in range(1, count))
    page = _long_log(scene, open_page, gzip.compress(text + b"error: the last line\n", 1), "gzip", f"#L{count - 1}")
    expect(page.get_by_text(f"{count:,} lines", exact=True)).to_be_visible()
    expect(_line(page, count)).to_contain_text("error: the last line")
    expect(_line(page, count - 1)).to_contain_text(f"step {count - 1} ")
    expect(page.locator(".line.chosen")).to_contain_text(f"step {count - 1} ")
    expect(page.get_by_text("shown is its end, from line")).to_be_visible()


@pytest.mark.large
def test_a_log_that_unpacks_without_end_is_read_to_a_bound(scene: Scene, open_page: OpenPage) -> None:
    """300 MB in 1.3 MB, as one line: the page stays usable, and keeps what it has unpacked to a bound. What pages of
    other tests keep is not counted: they share its process."""
    packed = gzip.compress(b"first line\n" + bytes(300_000_000), 1)
    before = _heap(open_page(None))
    page = _long_log(scene, open_page, packed, "gzip", "#L1")
    expect(page.get_by_text("2 lines", exact=True)).to_be_visible()
    expect(page.get_by_text("Download it for all of it.")).to_contain_text("256 MiB")
    expect(_line(page, 1)).to_contain_text("first line")
    assert _heap(page) - before < 100_000_000


def _heap(page: Page) -> int:
    """Returns how many bytes the scripts of the page's process keep."""
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    size: int = page.evaluate("performance.memory.usedJSHeapSize")
    return size


def test_a_log_is_wrapped_and_downloaded(scene: Scene, open_page: OpenPage) -> None:
    text = b"short\n" + b"a word and another " * 100 + b"\nlast\n"
    page = _long_log(scene, open_page, text, "", "")
    log = page.get_by_role("region", name="Log")
    expect(_line(page, 3)).to_be_in_viewport()
    wide = "(log) => log.scrollWidth > log.clientWidth"
    assert log.evaluate(wide)
    page.get_by_label("Wrap").check()
    page.wait_for_function("() => document.querySelectorAll('.log .line')[1].offsetHeight > 60")
    assert not log.evaluate(wide)
    rows = [line.bounding_box() for line in log.locator(".line").all()]
    assert all(one and other and one["y"] + one["height"] <= other["y"] + 1 for one, other in pairwise(rows))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert (saved.value.suggested_filename, saved.value.path().read_bytes()) == ("live.log", text)


def test_the_end_of_a_long_log_has_no_false_numbers(scene: Scene, open_page: OpenPage) -> None:
    text = b"a line of some length, as many are\n" * 500_000 + b"error: the last line\n"
    page = _long_log(scene, open_page, text, "", "")
    expect(page.get_by_text("only its end was read, so its lines have no numbers")).to_be_visible()
    expect(page.locator(".log .line").last).to_have_text("error: the last line")
    expect(page.locator(".log .number")).to_have_count(0)
    page.get_by_role("button", name="Next error").click()
    expect(page.locator(".line.marked")).to_have_text("error: the last line")


def _long_log(scene: Scene, open_page: OpenPage, content: bytes, encoding: str, line: str) -> Page:
    scene.create("build")
    scene.claim("build")
    put(scene.begin_blob("build", LOG), content, encoding=encoding)
    scene.complete("build")
    return open_page(f"/tasks/{scene.ids['build']}/runs/0/logs/{ENCODED}{line}")


def test_a_log_that_is_missing_says_so(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/{settled.ids['build-1']}/runs/0/logs/{ENCODED}")
    expect(page.get_by_role("alert")).to_contain_text("It may have expired, or the address is mistyped.")


def test_a_log_that_was_opened_in_a_tab_is_read_all_the_same(scene: Scene, open_page: OpenPage) -> None:
    """The page reads a log by an address that was opened in a tab, of which the browser keeps no origin."""
    scene.create("build")
    scene.claim("build")
    kept = {"x-ms-blob-type": "BlockBlob", "x-ms-blob-cache-control": "max-age=3600", "content-type": "text/plain"}
    requests.put(scene.begin_blob("build", LOG), lines(), headers=kept, timeout=60).raise_for_status()
    scene.complete("build")
    found = scene.client().artifact(scene.ids["build"], 0, LOG)
    page = open_page(None)
    page.context.new_page().goto(found["url"])
    with page.add_init_script(answered(f"/artifact-content/{ENCODED}", found)):
        page.goto(f"/tasks/{scene.ids['build']}/runs/0/logs/{ENCODED}")
    expect(page.get_by_text("300 lines", exact=True)).to_be_visible()
