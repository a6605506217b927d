"""A stack and a browser for the tests of the console, and pages that fail their test when they did what none may."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.parts.local.stacks import free_ports
from tests.promises.admin.command_line import run_command
from tests.promises.clients.deployment import Credentials, Deployment
from tests.promises.console.browser import (
    BASELINE,
    SHARED_OPTIONS,
    WAIT_MILLISECONDS,
    Shared,
    Watch,
    launched,
    program,
    storage_of,
    watched,
)
from tests.promises.console.scene import LOG, Scene, lines
from tests.promises.host.conftest import QUICK
from tests.promises.host.issuer import running_issuer
from tests.promises.infra.templates import settings_of
from tools.local import state
from tools.local.ports import Ports
from tools.local.stack import Stack, StackOptions
from tools.local.templates import scenarios


@pytest.fixture(scope="package")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Yields a browser. Ends with this folder's tests: Playwright's loop would stop later asynchronous tests."""
    has_large = any(item.get_closest_marker("large") for item in request.session.items)  # whose figures are kept
    program()
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with sync_playwright() as playwright, launched(playwright, *([] if has_large else [BASELINE])) as running:
        yield running


@pytest.fixture(scope="package")
def ports(browser: Browser) -> Ports:
    """Returns the deployment's ports, if there is a browser."""
    return free_ports()


@pytest.fixture(scope="package")
def issuer(ports: Ports) -> Iterator[str]:
    """Yields the provider with which people sign in to the deployment."""
    with running_issuer(free_ports().api, f"http://127.0.0.1:{ports.api}/login/callback") as address:
        yield address


@cache
def _setup() -> list[list[str]]:
    """Returns the commands by which docs/console.md sets up Entra ID, each as its words."""
    section = (state.ROOT / "docs" / "console.md").read_text().split("\n## Microsoft Entra ID\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [line for block in blocks for line in re.sub(r"(\\|(\|))\n", r"\2 ", block).splitlines()]
    return [shlex.split(line) for line in lines if line.strip()]


@pytest.fixture(scope="package")
def deployment(ports: Ports, issuer: str) -> Iterator[Deployment]:
    """Yields a running deployment, started only if there is a browser. Tests use task queues of their own in it.

    People sign in as the documented commands have it, with a provider of this machine.
    """
    described = {words[3]: words[4] for words in _setup() if words[:3] == ["./dev", "deployment", "set"]}
    chosen = {"QUEUE_OPENID_CLIENT_ID": "console", "QUEUE_OPENID_ROLES": described["openidRoles"]}
    given = settings_of({**scenarios.BARE, **chosen})
    openid = {name: value for name, value in given.items() if name.startswith("OPENID_")}
    options = StackOptions(ports, in_memory=True, app_settings={**QUICK, **openid, "OPENID_ISSUER": issuer})
    try:
        with Stack.start(options) as stack:
            yield Deployment.of(stack)
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


@pytest.fixture(scope="package")
def roles(deployment: Deployment) -> None:
    """The documented roles, which the deployment's settings name."""
    environment = {**os.environ, "TASKCLUSTER_ROOT_URL": deployment.root_url}
    with deployment.auth() as auth:
        for words in (words for words in _setup() if "createRole" in words):
            given = words[: words.index("|")]
            code, printed, said = (0, given[1], "") if given[0] == "echo" else run_command(given[2:], environment)
            assert code == 0, said
            auth.createRole(words[-1], json.loads(printed))


@pytest.fixture
def watching() -> Iterator[Watch]:
    """Watches the pages of the test, which fails if they did anything wrong."""
    watching = Watch()
    yield watching
    assert watching.problems == []


@pytest.fixture
def watch(watching: Watch) -> Watch:
    """Watches the pages as `watching` does, with their requests."""
    watching.with_requests = True
    return watching


OpenPage = Callable[..., Page]
Sharing = Callable[[str, int], Shared]


@pytest.fixture(scope="package")
def shared(browser: Browser) -> Sharing:
    """Returns the browsers of the first, the second … page that each test opens of a deployment."""
    return cache(lambda root_url, number: Shared(browser, root_url))


@pytest.fixture
def open_page(browser: Browser, deployment: Deployment, shared: Sharing, watching: Watch) -> Iterator[OpenPage]:
    """Opens a page in a browser of its own, by default one in which root has signed in.

    Without a path it stays where nothing of the console runs, for what has to be there before. `script` runs in each
    document before all others. `own_clock` is for tests that install a clock, which stays in a context to its end.
    """
    used: Counter[str] = Counter()
    """Pages of this test by deployment."""
    ends = ExitStack()

    def new(
        path: str | None,
        credentials: Credentials | None = deployment.root,
        *,
        script: str = "",
        own_clock: bool = False,
        **options: Any,
    ) -> Page:
        if own_clock or not options.keys() <= SHARED_OPTIONS:
            if credentials is not None:
                options["storage_state"] = storage_of(deployment.root_url, credentials)
            context = watched(browser.new_context(base_url=deployment.root_url, **options))
            ends.callback(context.close)
            watching.follow(context)
            page = context.new_page()
            if script:
                page.add_init_script(script)
            if path is not None:
                page.goto(path)
            return page
        parts = urlsplit(urljoin(deployment.root_url, path or ""))
        root_url = f"{parts.scheme}://{parts.netloc}"
        one = shared(root_url, used[root_url])
        used[root_url] += 1
        watching.follow(one.context)
        ends.callback(watching.leave, one.context)
        ends.callback(one.end)
        page = one.begin(options)
        if script:
            ends.enter_context(page.add_init_script(script))
        one.open(path, credentials)
        return page

    with ends:
        yield new


@pytest.fixture
def scene(deployment: Deployment) -> Scene:
    """Returns a group of the test's own, without tasks."""
    return Scene(deployment)


@pytest.fixture(scope="package")
def settled(deployment: Deployment) -> Scene:
    """Returns a group in which there is something of everything, for tests that only look."""
    scene = Scene(deployment, source="https://example.com/settled")
    scene.create("decision", task_id=scene.group)
    for number in (1, 2):
        scene.create(f"build-{number}", ["decision"], tags={"kind": "build"})
        scene.create(f"test-{number}", [f"build-{number}"], tags={"kind": "test"}, priority="high")
    scene.create("package", ["test-1", "test-2"])
    scene.create("windows", ["decision"], taskQueueId=scene.task_queue.replace("linux", "windows"))
    scene.run("decision")
    scene.claim("build-1", "build-2")
    scene.upload("build-1", "public/build.zip", b"PK" + bytes(3000), "application/zip")
    scene.upload("build-2", LOG, lines())
    scene.complete("build-1")
    scene.fail("build-2")
    scene.claim("test-1", worker="worker-2")
    return scene
