"""A browser on this machine, and pages of it that notice what must never happen on any page of the console."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Playwright, Request

from tests.clients.deployment import Credentials

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The same engine in all of them; the first has no windows to keep, and takes three quarters of the CPU."""
SESSION_KEY = "taskcluster-queue.session"
WAIT_MILLISECONDS = 30_000
"""How long a page has until what a test expects is there."""

_WATCH = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
_STORE = """
(stored) => {
  localStorage.clear();
  for (const { name, value } of stored) localStorage.setItem(name, value);
}
"""
_REFUSED_REQUEST = "Failed to load resource"
"""How Chromium's console begins to tell of an answer of 400 and above. Tests look at what the page says of it."""


def program() -> str:
    """The path of a Chromium. Skips the test if there is none, or fails it where CI is set."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is not None:
        return found
    message = f"the console is tested in a browser, and none of {', '.join(PROGRAMS)} is installed"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """Chromium without a window. Its sandbox does not work for root, as which containers run tests."""
    browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox", "--process-per-site"])
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Watch:
    """What went wrong on the pages of a context, and every request that they made."""

    problems: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        """Watch the pages that open in a context. Its pages tell of what their policy forbids: `watched`."""
        context.on("page", self._page)
        context.on("request", self._request)

    def leave(self, context: BrowserContext) -> None:
        """Watch it no longer."""
        context.remove_listener("page", self._page)
        context.remove_listener("request", self._request)

    def sent(self, secret: str) -> list[str]:
        """The requests in which a secret can be seen: in the address, a header or the body."""
        return [
            f"{request.method} {request.url}"
            for request in self.requests
            if secret in request.url
            or any(secret in value for value in request.headers.values())
            or secret.encode() in (request.post_data_buffer or b"")
        ]

    def _page(self, page: Page) -> None:
        page.on("console", self._message)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("dialog", self._dialog)

    def _request(self, request: Request) -> None:
        self.requests.append(request)

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _message(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_REFUSED_REQUEST):
            self.problems.append(f"{message.text} (at {message.page.url if message.page else 'no page'})")


def watched(context: BrowserContext) -> BrowserContext:
    """The context, whose pages say on their consoles what their policy has forbidden."""
    context.add_init_script(_WATCH)
    context.set_default_timeout(WAIT_MILLISECONDS)
    return context


class Shared:
    """A context that tests use one after the other, each from the beginning.

    A page in a context of its own takes twice the CPU: a new profile, a new process, and all modules compiled anew.
    """

    def __init__(self, browser: Browser, root_url: str) -> None:
        self.context = watched(browser.new_context(base_url=root_url))
        self._root_url = root_url
        self._first = self.context.new_page()
        self._first.goto("/api/queue/v1/ping")  # it keeps the process alive, and reaches what the origin stores

    def begin(self, credentials: Credentials | None) -> BrowserContext:
        """Nothing is stored but that somebody has signed in, if anybody has."""
        stored = [] if credentials is None else storage_of(self._root_url, credentials)["origins"][0]["localStorage"]
        self._first.evaluate(_STORE, stored)
        return self.context

    def end(self) -> None:
        """Closes what was opened."""
        for page in self.context.pages:
            if page is not self._first:
                page.close()
        self.context.clear_cookies()


def storage_of(root_url: str, credentials: Credentials) -> dict[str, Any]:
    """The storage of a browser in which somebody has signed in."""
    session = {**credentials, "until": round((time.time() + 3600) * 1000)}
    stored = [{"name": SESSION_KEY, "value": json.dumps(session)}]
    return {"cookies": [], "origins": [{"origin": root_url, "localStorage": stored}]}
