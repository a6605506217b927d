"""From the console's button to a provider's pages and back, signed in; and each way to be refused."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
import taskcluster
from playwright.sync_api import Page, Route, expect

from tests.parts.local.stacks import free_ports
from tests.promises.clients.deployment import Deployment
from tests.promises.console.browser import SESSION_KEY, Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.host.issuer import running_issuer

pytestmark = pytest.mark.usefixtures("roles")

GROUP = "queue-admins"
ME = f"login/entra/object-{GROUP}"


@pytest.fixture
def impostor(deployment: Deployment) -> Iterator[str]:
    """Yields a provider that the deployment does not know."""
    with running_issuer(free_ports().api, f"{deployment.root_url}/login/callback") as address:
        yield address


@pytest.fixture
def late(deployment: Deployment, issuer: str) -> Iterator[str]:
    """Yields the provider two hours ago: what it issues has expired."""
    with running_issuer(
        free_ports().api, f"{deployment.root_url}/login/callback", name=issuer, hours_late=2
    ) as address:
        yield address


def sign_in(page: Page, user: str) -> None:
    """Signs in: from the console's page through those of the provider."""
    page.get_by_role("button", name="Sign in with entra").click()
    page.locator("input[name=login]").fill(user)
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.get_by_role("button", name="Continue").click()


def refused(page: Page, reason: str) -> None:
    """The page says so and keeps nothing."""
    expect(page.get_by_role("heading", name="Signing in failed")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(reason)
    assert page.evaluate("(key) => localStorage.getItem(key)", SESSION_KEY) is None
    assert page.evaluate("sessionStorage.length") == 0
    assert not {"?", "#"} & set(page.url), "the code stays in the history"


def redirected(page: Page, issuer: str, to: str = "", **changes: str) -> None:
    """Sends the browser to another provider, or to the same one with another question."""

    def ask(route: Route) -> None:
        parts = urlsplit(route.request.url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
        address = f"{to or issuer}{parts.path}?{urlencode(query)}"
        if to:
            route.fulfill(status=302, headers={"location": address})
        else:
            route.continue_(url=address)

    def redeem(route: Route) -> None:
        form = {name: values[0] for name, values in parse_qs(route.request.post_data or "").items()}
        changed = {name: value for name, value in changes.items() if name in form}
        url = route.request.url.replace(issuer, to or issuer)
        route.fulfill(response=route.fetch(url=url, post_data=urlencode(form | changed)))

    page.route(f"{issuer}/auth?**", ask)
    page.route(f"{issuer}/token", redeem)


def test_from_the_button_to_being_signed_in(deployment: Deployment, open_page: OpenPage, watch: Watch) -> None:
    page = open_page("/profile", None)
    page.get_by_role("banner").get_by_role("link", name="Sign in", exact=True).click()
    sign_in(page, GROUP)
    expect(page).to_have_url(f"{deployment.root_url}/profile")
    main = page.get_by_role("main")
    expect(page.get_by_role("banner").get_by_role("link", name=ME)).to_be_visible()
    for scope in ("assume:login:admins", "assume:login:everybody", "queue:*"):
        expect(main.get_by_text(scope, exact=True)).to_be_visible()
    session = json.loads(page.evaluate("(key) => localStorage.getItem(key)", SESSION_KEY))
    assert watch.sent(session["accessToken"]) == []
    assert page.evaluate("sessionStorage.length") == 0
    assert [request.url for request in watch.requests if "id_token" in request.url] == []
    asked = [urlsplit(each.url) for each in watch.requests if each.url.startswith(deployment.root_url)]
    assert asked
    assert [each.query for each in asked if "code" in parse_qs(each.query)] == [], "a host would look it up as a key"
    page.get_by_role("link", name="Home").first.click()
    expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)
    page.goto("/profile")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("banner").get_by_role("link", name="Sign in", exact=True)).to_be_visible()


_END = """
([key, milliseconds]) => {
  const session = JSON.parse(localStorage.getItem(key));
  localStorage.setItem(key, JSON.stringify({ ...session, until: Date.now() + milliseconds }));
  dispatchEvent(new StorageEvent("storage", { key }));
}
"""
_UNTIL = "(key) => JSON.parse(localStorage.getItem(key)).until"


def test_the_end_of_the_hour_takes_nothing_away(
    deployment: Deployment, issuer: str, open_page: OpenPage, watch: Watch
) -> None:
    """A sign-in is renewed while the tab is open; where it cannot be, the page and what was written on it stay."""
    auth, role = taskcluster.Auth(deployment.options(deployment.root)), f"project:{uuid.uuid4().hex}"
    auth.createRole(role, {"scopes": ["auth:a"], "description": ""})
    page = open_page(f"/login?then=/auth/roles/{quote(role, safe='')}", None)
    sign_in(page, GROUP)
    field = page.get_by_label("Scopes, one a line")
    field.fill("auth:an-edit-of-twenty-minutes")
    other = page.context.new_page()
    other.goto("/provisioners")
    me = page.get_by_role("banner").get_by_role("link", name=ME)
    first = page.evaluate(_UNTIL, SESSION_KEY)

    page.evaluate(_END, [SESSION_KEY, 60_000])
    page.wait_for_function(f"(key) => ({_UNTIL})(key) > Date.now() + 3_000_000", arg=SESSION_KEY)
    assert page.evaluate(_UNTIL, SESSION_KEY) > first
    expect(field).to_have_value("auth:an-edit-of-twenty-minutes")

    before = len(watch.requests)

    def refuse(route: Route) -> None:
        """Renewals alone, and until the end of this: one that succeeds meanwhile would take the layer away."""
        if "grant_type=refresh_token" in (route.request.post_data or ""):
            headers = {"access-control-allow-origin": "*"}
            route.fulfill(status=400, json={"error": "invalid_grant"}, headers=headers)
        else:
            route.continue_()

    page.context.route(f"{issuer}/token", refuse)
    page.evaluate(_END, [SESSION_KEY, 0])
    layer = page.get_by_role("dialog", name="Your sign-in has ended")
    for tab in (page, other):
        expect(tab.get_by_role("dialog", name="Your sign-in has ended")).to_be_visible()
        expect(tab.get_by_role("banner")).to_contain_text("sign-in ended")
    with page.expect_popup():  # the provider still knows who it is, and the window closes itself
        layer.get_by_role("button", name="Sign in with entra").click()
    expect(layer).to_have_count(0)
    expect(other.get_by_role("dialog")).to_have_count(0)
    expect(me).to_be_visible()
    expect(field).to_have_value("auth:an-edit-of-twenty-minutes")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Save the changes").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert auth.role(role)["scopes"] == ["auth:an-edit-of-twenty-minutes"]
    history = auth.getEntityHistory("role", role)["auditHistory"]
    assert {entry["clientId"] for entry in history if entry["actionType"] == "updated"} == {ME}
    asked = [request for request in watch.requests[before:] if "/api/" in request.url and "/sign-in" not in request.url]
    assert [request.url for request in asked if "authorization" not in request.headers] == [], "nobody acts as nobody"


def test_a_provider_that_gives_no_refresh_token_is_asked_in_a_hidden_frame(issuer: str, open_page: OpenPage) -> None:
    """The provider is asked for as long as its own session lasts; then a layer asks to sign in again."""
    page = open_page("/login?then=/provisioners", None)

    def without(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "refresh_token": None})

    page.context.route(f"{issuer}/token", without)
    sign_in(page, GROUP)
    expect(page.get_by_role("banner").get_by_role("link", name=ME)).to_be_visible()
    page.evaluate(_END, [SESSION_KEY, 60_000])
    page.wait_for_function(f"(key) => ({_UNTIL})(key) > Date.now() + 3_000_000", arg=SESSION_KEY)
    expect(page.locator("iframe")).to_have_count(0)
    page.context.clear_cookies()
    page.evaluate(_END, [SESSION_KEY, 60_000])
    page.wait_for_function("(key) => !JSON.parse(localStorage.getItem(key)).renewal", arg=SESSION_KEY)
    page.evaluate(_END, [SESSION_KEY, 0])
    expect(page.get_by_role("dialog", name="Your sign-in has ended")).to_be_visible()


@pytest.mark.large
@pytest.mark.parametrize(
    ("provider", "changes", "reason"),
    [
        ("issuer", {"client_id": "another"}, "Audience doesn't match"),
        ("issuer", {"nonce": "that of another sign-in"}, "the ID token belongs to another sign-in"),
        ("impostor", {}, "Invalid issuer"),
        ("late", {}, "Signature has expired"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in(
    provider: str,
    changes: dict[str, str],
    reason: str,
    issuer: str,
    request: pytest.FixtureRequest,
    open_page: OpenPage,
) -> None:
    page = open_page("/login", None)
    redirected(page, issuer, to=request.getfixturevalue(provider).replace(issuer, ""), **changes)
    sign_in(page, GROUP)
    refused(page, reason)


@pytest.mark.large
def test_a_provider_that_knows_no_fragments(deployment: Deployment, issuer: str, open_page: OpenPage) -> None:
    page = open_page("/login", None)

    def without(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "response_modes_supported": ["query"]})

    page.route(f"{issuer}/.well-known/**", without)
    sign_in(page, GROUP)
    expect(page).to_have_url(f"{deployment.root_url}/")


@pytest.mark.large
def test_a_person_who_turns_back(open_page: OpenPage) -> None:
    page = open_page("/login", None)
    page.get_by_role("button", name="Sign in with entra").click()
    page.get_by_role("link", name="Cancel").click()
    refused(page, "The provider refused: End-User aborted interaction")
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("button", name="Sign in with entra")).to_be_visible()


def test_an_answer_that_nobody_has_asked_for(open_page: OpenPage) -> None:
    page = open_page("/login/callback?code=stolen&state=made-up", None)
    refused(page, "No sign-in is under way in this tab.")


def test_an_answer_to_another_question(open_page: OpenPage) -> None:
    page = open_page("/login", None)
    page.get_by_role("button", name="Sign in with entra").click()
    expect(page.locator("input[name=login]")).to_be_visible()
    page.goto("/login/callback?code=stolen&state=made-up")
    refused(page, "This answer belongs to another sign-in.")


@pytest.mark.large
def test_a_provider_that_does_not_answer(issuer: str, open_page: OpenPage) -> None:
    page = open_page("/login", None)
    page.route(f"{issuer}/.well-known/**", lambda route: route.abort())
    page.get_by_role("button", name="Sign in with entra").click()
    expect(page.get_by_role("alert")).to_contain_text(f"The provider {issuer} cannot be reached")
