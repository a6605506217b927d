"""Signing in as docs/console.md sets it up for Entra ID: settings, commands, and the pages that people then have."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.parts.local.stacks import free_ports
from tests.promises.admin.command_line import run_command
from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import SESSION_KEY
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import LOG, WORKER_GROUP, Scene, lines
from tests.promises.console.test_openid import sign_in
from tests.promises.host.conftest import QUICK
from tests.promises.host.issuer import running_issuer
from tests.promises.infra.templates import settings_of
from tools.local import state
from tools.local.stack import Stack, StackOptions
from tools.local.state import ROOT
from tools.local.templates import scenarios

DOCUMENT = ROOT / "docs" / "console.md"
LACKS = re.compile("lack a scope|Sign in")
VIEWED = (
    "/",
    "/tasks/groups/{group}",
    "/tasks/groups/{group}?view=before",
    "/tasks/{failed}",
    "/tasks/{pending}",
    "/tasks/{failed}/runs/0/logs/{log}",
    "/provisioners",
    "/provisioners/{queue}",
    "/provisioners/{queue}/pending-tasks",
    "/provisioners/{queue}/claimed-tasks",
    "/provisioners/{queue}/workers/{worker}",
    "/tasks/index",
    "/auth/clients",
    "/auth/roles",
    "/auth/roles/login%3Aadmins",
    "/profile",
)
"""What everybody who works here looks at."""


def _shell(heading: str) -> list[list[str]]:
    """The commands of the document's section, each as its words."""
    section = DOCUMENT.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [
        shlex.split(line)
        for block in blocks
        for line in re.sub(r"(\\|(\|))\n", r"\2 ", block).splitlines()
        if line.strip()
    ]


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    return _shell("Microsoft Entra ID")


@pytest.fixture(scope="module")
def deployed(commands: list[list[str]]) -> Iterator[Deployment]:
    """A stack with the settings that the templates make of the documented commands, and a provider of this machine."""
    described = {words[3]: words[4] for words in commands if words[:3] == ["./dev", "deployment", "set"]}
    chosen = {"QUEUE_OPENID_CLIENT_ID": "console", "QUEUE_OPENID_ROLES": described["openidRoles"]}
    given = settings_of({**scenarios.BARE, **chosen})
    ports = free_ports()
    with running_issuer(free_ports().api, f"http://127.0.0.1:{ports.api}/login/callback") as issuer:
        openid = {name: value for name, value in given.items() if name.startswith("OPENID_")}
        options = StackOptions(ports, in_memory=True, app_settings={**QUICK, **openid, "OPENID_ISSUER": issuer})
        try:
            with Stack.start(options) as stack:
                environment = {**os.environ, **stack.environment}
                deployment = Deployment.of(stack)
                with deployment.auth() as auth:
                    for words in commands:
                        if "createRole" in words:
                            auth.createRole(words[-1], _piped(words[: words.index("|")], environment))
                yield deployment
        finally:
            shutil.rmtree(state.folder(ports.api), ignore_errors=True)


def _piped(words: list[str], environment: Mapping[str, str]) -> Any:
    """The JSON that a command prints."""
    if words[0] == "echo":
        return json.loads(words[1])
    code, printed, messages = run_command(words[2:], environment)
    assert code == 0, messages
    return json.loads(printed)


@pytest.fixture(scope="module")
def work(deployed: Deployment) -> Mapping[str, str]:
    """Something to look at; what addresses are filled with."""
    scene = Scene(deployed)
    scene.create("build", task_id=scene.group)
    scene.claim("build")
    scene.upload("build", LOG, lines())
    scene.fail("build")
    scene.create("test")
    return {
        "group": scene.group,
        "failed": scene.group,
        "pending": scene.ids["test"],
        "log": quote(LOG, safe=""),
        "queue": scene.task_queue.replace("/", "/worker-types/"),
        "worker": f"{WORKER_GROUP}/worker-1",
    }


Sessions = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def sessions() -> Sessions:
    """The credentials of those who have signed in, by user."""
    return {}


def _signed_in(user: str, deployed: Deployment, open_page: OpenPage, sessions: Sessions) -> Page:
    """The profile of somebody who signs in, or has done so in a test before."""
    if user in sessions:
        page = open_page(f"{deployed.root_url}/profile", sessions[user])
    else:
        page = open_page(f"{deployed.root_url}/login?then=/profile", None)
        sign_in(page, user, "entra")
    expect(page.get_by_role("banner").get_by_role("link", name=f"login/entra/object-{user}")).to_be_visible()
    sessions[user] = json.loads(page.evaluate("(key) => localStorage.getItem(key)", SESSION_KEY))
    return page


def _refusals(page: Page, work: Mapping[str, str], deployed: Deployment) -> list[str]:
    """The pages that lack a scope."""
    found = []
    for path in VIEWED:
        page.goto(deployed.root_url + path.format(**work))
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        page.wait_for_load_state("networkidle")
        alerts = page.get_by_role("alert").filter(has_text=LACKS).all_inner_texts()
        found += [f"{path}: {alert}" for alert in alerts]
    return found


@pytest.mark.parametrize(("user", "roles"), [("queue-admins", ["admins", "everybody"]), ("somebody", ["everybody"])])
def test_who_signs_in_has_a_profile_and_pages(
    user: str,
    roles: list[str],
    deployed: Deployment,
    work: Mapping[str, str],
    open_page: OpenPage,
    sessions: Sessions,
) -> None:
    page = _signed_in(user, deployed, open_page, sessions)
    main = page.get_by_role("main")
    for role in ("admins", "everybody"):
        expect(main.get_by_text(f"assume:login:{role}", exact=True)).to_have_count(1 if role in roles else 0)
    expect(main.get_by_role("alert")).to_have_count(0)
    if roles == ["everybody"]:  # administrators have these scopes as well
        assert _refusals(page, work, deployed) == []


def test_an_administrator_acts_and_others_do_not(
    deployed: Deployment, work: Mapping[str, str], open_page: OpenPage, sessions: Sessions
) -> None:
    def rerun(user: str) -> Page:
        page = _signed_in(user, deployed, open_page, sessions)
        page.goto(f"{deployed.root_url}/tasks/{work['failed']}")
        page.get_by_role("button", name="Rerun", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Rerun the task").click()
        return page

    expect(rerun("somebody").get_by_role("alert").first).to_contain_text("queue:rerun-task")
    expect(rerun("queue-admins").get_by_role("heading", level=1)).to_contain_text("pending")
