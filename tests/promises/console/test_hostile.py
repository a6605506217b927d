"""What tasks and workers say is shown as text: it runs nothing, loads nothing and reaches no credentials."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene

MARKUP = "<img src=https://evil.example/x onerror=window.ran=1><script>window.ran=1</script>"
ESCAPES = (
    b"\x1b[31mred\x1b[0m \x1b]8;;javascript:window.ran=1\x07link\x1b]8;;\x07 \x1b]0;title\x07 "
    b"\x1b[2J\x1b[999;999H\x1b[;;;m\x1b[38;2;1;2;3mrgb\x1b[38;5;999mbeyond\x1b[38;2;a;b;cmno\x1b["
)
LONG_LINE = 10_000_000
TURNS = "\u202e"


@pytest.fixture(scope="module")
def hostile(deployment: Deployment) -> Scene:
    """Returns a group with one task, all of whose texts are markup."""
    scene = Scene(deployment)
    scene.create(
        MARKUP,
        description=MARKUP
        + "\n[link](javascript:window.ran=1)\n\n![picture](https://evil.example/pixel.png) [local](/auth/clients)"
        + "\n\n<javascript:window.ran=1> [data](data:text/html,x) [entity](&#106;avascript:window.ran=1)"
        + "\n\n<iframe src='https://evil.example'></iframe>\n\n"
        + "[" * 5000
        + "*_" * 5000,
        tags={"<b>kind</b>": MARKUP},
        payload={MARKUP: [MARKUP], "__proto__": {"polluted": 1}, "command": MARKUP, "logs": {"live": 1}},
        extra={"treeherder": MARKUP, "constructor": MARKUP},
    )
    scene.claim(MARKUP, worker="w")
    log = [MARKUP.encode(), ESCAPES, b"\xff\xfe\x00 no UTF-8", b"x" * LONG_LINE, b"last line"]
    scene.upload(MARKUP, LOG, b"\n".join(log))
    scene.upload(MARKUP, "public/<img src=x onerror=window.ran=1>.html", b"<script>window.ran=1</script>", "text/html")
    scene.upload(MARKUP, "public/../../auth/clients", b"x", "text/plain")
    scene.fail(MARKUP)
    return scene


def _is_harmless(page: Page, deployment: Deployment, watch: Watch) -> None:
    """Nothing of what the page shows has run, and every request went to this service or to its storage."""
    assert page.evaluate("window.ran") is None
    assert page.evaluate("({}).polluted") is None
    assert page.locator("main img, main script, main iframe, main a[href^='javascript:' i]").count() == 0
    sites = (deployment.root_url, "http://127.0.0.1:", "http://localhost:", "data:", "blob:")
    assert [request.url for request in watch.requests if not request.url.startswith(sites)] == []


@pytest.mark.parametrize("view", ["list", "graph", "timeline"])
def test_a_group(view: str, hostile: Scene, deployment: Deployment, open_page: OpenPage, watch: Watch) -> None:
    page = open_page(f"/tasks/groups/{hostile.group}?view={view}&name={quote('<img')}")
    shown = page.locator(".graph svg, table").last
    expect(shown.get_by_role("link").filter(has_text="<img src=https://")).to_be_visible()
    _is_harmless(page, deployment, watch)


def test_a_task(hostile: Scene, deployment: Deployment, open_page: OpenPage, watch: Watch) -> None:
    page = open_page(f"/tasks/{hostile.ids[MARKUP]}/definition")
    expect(page.get_by_role("heading", level=1)).to_contain_text(MARKUP)
    shown = page.locator(".markdown")
    expect(shown.get_by_text("[link](javascript:window.ran=1)").first).to_be_visible()
    expect(shown.get_by_text("<iframe src='https://evil.example'></iframe>")).to_be_visible()
    links = ["https://evil.example/x", "picture", "https://evil.example"]  # loaded by nobody who does not open one
    expect(shown.get_by_role("link")).to_have_text(links)
    expect(page.get_by_role("link", name="public/<img src=x onerror=window.ran=1>.html")).to_be_visible()
    expect(page.locator("details pre")).to_contain_text("onerror=window.ran=1")
    _is_harmless(page, deployment, watch)


def test_an_html_artifact_never_opens_on_the_origin_of_the_console(
    hostile: Scene, deployment: Deployment, open_page: OpenPage, watch: Watch
) -> None:
    page = open_page(f"/tasks/{hostile.ids[MARKUP]}")
    page.get_by_role("link", name="public/<img src=x onerror=window.ran=1>.html").click()
    expect(page.locator("pre")).to_have_text("<script>window.ran=1</script>")  # a preview is text
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Open the artifact").click()
    opened.value.wait_for_url(lambda url: url != "about:blank")
    assert not opened.value.url.startswith(deployment.root_url)
    assert opened.value.evaluate("window.opener") is None
    assert watch.sent(deployment.root["accessToken"]) == []
    _is_harmless(page, deployment, watch)


def test_a_log(hostile: Scene, deployment: Deployment, open_page: OpenPage, watch: Watch) -> None:
    page = open_page(f"/tasks/{hostile.ids[MARKUP]}/runs/0/logs/{quote(LOG, safe='')}#L1")
    log = page.get_by_role("region", name="Log")
    expect(log).to_contain_text(MARKUP)
    expect(log).to_contain_text("red link")
    expect(log).to_contain_text("more characters")
    expect(log).to_contain_text("last line")
    shown = log.evaluate("(element) => element.textContent.length")
    assert shown < 20_000, "of a line without end the beginning is shown"
    page.get_by_label("Search in the log").fill("last line")
    expect(page.get_by_text("0 of 1")).to_be_visible()
    _is_harmless(page, deployment, watch)


def test_a_name_turns_no_sentence_around(scene: Scene, open_page: OpenPage) -> None:
    """Its characters that would are shown by their numbers, wherever the name is."""
    name = f"{TURNS}gnp.exe"
    scene.create(name)
    scene.claim(name)
    scene.fail(name)
    page = open_page(f"/tasks/groups/{scene.group}")
    shown = "[U+202E]gnp.exe"
    expect(page.get_by_label("What is wrong")).to_contain_text(f"1 task failed: {shown}.")
    expect(page.get_by_label(f"Select {shown}")).to_be_visible()
    page.get_by_role("table").get_by_role("link", name=shown).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(shown)
    expect(page).to_have_title(f"failed · {shown}")
    assert TURNS not in page.get_by_role("main").inner_text()


@pytest.mark.parametrize(
    "path",
    [
        "/tasks/<img src=x onerror=window.ran=1>",
        "/tasks/%E0%A4%A",
        "/provisioners/%3Cimg%20src=x%20onerror=window.ran=1%3E/worker-types/%2e%2e%2f",
        "/auth/clients/%3Cscript%3Ewindow.ran=1%3C%2Fscript%3E",
        "/login?then=javascript:window.ran=1",
        "/provisioners?name=<script>window.ran=1</script>&sort=__proto__",
        "/tasks/groups/AAAAAAAAQAaAAAAAAAAAAA?sort=constructor#%E0%A4%A",
    ],
)
def test_an_address(path: str, deployment: Deployment, open_page: OpenPage, watch: Watch) -> None:
    page = open_page(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    _is_harmless(page, deployment, watch)
