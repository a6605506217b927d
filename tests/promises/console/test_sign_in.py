"""Signing in and out, and the page with which `taskcluster signin` gets credentials for a command line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Credentials, Deployment, temporary
from tests.promises.console.browser import SESSION_KEY, Watch, answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.test_pages import PHONE, WIDE, faults_of, keep
from tools.local import ui


def _is(page: Page, client_id: str) -> None:
    """The console says who one is."""
    expect(page.get_by_role("banner").get_by_role("link", name=client_id, exact=True)).to_be_visible()


def _is_nobody(page: Page) -> None:
    expect(page.get_by_role("banner").get_by_role("link", name="Sign in", exact=True)).to_be_visible()
    _is_not_stored(page)


def _is_not_stored(page: Page) -> None:
    assert page.evaluate("(key) => localStorage.getItem(key)", SESSION_KEY) is None


def _give(page: Page, client: Credentials) -> None:
    """Signs in by hand."""
    page.get_by_label("Client id").fill(client["clientId"])
    page.get_by_label("Access token").fill(client["accessToken"])
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_credentials_are_given_by_hand_and_forgotten(deployment: Deployment, open_page: OpenPage, watch: Watch) -> None:
    client = deployment.new_client("queue:get-task:*", "auth:current-scopes")
    page = open_page("/provisioners", None)
    page.get_by_role("banner").get_by_role("link", name="Sign in", exact=True).click()
    _give(page, client)
    _is(page, client["clientId"])
    expect(page).to_have_url(f"{deployment.root_url}/provisioners")
    page.get_by_role("link", name=client["clientId"]).click()
    expect(page.get_by_text("queue:get-task:*")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    _is_nobody(page)
    assert watch.sent(client["accessToken"]) == []


def test_temporary_credentials_are_given_by_hand(deployment: Deployment, open_page: OpenPage) -> None:
    given = temporary(deployment.root, "auth:current-scopes", "queue:get-task:*")
    page = open_page("/login", None)
    page.get_by_label("Client id").fill(given["clientId"])
    page.get_by_label("Access token").fill(given["accessToken"])
    page.get_by_label("Certificate").fill(given["certificate"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name=given["clientId"]).click()
    expect(page.get_by_text("queue:get-task:*")).to_be_visible()


@pytest.mark.parametrize("path", ["/profile", "/provisioners"])
def test_a_token_that_is_refused_does_not_look_signed_in(
    path: str, deployment: Deployment, open_page: OpenPage
) -> None:
    """The token is refused, as when the client was disabled or got another token since its user signed in."""
    page = open_page(path, {**deployment.root, "accessToken": "x" * 44})
    page.get_by_role("banner").get_by_role("link", name=f"{deployment.root['clientId']}: not accepted").click()
    expect(page.get_by_role("heading", name="Who you are")).to_have_count(0)
    expect(page.get_by_role("alert")).to_contain_text("are not accepted. Sign in again.")
    _give(page, deployment.root)
    _is(page, deployment.root["clientId"])


def test_a_wrong_token_signs_nobody_in(deployment: Deployment, open_page: OpenPage) -> None:
    page = open_page("/login", None)
    _give(page, {**deployment.root, "accessToken": "x" * 44})
    expect(page.get_by_role("alert")).to_contain_text("These credentials are not accepted. The service says: Bad mac")
    _is_nobody(page)
    client = deployment.new_client()  # may do nothing, which is another matter
    _give(page, client)
    _is(page, client["clientId"])


def test_expired_credentials_are_refused_at_once(deployment: Deployment, open_page: OpenPage) -> None:
    given = temporary(deployment.root, "queue:get-task:*", start=timedelta(hours=-2), expiry=timedelta(hours=-1))
    page = open_page("/login", None)
    page.get_by_label("Client id").fill(given["clientId"])
    page.get_by_label("Access token").fill(given["accessToken"])
    page.get_by_label("Certificate").fill(given["certificate"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("These credentials have expired.")
    _is_nobody(page)


@pytest.mark.parametrize("signed_in", [False, True])
def test_a_link_signs_nobody_in(signed_in: bool, deployment: Deployment, open_page: OpenPage) -> None:
    """An address is anybody's: what is in it is not what its reader wants."""
    other = deployment.new_client("queue:get-task:*")
    given = quote(json.dumps(dict(other)))
    page = open_page("/provisioners", deployment.root if signed_in else None)
    for link in (f"/tasks/create#credentials={given}", f"/login#credentials={given}", f"/login?credentials={given}"):
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert other["accessToken"] not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    _is(page, deployment.root["clientId"]) if signed_in else _is_nobody(page)


def _handed_over(deployment: Deployment) -> str:
    """Returns the address that `./dev ui` prints."""
    environment = {
        "TASKCLUSTER_ROOT_URL": deployment.root_url,
        "TASKCLUSTER_CLIENT_ID": deployment.root["clientId"],
        "TASKCLUSTER_ACCESS_TOKEN": deployment.root["accessToken"],
    }
    return ui.address(urlsplit(deployment.root_url).port or 80, environment, datetime.now(UTC))


def test_the_local_stack_signs_in_once_after_a_question(
    deployment: Deployment, open_page: OpenPage, watch: Watch
) -> None:
    address = _handed_over(deployment)
    page = open_page(address, None)
    assert page.url == f"{deployment.root_url}/local/sign-in"
    expect(page.get_by_role("heading")).to_have_text("Sign in to the console of the local stack?")
    _is_not_stored(page)
    page.get_by_role("button", name="Sign in").click()
    _is(page, ui.CLIENT_ID)
    assert page.url == f"{deployment.root_url}/"
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.go_back()
    assert "#" not in page.url
    again = open_page(address, None)
    again.get_by_role("button", name="Sign in").click()
    expect(again.get_by_role("alert")).to_contain_text("This link has been used, or is older than a minute.")
    _is_not_stored(again)
    code = address.partition("#")[2]
    assert {line.partition(" ")[0] for line in watch.sent(code)} == {"POST"}, "it is in no address that is sent"


def test_who_says_no_to_the_local_stack_stays_who_they_are(deployment: Deployment, open_page: OpenPage) -> None:
    address = _handed_over(deployment)
    page = open_page(address)
    expect(page.get_by_text(f"This browser is signed in as {deployment.root['clientId']}. That ends.")).to_be_visible()
    page.get_by_role("button", name="No").click()
    _is(page, deployment.root["clientId"])


def test_signing_out_reaches_the_other_tabs(deployment: Deployment, open_page: OpenPage) -> None:
    page = open_page("/profile")
    other = page.context.new_page()
    other.goto("/provisioners")
    _is(other, deployment.root["clientId"])
    page.get_by_role("button", name="Sign out").click()
    _is_nobody(other)


COMMAND_LINE = "http://localhost:17071"


def _listening(page: Page) -> list[dict[str, list[str]]]:
    """Answers in place of a `taskcluster signin` that listens; returns the list of queries that come."""
    got: list[dict[str, list[str]]] = []

    def answer(route: Route) -> None:
        got.append(parse_qs(urlsplit(route.request.url).query))
        route.fulfill(body="You may close this tab.")

    page.route(f"{COMMAND_LINE}/**", answer)
    return got


def _asked(callback: str, *scopes: str) -> str:
    """Returns the address that `taskcluster signin` opens."""
    query = [("scope", scope) for scope in scopes]
    query += [("name", "my-laptop-x1"), ("expires", "1d"), ("callback_url", callback), ("description", "a laptop")]
    return f"/auth/clients/create?{urlencode(query)}"


@pytest.fixture
def person(deployment: Deployment) -> Credentials:
    """Returns somebody who may make clients below a name of their own."""
    return deployment.new_client("queue:get-task:*", "auth:current-scopes", "auth:create-client:test/*")


def test_a_command_line_gets_a_client_of_its_own(
    deployment: Deployment, person: Credentials, open_page: OpenPage, watch: Watch
) -> None:
    page = open_page(_asked(COMMAND_LINE, "queue:get-task:*", "queue:cancel-task:*"), person)
    answers = _listening(page)
    client_id = f"{person['clientId']}/my-laptop-x1"
    expect(page.get_by_label("Client id")).to_have_value(client_id)
    expect(page.get_by_label("Scopes")).to_have_value("queue:get-task:*")  # what the person lacks is left out
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("You may close this tab.")).to_be_visible()
    [got] = answers
    made = {"clientId": got["clientId"][0], "accessToken": got["accessToken"][0]}
    assert made["clientId"] == client_id
    definition = deployment.python("client", client_id, credentials=deployment.root).body
    assert definition["scopes"] == ["queue:get-task:*"]
    assert definition["description"] == "a laptop"
    assert definition["deleteOnExpiration"] is True
    task_id = new_slugid()
    assert deployment.python("task", task_id, service="Queue", credentials=made).status == 404  # neither 401 nor 403
    assert watch.sent(person["accessToken"]) == []
    assert all(address.startswith(f"GET {COMMAND_LINE}") for address in watch.sent(made["accessToken"]))


def test_the_root_client_is_offered_an_id_that_it_may_create(deployment: Deployment, open_page: OpenPage) -> None:
    """Ids that begin with static/ are those of the settings."""
    page = open_page(_asked(COMMAND_LINE, "*"), deployment.root)
    answers = _listening(page)
    client_id = f"{deployment.root['clientId'].removeprefix('static/')}/my-laptop-x1"
    expect(page.get_by_label("Client id")).to_have_value(client_id)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("You may close this tab.")).to_be_visible()
    assert [got["clientId"] for got in answers] == [[client_id]]
    deployment.python("deleteClient", client_id, credentials=deployment.root)


ELSEWHERE = """
https://evil.example/ http://localhost.evil.example:1234/ http://localhost@evil.example/
http://localhost:1234@evil.example/ //evil.example/ javascript:alert(1)//localhost
"""


@pytest.mark.parametrize("callback", ELSEWHERE.split())
def test_no_credentials_go_to_another_machine(
    callback: str, deployment: Deployment, person: Credentials, open_page: OpenPage
) -> None:
    page = open_page(_asked(callback, "queue:get-task:*"), person)
    expect(page.get_by_role("alert")).to_contain_text("Only addresses of this machine (localhost) are allowed")
    expect(page.get_by_role("button", name="Create")).to_have_count(0)
    made = deployment.python("client", f"{person['clientId']}/my-laptop-x1", credentials=deployment.root)
    assert made.status == 404


def test_who_must_sign_in_first_comes_back(person: Credentials, open_page: OpenPage) -> None:
    page = open_page(_asked(COMMAND_LINE, "queue:get-task:*"), None)
    _listening(page)
    page.get_by_role("main").get_by_role("link", name="Sign in", exact=True).click()
    _give(page, person)
    expect(page.get_by_label("Client id")).to_have_value(f"{person['clientId']}/my-laptop-x1")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("You may close this tab.")).to_be_visible()


def test_sign_in_leads_to_no_other_site(deployment: Deployment, person: Credentials, open_page: OpenPage) -> None:
    page = open_page(f"/login?then={quote('//evil.example/')}", None)
    _give(page, person)
    _is(page, person["clientId"])
    expect(page).to_have_url(f"{deployment.root_url}/")


@pytest.mark.parametrize("path", ["/", "/provisioners", "/auth/clients", "/tasks/{task}"])
def test_a_first_visit_is_told_what_this_is_and_how_to_sign_in(
    path: str, deployment: Deployment, open_page: OpenPage, watch: Watch
) -> None:
    """If the role `anonymous` allows nothing of a page, one answer takes its place, and it sends no more requests."""
    wanted = path.format(task=new_slugid())
    page = open_page(wanted, credentials=None)
    main = page.get_by_role("main")
    expect(main.get_by_role("heading", name="Taskcluster Queue")).to_be_visible()
    expect(main).to_contain_text("You have not signed in, and this page is not public.")
    expect(main.get_by_role("alert")).to_have_count(0)
    expect(main.get_by_role("button", name="Sign in with entra")).to_be_visible()
    main.get_by_text("What the service said").click()
    expect(main).to_contain_text(re.compile(r"it needs (queue|index|auth):[a-z-]+"))
    asked = [request.url for request in watch.requests if "/api/" in request.url]
    assert len(asked) <= 4, asked
    _give(page, deployment.root)
    _is(page, deployment.root["clientId"])
    expect(page).to_have_url(f"{deployment.root_url}{wanted}")
    expect(main.get_by_text("this page is not public")).to_have_count(0)


def test_a_page_that_is_public_in_part_says_in_words_what_is_not(open_page: OpenPage) -> None:
    page = open_page("/login", credentials=None)
    page.evaluate(answered("/api/queue/v1/health", {"healthy": True, "findings": []}))
    page.get_by_role("link", name="Home").click()
    said = page.get_by_role("alert")
    expect(said).to_contain_text(re.compile(r"it needs queue:list-task-groups\.\s*This needs"))
    expect(said.get_by_role("link", name="Sign in")).to_be_visible()
    expect(page.get_by_text("The service is well")).to_be_visible()


def test_each_page_is_tried_and_what_exists_is_not_hidden(open_page: OpenPage) -> None:
    page = open_page("/", credentials=None)
    welcome = page.get_by_text("this page is not public")
    expect(welcome).to_be_visible()
    page.evaluate(answered("/api/queue/v1/task-queue-states", {"taskQueues": []}))
    page.get_by_role("link", name="Task queues").click()
    expect(page.get_by_role("heading", name="Task queues")).to_be_visible()
    expect(welcome).to_have_count(0)
    page.get_by_role("link", name="Clients").click()
    expect(welcome).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_visit_is_usable_by_everybody(theme: str, open_page: OpenPage) -> None:
    page = open_page("/", credentials=None, viewport=WIDE, color_scheme=theme)
    expect(page.get_by_role("button", name="Sign in with entra")).to_be_visible()
    keep(page, f"welcome-{theme}")
    assert faults_of(page) == []
    page.set_viewport_size(PHONE)
    keep(page, f"welcome-{theme}-phone")
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
