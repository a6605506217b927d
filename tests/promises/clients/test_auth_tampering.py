"""Credentials that were tampered with in any part are answered 401 or 403 as the contract says, never 200 or 500."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import taskcluster
from taskcluster import utils

from tests.promises.clients.deployment import Credentials, Deployment, javascript, temporary

NAME = "test/temporary"


@dataclass(frozen=True)
class Sent:
    """A request as the PyPI client would send it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None

    def altered(self, was: str, becomes: str) -> dict[str, str]:
        """Returns the headers with a text in the Authorization replaced."""
        header = self.headers["Authorization"]
        assert was in header
        return {**self.headers, "Authorization": header.replace(was, becomes, 1)}


def capture(call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Returns what a client would send, without sending it."""
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
    """Returns the text with one character replaced by another one that may stand there."""
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
    """A certificate with any field changed or missing is refused, as the holder of temporary credentials can sign
    any."""
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
