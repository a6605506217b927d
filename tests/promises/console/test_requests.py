"""How many requests a page makes in its first minute, when nobody opens anything on it: counted, printed and bounded.

Requests of the API and of the storage, not the console's own files, nor the further pages of lists, as other tests make
those longer. Figures of docs/console.md: `pytest -m large -rP tests/promises/console/test_requests.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Request, expect

from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, Scene

MINUTE = 60
GROUP = 200
MOST = {"group": 5, "failed": 14, "completed": 12, "pending": 25, "home": 20, "queue": 20, "queues": 10, "log": 5}
"""Requests in the first minute of a page by what it shows."""


def asks(request: Request) -> bool:
    url = urlsplit(request.url)
    return url.scheme.startswith("http") and "/console/" not in url.path and request.resource_type == "fetch"


@pytest.mark.large
def test_pages_that_are_looked_at_make_few_requests(settled: Scene, open_page: OpenPage, watch: Watch) -> None:
    large = settled.many("completed", GROUP)
    paths = {
        "group": f"/tasks/groups/{settled.group}",
        "failed": f"/tasks/{settled.ids['build-2']}",
        "completed": f"/tasks/{settled.ids['build-1']}",
        "pending": f"/tasks/{settled.ids['windows']}",
        "home": "/",
        "queue": f"/provisioners/{settled.task_queue.replace('/', '/worker-types/')}",
        "queues": "/provisioners",
        "log": f"/tasks/{settled.ids['build-2']}/runs/0/logs/{quote(LOG, safe='')}",
    }
    pages = {}
    for name, path in paths.items():
        page = pages[name] = open_page(None)
        page.route(f"**/task-group/{settled.group}/list", lambda route: route.fulfill(json=large))
        page.goto(path)
        page.evaluate("name => window.name = name", name)
    began = time.monotonic()
    for page in pages.values():
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    pages["group"].wait_for_timeout((MINUTE - (time.monotonic() - began)) * 1000)
    asked = {
        name: Counter(
            f"{request.method} {urlsplit(request.url).path}"
            for request in watch.requests
            if asks(request) and "continuationToken=" not in request.url and request.frame.page == page
            if request.timing["startTime"] < page.evaluate("performance.timeOrigin") + MINUTE * 1000
        )
        for name, page in pages.items()
    }
    for name, found in asked.items():
        print(name, found.total(), *found.items(), sep="\n  ")
    counts = {name: found.total() for name, found in asked.items()}
    assert {name: count for name, count in counts.items() if count > MOST[name]} == {}
