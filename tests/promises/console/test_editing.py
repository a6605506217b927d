"""Roles and clients are changed as they were read: what others have saved is shown before it is overwritten."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
import taskcluster
from playwright.sync_api import Page, expect

from tests.promises.clients.deployment import Deployment, format_time
from tests.promises.console.conftest import OpenPage, Sharing

SCOPES = "Scopes, one a line"


@pytest.fixture
def auth(deployment: Deployment) -> Any:
    return taskcluster.Auth(deployment.options(deployment.root))


@pytest.fixture
def role(auth: Any) -> str:
    """Returns a role that leads to another one."""
    name, other = f"project:{uuid.uuid4().hex}", f"other:{uuid.uuid4().hex}"
    auth.createRole(other, {"scopes": ["auth:b"], "description": ""})
    auth.createRole(name, {"scopes": ["auth:a", f"assume:{other}"], "description": "as it was"})
    return name


def _save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Save the changes").click()


def test_what_a_change_grants_and_takes_away_is_shown_before_it_is_saved(
    auth: Any, role: str, open_page: OpenPage
) -> None:
    page = open_page(f"/auth/roles/{quote(role, safe='')}")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    page.get_by_label(SCOPES).fill("auth:a\nqueue:*")
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog", name="Save the changes?")
    direct, followed = (dialog.get_by_role("list").nth(place) for place in (0, 1))
    expect(direct.get_by_role("listitem")).to_have_text(
        ["grants queue:*", re.compile("takes away assume:other:")], use_inner_text=True
    )
    expect(followed).to_contain_text("takes away auth:b", use_inner_text=True)  # of the role that it leads to no more
    dialog.get_by_role("button", name="Save the changes").click()
    expect(dialog).to_have_count(0)
    assert auth.role(role)["scopes"] == ["auth:a", "queue:*"]


def test_what_a_new_role_grants_is_shown_before_it_is_created(auth: Any, role: str, open_page: OpenPage) -> None:
    name = f"new:{uuid.uuid4().hex}"
    page = open_page("/auth/roles/create")
    page.get_by_label("Role id").fill(name)
    page.get_by_label(SCOPES).fill(f"assume:{role}")
    page.get_by_role("button", name="Create", exact=True).click()
    dialog = page.get_by_role("dialog", name="Create the role?")
    expect(dialog.get_by_role("list").last).to_contain_text("grants auth:b", use_inner_text=True)
    dialog.get_by_role("button", name="Create the role").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Role {name}")
    assert auth.role(name)["scopes"] == [f"assume:{role}"]


def test_the_later_of_two_is_shown_what_the_earlier_has_saved(auth: Any, role: str, open_page: OpenPage) -> None:
    page = open_page(f"/auth/roles/{quote(role, safe='')}")
    page.get_by_label(SCOPES).fill("auth:mine")
    auth.updateRole(role, {"scopes": ["auth:theirs"], "description": "theirs"})
    _save(page)
    notice = page.get_by_role("alert").filter(has_text="Somebody else has saved a change since you opened this page.")
    expect(notice).to_contain_text("The description becomes: theirs")
    expect(notice.get_by_text("auth:theirs")).to_be_visible()
    assert auth.role(role)["scopes"] == ["auth:theirs"]
    expect(page.get_by_label(SCOPES)).to_have_value("auth:mine")
    notice.get_by_role("button", name="Keep mine").click()
    _save(page)
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    assert auth.role(role)["scopes"] == ["auth:mine"]
    page.get_by_text("Who did what").click()
    row = page.get_by_role("table").get_by_role("row").nth(1)
    expect(row).to_contain_text("granted auth:mine; took auth:theirs; description")


def test_a_change_that_is_refused_says_so(auth: Any, role: str, deployment: Deployment, open_page: OpenPage) -> None:
    page = open_page(f"/auth/roles/{quote(role, safe='')}", deployment.new_client("auth:get-role:*", "auth:expand-*"))
    page.get_by_label(SCOPES).fill("auth:mine")
    _save(page)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(f"it needs auth:update-role:{role}")
    expect(page.get_by_label(SCOPES)).to_have_value("auth:mine")


TYPES_AT_ONCE = """() => new MutationObserver((_, observer) => {
  const field = document.querySelector("main .form textarea");
  if (!field) return;
  observer.disconnect();
  field.value = "typed at once";
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
}).observe(document.body, { childList: true, subtree: true })"""


def test_what_is_typed_as_soon_as_the_form_is_there_stays(role: str, open_page: OpenPage) -> None:
    page = open_page("/auth/roles")
    page.evaluate(TYPES_AT_ONCE)
    page.get_by_role("link", name=role).click()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_enabled()
    expect(page.get_by_label("Description")).to_have_value("typed at once")
    page.get_by_label("Description").fill("as it was")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()


def test_what_is_not_saved_is_not_left_without_a_question(role: str, open_page: OpenPage) -> None:
    page = open_page("/auth/roles")
    page.get_by_role("link", name=role).click()
    page.get_by_label("Description").fill("half of a sent")
    question = page.get_by_role("dialog", name="Leave without saving?")
    for leaves in (lambda: page.get_by_role("link", name="Task queues").click(), page.go_back):
        leaves()
        question.get_by_role("button", name="Stay").click()
        expect(page.get_by_label("Description")).to_have_value("half of a sent")
        expect(page).to_have_url(re.compile("/auth/roles/project"))
    page.go_back()
    question.get_by_role("button", name="Leave without saving").click()
    expect(page).to_have_url(re.compile("/auth/roles$"))
    expect(page.get_by_role("heading", name="Roles")).to_be_visible()


def test_an_edit_that_a_test_leaves_does_not_reach_the_next(
    role: str, open_page: OpenPage, shared: Sharing, deployment: Deployment
) -> None:
    page = open_page(f"/auth/roles/{quote(role, safe='')}")
    page.get_by_label("Description").press_sequentially("half")
    shared(deployment.root_url, 0).open("/provisioners", deployment.root)  # though nothing could be ended in it
    expect(page.get_by_role("heading", level=1)).to_have_text("Task queues")


def test_a_client_keeps_what_its_form_does_not_show(auth: Any, open_page: OpenPage) -> None:
    name = f"test/{uuid.uuid4().hex}"
    definition = {"expires": format_time(timedelta(days=1)), "description": "", "scopes": ["auth:a"]}
    made = auth.createClient(name, {**definition, "deleteOnExpiration": True})
    page = open_page(f"/auth/clients/{quote(name, safe='')}")
    page.get_by_label("Description").fill("of a test")
    _save(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    found = auth.client(name)
    assert (found["description"], found["deleteOnExpiration"], found["expires"]) == ("of a test", True, made["expires"])
