"""Credentials that were tampered with in any part: 401 or 403 as the contract says, never 200, never 500."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
import taskcluster
from taskcluster import utils

from shared.auth import certificates as issuing
from shared.auth.certificates import parse_certificate
from tests.clients.deployment import Credentials, Deployment, javascript, temporary

NAME = "test/temporary"


@dataclass(frozen=True)
class Sent:
    """A request as the PyPI client would send it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None

    def altered(self, was: str, becomes: str) -> dict[str, str]:
        """The headers with this text in the Authorization replaced."""
        header = self.headers["Authorization"]
        assert was in header
        return {**self.headers, "Authorization": header.replace(was, becomes, 1)}


def capture(call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What a client sends, without sending it."""
    sent: list[Sent] = []

    class Stopped(Exception):
        pass

    def keep(method: str, url: str, payload: str | None, headers: dict[str, Any], session: object = None) -> object:
        parts = urlsplit(url)
        texts = {name: value.decode() if isinstance(value, bytes) else value for name, value in headers.items()}
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        sent.append(Sent(method.upper(), target, texts, payload.encode() if payload else None))
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(utils, "makeSingleHttpRequest", keep)
        with pytest.raises(Stopped):
            call()
    return sent[0]


def flipped(text: str, position: int) -> str:
    """The text with another character at one place, that may stand there."""
    return text[:position] + ("A" if text[position] != "A" else "B") + text[position + 1 :]


@pytest.fixture
def client(deployment: Deployment) -> Credentials:
    """A client that may ask for its scopes, expand others, and issue credentials of a name."""
    return deployment.new_client("auth:current-scopes", "auth:expand-scopes", "auth:create-client:test/*", "a:*")


@pytest.fixture
def sent(deployment: Deployment, client: Credentials, monkeypatch: pytest.MonkeyPatch) -> Sent:
    """A good request with a body."""
    auth = taskcluster.Auth(deployment.options(client))
    request = capture(lambda: auth.expandScopes({"scopes": ["a:1"]}), monkeypatch)
    assert deployment.request(request.method, request.target, request.headers, request.body).status == 200
    return request


def test_any_character_of_any_attribute_counts(deployment: Deployment, sent: Sent) -> None:
    for name in ("mac", "id", "ts", "nonce", "hash", "ext"):
        found = re.search(rf'{name}="([^"]*)"', sent.headers["Authorization"])
        assert found, name
        value = found[1]
        for position in {0, len(value) // 2, len(value) - 1}:
            headers = sent.altered(f'{name}="{value}"', f'{name}="{flipped(value, position)}"')
            outcome = deployment.request(sent.method, sent.target, headers, sent.body)
            assert (outcome.status, outcome.code) == (401, "AuthenticationFailed"), (name, position)
        headers = sent.altered(f'{name}="{value}"', "")
        assert deployment.request(sent.method, sent.target, headers, sent.body).status == 401, name
        headers = sent.altered(f'{name}="{value}"', f'{name}="{value}", {name}="{value}"')
        assert deployment.request(sent.method, sent.target, headers, sent.body).status == 401, name


def test_changed_body_is_refused(deployment: Deployment, sent: Sent) -> None:
    assert deployment.request(sent.method, sent.target, sent.headers, b'{"scopes":["a:2"]}').status == 401


@pytest.mark.parametrize(
    "becomes",
    ["Bearer x", "Hawk", "hawk id=", 'Basic dXNlcjpwYXNz, Hawk id="x"', "Hawk " + "x" * 5000, 'Hawk id="\xc3\xa4"'],
)
def test_malformed_authorization_is_refused(deployment: Deployment, sent: Sent, becomes: str) -> None:
    headers = {**sent.headers, "Authorization": becomes}
    assert deployment.request(sent.method, sent.target, headers, sent.body).status == 401


def test_changed_method_is_refused(
    deployment: Deployment, client: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = capture(lambda: taskcluster.Auth(deployment.options(client)).client("x"), monkeypatch)
    assert deployment.request("DELETE", sent.target, sent.headers).status == 401
    assert deployment.request("GET", sent.target, sent.headers).status == 403


def test_changed_target_is_refused(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    role = deployment.new_role("x") + "/" + "y"
    root = taskcluster.Auth(deployment.options(deployment.root))
    root.createRole(role, {"description": "of a test", "scopes": []})
    sent = capture(lambda: root.role(role), monkeypatch)
    assert "%2F" in sent.target
    assert deployment.request("GET", sent.target, sent.headers).status == 200
    for other in (sent.target.replace("%2F", "%2E"), sent.target + "z", sent.target + "%20", sent.target + "?a=1"):
        assert deployment.request("GET", other, sent.headers).status == 401, other
    if deployment.azure_paths:
        # Only where the platform passes the raw target on does another spelling of the same path differ.
        for spelling in ("%2f", "/", "%252F"):
            other = sent.target.replace("%2F", spelling)
            assert deployment.request("GET", other, sent.headers).status == 401, other


def test_a_signature_that_the_platform_hides_is_no_failed_authentication(deployment: Deployment) -> None:
    """Of a path with several characters that clients treat differently, unless the platform passes it on as it came."""
    headers = {"Authorization": f'Hawk id="{deployment.root["clientId"]}", ts="1", nonce="x", mac="x"'}
    for name, accepted in (("a%20%281%29.png", deployment.azure_paths), ("a.png", True), ("a@2x.png", True)):
        target = f"/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/runs/0/artifacts/{name}"
        assert deployment.request("POST", target, headers).status == (401 if accepted else 400), name


def test_a_raw_target_that_the_caller_makes_up(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    root = taskcluster.Auth(deployment.options(deployment.root))
    sent = capture(lambda: root.role("anonymous"), monkeypatch)
    headers = {**sent.headers, "X-Original-URL": sent.target, "X-WAWS-Unencoded-URL": sent.target}
    assert deployment.request("DELETE", "/api/auth/v1/roles/other", headers).status == 401
    assert deployment.request("GET", "/api/auth/v1/roles/other", headers).status == 401


def test_changed_host_is_refused(deployment: Deployment, client: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    for root_url in (
        deployment.root_url.replace("127.0.0.1", "localhost"),
        deployment.root_url.rpartition(":")[0] + ":80",
        "https://tc.example.com",
    ):
        auth = taskcluster.Auth({**deployment.options(client), "rootUrl": root_url})
        sent = capture(auth.currentScopes, monkeypatch)
        host = urlsplit(root_url).netloc
        for headers in (sent.headers, {**sent.headers, "Host": host}, {**sent.headers, "X-Forwarded-Host": host}):
            assert deployment.request("GET", sent.target, headers).status == 401
    # What is signed is the root URL's host, whatever name the request came by.
    sent = capture(taskcluster.Auth(deployment.options(client)).currentScopes, monkeypatch)
    assert deployment.request("GET", sent.target, {**sent.headers, "Host": "other.example.com"}).status == 200


@pytest.mark.parametrize("field", ["clientId", "accessToken"])
def test_each_field_of_permanent_credentials_counts(deployment: Deployment, client: Credentials, field: str) -> None:
    for position in (0, len(client[field]) - 1):
        tampered = {**client, field: flipped(client[field], position)}
        outcome = deployment.python("currentScopes", credentials=tampered)
        assert (outcome.status, outcome.code) == (401, "AuthenticationFailed")
        (outcome,) = javascript(deployment.javascript_call("currentScopes", credentials=tampered))
        assert outcome.status == 401


CHANGES: Mapping[str, Any] = {
    "version": 2,
    "scopes": ["*"],
    "start": 0,
    "expiry": 4_000_000_000_000,
    "seed": "A" * 44,
    "signature": "A" * 43 + "=",
    "issuer": "static/taskcluster/root",
    "clientId": NAME,
}


@pytest.mark.parametrize("named", [None, NAME])
def test_each_field_of_a_certificate_counts(deployment: Deployment, client: Credentials, named: str | None) -> None:
    """Who holds temporary credentials can sign any certificate with their token."""
    issued = temporary(client, "auth:current-scopes", name=named)
    certificate = json.loads(issued["certificate"])
    assert deployment.python("currentScopes", credentials=issued).status == 200
    fields = set(certificate) | {"issuer"} | (set() if named else {"clientId"})
    variants = [{**certificate, field: CHANGES[field]} for field in fields]
    wrong: tuple[Any, ...] = (None, {}, [1], True, "\ud800", -1e9)
    for name in certificate:
        variants.append({other: value for other, value in certificate.items() if other != name})
        variants += [{**certificate, name: value} for value in wrong]
    calls = []
    for variant in variants:
        tampered = {**issued, "certificate": json.dumps(variant)}
        outcome = deployment.python("currentScopes", credentials=tampered)
        assert (outcome.status, outcome.code) == (401, "AuthenticationFailed"), variant
        calls.append(deployment.javascript_call("currentScopes", credentials=tampered))
    assert {outcome.status for outcome in javascript(*calls[:20])} == {401}


@pytest.mark.parametrize("certificate", ["[]", "1", "null", '"x"', "{}"])
def test_other_certificates(deployment: Deployment, client: Credentials, certificate: str) -> None:
    issued = temporary(client, "auth:current-scopes")
    outcome = deployment.python("currentScopes", credentials={**issued, "certificate": certificate})
    assert outcome.status == 401


@pytest.mark.parametrize("field", ["clientId", "accessToken"])
def test_each_field_of_temporary_credentials_counts(deployment: Deployment, client: Credentials, field: str) -> None:
    for name in (None, NAME):
        issued = temporary(client, "auth:current-scopes", name=name)
        for position in (0, len(issued[field]) - 1):
            tampered = {**issued, field: flipped(issued[field], position)}
            assert deployment.python("currentScopes", credentials=tampered).status == 401


def test_temporary_credentials_hold_for_their_time(deployment: Deployment, client: Credentials) -> None:
    minute = timedelta(minutes=1)
    for start, expiry, status in (
        (4 * minute, 20 * minute, 200),
        (-60 * minute, -4 * minute, 200),
        (6 * minute, 20 * minute, 401),
        (-60 * minute, -6 * minute, 401),
    ):
        issued = temporary(client, "auth:current-scopes", name=NAME, start=start, expiry=expiry)
        assert deployment.python("currentScopes", credentials=issued).status == status, (start, expiry)


def test_temporary_credentials_last_31_days_at_most(
    deployment: Deployment, client: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (None, NAME):
        issued = temporary(client, "auth:current-scopes", name=name, expiry=timedelta(days=31))
        assert deployment.python("currentScopes", credentials=issued).status == 200
        longer = resigned(issued, client, expiry=json.loads(issued["certificate"])["expiry"] + 1000)
        assert deployment.python("currentScopes", credentials=longer).status == 401


def resigned(issued: Mapping[str, str], issuer: Credentials, **changes: Any) -> dict[str, str]:
    """Temporary credentials as a careless issuer would sign them."""
    fields = {**json.loads(issued["certificate"]), **changes}
    certificate = parse_certificate(fields)
    name = issued["clientId"] if certificate.issuer is not None else None
    signature = issuing.sign(issuer["accessToken"], certificate, name)
    return {**issued, "certificate": json.dumps({**fields, "signature": signature})}


def test_credentials_beyond_the_issuers_scopes_are_refused(deployment: Deployment, client: Credentials) -> None:
    for scopes, name in (
        (["auth:current-scopes", "b"], None),
        (["auth:current-scopes", "b"], NAME),
        (["*"], None),
        (["a*"], NAME),
        (["auth:current-scopes"], "other/temporary"),
        (["auth:current-scopes"], "tes"),
    ):
        issued = temporary(client, *scopes, name=name)
        assert deployment.python("currentScopes", credentials=issued).status == 401, (scopes, name)


def test_temporary_credentials_cannot_issue_others(deployment: Deployment, client: Credentials) -> None:
    issued = temporary(client, "auth:current-scopes", "auth:create-client:test/*", name=NAME)
    for name in (None, "test/other"):
        second = temporary(issued, "auth:current-scopes", name=name)
        assert deployment.python("currentScopes", credentials=second).status == 401


def test_clients_that_are_off_or_over(deployment: Deployment) -> None:
    client = deployment.new_client("auth:current-scopes", "auth:create-client:test/*")
    forms = [client, temporary(client, "auth:current-scopes"), temporary(client, "auth:current-scopes", name=NAME)]
    assert {deployment.python("currentScopes", credentials=form).status for form in forms} == {200}
    with deployment.auth() as auth:
        auth.disableClient(client["clientId"])
        assert {deployment.python("currentScopes", credentials=form).status for form in forms} == {401}
        auth.enableClient(client["clientId"])
        assert {deployment.python("currentScopes", credentials=form).status for form in forms} == {200}
        auth.updateClient(client["clientId"], {"description": "over", "expires": "2020-01-01T00:00:00.000Z"})
        assert {deployment.python("currentScopes", credentials=form).status for form in forms} == {401}
        auth.deleteClient(client["clientId"])
        assert {deployment.python("currentScopes", credentials=form).status for form in forms} == {401}


def test_a_reset_ends_the_old_token_and_what_it_issued(deployment: Deployment) -> None:
    client = deployment.new_client("auth:current-scopes")
    forms = [client, temporary(client, "auth:current-scopes")]
    with deployment.auth() as auth:
        fresh = {**client, "accessToken": auth.resetAccessToken(client["clientId"])["accessToken"]}
    assert {deployment.python("currentScopes", credentials=form).status for form in forms} == {401}
    assert deployment.python("currentScopes", credentials=fresh).status == 200


def test_signed_urls_count_every_character(deployment: Deployment) -> None:
    client = deployment.new_client("auth:current-scopes")
    url = taskcluster.Auth(deployment.options(client)).buildSignedUrl("currentScopes")
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}"
    assert deployment.request("GET", target).status == 200
    start = target.index("bewit=") + len("bewit=")
    for position in range(start, len(target), 3):
        # The last character of base64 has bits that are not used.
        if position < len(target) - 1:
            assert deployment.request("GET", flipped(target, position)).status == 401, position
    for other in (target[:start], target + "A", target + "&bewit=x", target + "&bewit=" + target[start:]):
        assert deployment.request("GET", other).status == 401
    over = taskcluster.Auth(deployment.options(client)).buildSignedUrl("currentScopes", expiration=-1)
    assert deployment.request("GET", f"{urlsplit(over).path}?{urlsplit(over).query}").status == 401
