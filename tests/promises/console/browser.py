"""A browser on this machine, and pages of it that notice what must never happen on any page of the console."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Playwright,
    Request,
    ViewportSize,
    WebError,
)

from tests.promises.clients.deployment import Credentials

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The same engine in all of them; the first has no windows to keep, and takes three quarters of the CPU."""
SESSION_KEY = "taskcluster-queue.session"
WAIT_MILLISECONDS = 30_000
"""How long a page has until what a test expects is there: long, as other suites may have the machine meanwhile."""
BASELINE = "--js-flags=--no-maglev,--no-turbofan"
"""Without the compilers of V8 that pay off when a page has run for long: they take a seventh of a small page's CPU."""
VIEWPORT: ViewportSize = {"width": 1280, "height": 720}
"""Of pages whose test names none."""
SHARED_OPTIONS = frozenset(("viewport", "color_scheme", "permissions"))
"""Options of a context that a page can be given, and rid of, later."""

_WATCH = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
_LEAVES = 'addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), true);'
"""No browser asks before a test leaves what another one has not saved: what the console asks itself is its own."""
_STORE = """
(stored) => {
  localStorage.clear();
  sessionStorage.clear();
  window.name = "";
  for (const { name, value } of stored) localStorage.setItem(name, value);
}
"""
_STILL = """
() => {
  globalThis.fetch = () => new Promise(() => {});
  for (let timer = setTimeout(() => {}); timer > 0; timer -= 1) clearTimeout(timer);
}
"""
_ANSWER = """
(path, body, status) => {
  const asked = globalThis.fetch;
  globalThis.fetch = async (url, options) =>
    new URL(url).pathname.endsWith(path) ? new Response(body, { status }) : asked(url, options);
}
"""
_REFUSED_REQUEST = "Failed to load resource"
"""How Chromium's console begins to tell of an answer of 400 and above. Tests look at what the page says of it."""


def program() -> str:
    """Returns the path of a Chromium. Skips the test if there is none, or fails it where CI is set."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is not None:
        return found
    message = f"the console is tested in a browser, and none of {', '.join(PROGRAMS)} is installed"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def launched(playwright: Playwright, *flags: str) -> Iterator[Browser]:
    """Chromium without a window. Its sandbox does not work for root, as which containers run tests."""
    arguments = ["--no-sandbox", "--process-per-site", *flags]
    browser = playwright.chromium.launch(executable_path=program(), args=arguments)
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Watch:
    """What went wrong on the pages of a context, and every request that they made, if the test looks at them."""

    problems: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    with_requests: bool = False
    """A page makes some sixty, and to hear of each costs a seventh of its CPU."""

    def follow(self, context: BrowserContext) -> None:
        """Watches the pages of a context. They tell of what their policy forbids: `watched`."""
        context.on("console", self._message)
        context.on("weberror", self._uncaught)
        context.on("dialog", self._dialog)
        if self.with_requests:
            context.on("request", self._request)

    def leave(self, context: BrowserContext) -> None:
        """Stops watching the pages of a context."""
        context.remove_listener("console", self._message)
        context.remove_listener("weberror", self._uncaught)
        context.remove_listener("dialog", self._dialog)
        if self.with_requests:
            context.remove_listener("request", self._request)

    def sent(self, secret: str) -> list[str]:
        """Returns the requests in which a secret can be seen: in the address, a header or the body."""
        return [
            f"{request.method} {request.url}"
            for request in self.requests
            if secret in request.url
            or any(secret in value for value in request.headers.values())
            or secret.encode() in (request.post_data_buffer or b"")
        ]

    def _request(self, request: Request) -> None:
        self.requests.append(request)

    def _uncaught(self, error: WebError) -> None:
        self.problems.append(f"uncaught: {error.error}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _message(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_REFUSED_REQUEST):
            self.problems.append(f"{message.text} (at {message.page.url if message.page else 'no page'})")


def watched(context: BrowserContext) -> BrowserContext:
    """Returns the context, whose pages say on their consoles what their policy has forbidden."""
    context.add_init_script(_WATCH)
    context.set_default_timeout(WAIT_MILLISECONDS)
    return context


class Shared:
    """A page of one deployment that tests use one after the other, each from the beginning.

    A new page takes twice the CPU: a new process, which requests and compiles all modules of the console anew. An empty
    document between two tests would take a third of what a small page does: the page of a test stays, and does nothing.
    """

    def __init__(self, browser: Browser, root_url: str) -> None:
        self.context = watched(browser.new_context(base_url=root_url))
        self.context.add_init_script(_LEAVES)
        self._root_url = root_url
        self.page = self.context.new_page()

    def begin(self, options: Mapping[str, Any]) -> Page:
        """Returns the page as a context with these options would have it: `SHARED_OPTIONS`."""
        if "viewport" in options:
            self.page.set_viewport_size(options["viewport"])
        if "color_scheme" in options:
            self.page.emulate_media(color_scheme=options["color_scheme"])
        if "permissions" in options:
            self.context.grant_permissions(options["permissions"])
        return self.page

    def open(self, path: str | None, credentials: Credentials | None) -> None:
        """The address, or one that runs nothing. Nothing is stored but that somebody has signed in, if anybody has."""
        stored = [] if credentials is None else storage_of(self._root_url, credentials)["origins"][0]["localStorage"]
        if path is None or "#" in path:  # to another fragment of the same address no browser loads a page anew
            self._rest()
            self.page.evaluate(_STORE, stored)
            if path is not None:
                self.page.goto(path)
            return
        with self.page.add_init_script(f"({_STORE})({json.dumps(stored)})"):
            self.page.goto(path)

    def end(self) -> None:
        """Closes what else was opened, and ends what the page does."""
        for page in self.context.pages:
            if page is not self.page:
                page.close()
        if self.page.is_closed():
            self.page = self.context.new_page()
        try:
            self.page.evaluate(_STILL)
        except Error:  # it is on its way to another document
            self._rest()
        self.page.unroute_all()
        self.page.set_viewport_size(VIEWPORT)
        self.page.emulate_media(color_scheme="light")
        self.page.mouse.move(0, 0)
        self.context.clear_cookies()
        self.context.clear_permissions()

    def _rest(self) -> None:
        """Goes to an address of the origin that runs nothing, and reaches what the origin stores."""
        self.page.goto(f"{self._root_url}/api/queue/v1/ping")


def answered(path: str, body: object, status: int = 200) -> str:
    """Returns a script by which a page's requests to addresses that end with this path get this answer.

    As by a route of Playwright's, while which a browser reads each module of a page past its caches: that page takes
    three times the CPU.
    """
    return f"({_ANSWER})(...{json.dumps([path, json.dumps(body), status])});\n"


def storage_of(root_url: str, credentials: Credentials) -> dict[str, Any]:
    """Returns the storage of a browser in which somebody has signed in."""
    session = {**credentials, "until": round((time.time() + 3600) * 1000)}
    stored = [{"name": SESSION_KEY, "value": json.dumps(session)}]
    return {"cookies": [], "origins": [{"origin": root_url, "localStorage": stored}]}
