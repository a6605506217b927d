"""Signing in with a real OpenID Connect provider: code flow with PKCE, ID token, temporary credentials, a call."""

from __future__ import annotations

import base64
import hashlib
import http.cookiejar
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from typing import IO
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest
import taskcluster
from taskcluster.exceptions import TaskclusterAuthFailure

from tests.parts.local.stacks import free_ports
from tests.promises.host.conftest import start
from tests.promises.host.issuer import running_issuer
from tests.promises.host.service import Running, Service, refused
from tests.promises.host.wire import send

CALLBACK = "http://127.0.0.1/login/callback"
NONCE = "a nonce of this sign-in"
GROUP = "admins"


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Leaves redirects to the test."""


class Browser:
    """Keeps cookies, and follows redirects up to the callback."""

    def __init__(self) -> None:
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies, _Stay)

    def visit(self, url: str, form: dict[str, str] | None = None) -> tuple[str, bytes]:
        """Visits a URL, and returns where the visit ends and the content there."""
        body = None if form is None else urlencode(form).encode()
        while not url.startswith(CALLBACK):
            try:
                with self._opener.open(url, body) as answer:
                    return url, answer.read()
            except urllib.error.HTTPError as answer:
                if answer.code not in {302, 303}:
                    raise
                url, body = urljoin(url, answer.headers["Location"]), None
        return url, b""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with running_issuer(free_ports().api, CALLBACK) as address:
        yield address


@pytest.fixture(scope="module")
def signing_in(issuer: str) -> Iterator[Running]:
    yield from start(
        {
            "OPENID_ISSUER": issuer,
            "OPENID_CLIENT_ID": "console",
            "OPENID_NAME": "local",
            "OPENID_SCOPES": "openid groups",
            "OPENID_ROLES": f"{GROUP}=login:admins *=login:everybody",
        },
        hosts=1,
    )


def id_token(provider: dict[str, str], user: str) -> str:
    """Returns the ID token of a sign-in at the provider's pages, to which the console sends people."""
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    browser = Browser()
    metadata = json.loads(browser.visit(f"{provider['issuer']}/.well-known/openid-configuration")[1])
    query = {
        "client_id": provider["clientId"],
        "response_type": "code",
        "redirect_uri": CALLBACK,
        "scope": provider["scopes"],
        "nonce": NONCE,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    url, _ = browser.visit(f"{metadata['authorization_endpoint']}?{urlencode(query)}")
    url, _ = browser.visit(url, {"prompt": "login", "login": user, "password": "any"})
    url, _ = browser.visit(url, {"prompt": "consent"})
    redeemed = {
        "grant_type": "authorization_code",
        "code": parse_qs(urlsplit(url).query)["code"][0],
        "redirect_uri": CALLBACK,
        "client_id": provider["clientId"],
        "code_verifier": verifier,
    }
    token: str = json.loads(browser.visit(metadata["token_endpoint"], redeemed)[1])["id_token"]
    return token


def auth_of(running: Running, credentials: dict[str, str] | None = None) -> taskcluster.Auth:
    options = {"rootUrl": running.deployment.root_url, "maxRetries": 0}
    return taskcluster.Auth(options | ({} if credentials is None else {"credentials": credentials}))


def test_from_the_providers_page_to_a_call(signing_in: Running, issuer: str) -> None:
    service, auth = Service(signing_in), auth_of(signing_in)
    provider = auth._makeHttpRequest("GET", "sign-in", None)["provider"]
    assert provider == {"issuer": issuer, "clientId": "console", "scopes": "openid groups", "name": "local"}
    root = auth_of(signing_in, dict(signing_in.deployment.root))
    for role, scope in (("login:admins", "queue:list-task-groups"), ("login:everybody", "auth:current-scopes")):
        root.createRole(role, {"scopes": [scope], "description": ""})
    answers = {}
    for user in (GROUP, "somebody"):
        token = id_token(provider, user)
        credentials = auth._makeHttpRequest("POST", "sign-in", {"idToken": token, "nonce": NONCE})
        assert credentials["clientId"] == f"login/local/{user}"
        certificate = json.loads(credentials["certificate"])
        assert certificate["expiry"] - certificate["start"] == 3_600_000
        again = auth._makeHttpRequest("POST", "sign-in", {"idToken": token, "nonce": NONCE})
        assert again["clientId"] == credentials["clientId"], "the answer may have been lost"
        answers[user] = set(auth_of(signing_in, credentials).currentScopes()["scopes"])
        with pytest.raises(TaskclusterAuthFailure, match="another sign-in"):
            auth._makeHttpRequest("POST", "sign-in", {"idToken": token, "nonce": NONCE[::-1]})
        with pytest.raises(TaskclusterAuthFailure):
            auth_of(signing_in, {**credentials, "clientId": "login/local/other"}).currentScopes()
    assert answers[GROUP] - answers["somebody"] >= {"assume:login:admins", "queue:list-task-groups"}
    assert "assume:login:everybody" in answers["somebody"]
    policy = send(service, "GET", "/", signed=False).headers["content-security-policy"]
    assert issuer in policy.partition("connect-src ")[2].partition(";")[0].split()


def test_without_a_provider(service: Service) -> None:
    auth = taskcluster.Auth({"rootUrl": service.running.deployment.root_url, "maxRetries": 0})
    assert auth._makeHttpRequest("GET", "sign-in", None) == {}
    with refused(404, "ResourceNotFound"):
        auth._makeHttpRequest("POST", "sign-in", {"idToken": "a.b.c", "nonce": NONCE})
