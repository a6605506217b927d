"""Authentication from a request to a caller, with every form of credentials, each also tampered with (contract 11)."""

import base64
import contextlib
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.api.caller import Caller
from shared.auth import certificates as credentials
from shared.auth import hawk
from shared.auth.authenticate import Authenticator
from shared.auth.clients.rows import Client, Keyring, Refusal
from shared.auth.roles.expansion import Roles
from shared.base.errors import AuthenticationFailed, InsufficientScopes
from shared.base.shares import NAMELESS

NOW = datetime.fromtimestamp(1767225600, UTC)
ROOT_TOKEN = "root-token-0123456789abcdef"
PREVIOUS_ROOT_TOKEN = ROOT_TOKEN[::-1]
TOKEN = "some-token-0123456789abcdef"
FORMER_TOKEN = "former-token-0123456789abc"
TARGET = "/api/queue/v1/task/x%2Fy"
SEED = "AAAAAAAAQACAAAAAAAAAAABBBBBBBBRBCBBBBBBBBBBQ"
KEYRING = Keyring(
    [
        Client(client_id="root", access_token=ROOT_TOKEN, scopes=("*",), retired_tokens=(PREVIOUS_ROOT_TOKEN,)),
        Client(client_id="some", access_token=TOKEN, scopes=("a:*", "assume:r", "auth:create-client:some/*")),
        Client(client_id="wide", access_token=TOKEN, scopes=("assume:p/*",)),
        Client(client_id="reset", access_token=TOKEN, scopes=("*",), replaced_token=FORMER_TOKEN),
        Client(client_id="off", access_token=TOKEN, scopes=("*",), disabled=True),
        Client(client_id="old", access_token=TOKEN, scopes=("*",), expires=NOW - timedelta(seconds=1)),
        Client(client_id="soon", access_token=TOKEN, scopes=("*",), expires=NOW + timedelta(hours=1)),
    ],
    Roles(
        {
            "anonymous": ["public"],
            "r": ["from-role"],
            **{f"p/r{n}/*": [f"assume:p/r{n + 1}/<..>{end}" for end in "ab"] for n in range(20)},
        }
    ),
)
ROOT_URL = "https://tc.example.com"
AUTHENTICATOR = Authenticator(KEYRING, ROOT_URL, lambda: NOW)


def header(
    client_id: str = "some",
    key: str = TOKEN,
    *,
    method: str = "GET",
    target: str = TARGET,
    ts: datetime = NOW,
    ext: object = None,
    payload_hash: str = "",
    root_url: str = "https://tc.example.com",
) -> dict[str, str]:
    """Returns an Authorization header as clients make it, computed here from the contract's text."""
    ext_text = "" if ext is None else base64.b64encode(json.dumps(ext).encode()).decode()
    seconds = str(int(ts.timestamp()))
    site = hawk.Site.of(root_url)
    text = (
        f"hawk.1.header\n{seconds}\nnonce\n{method}\n{target}\n{site.host}\n{site.port}\n{payload_hash}\n{ext_text}\n"
    )
    mac = base64.b64encode(hmac.digest(key.encode(), text.encode(), hashlib.sha256)).decode()
    value = f'Hawk id="{client_id}", ts="{seconds}", nonce="nonce", mac="{mac}"'
    value += f', hash="{payload_hash}"' if payload_hash else ""
    value += f', ext="{ext_text}"' if ext_text else ""
    return {"authorization": value}


async def call(headers: dict[str, str], *, method: str = "GET", target: str = TARGET, body: bytes = b"") -> Caller:
    return await AUTHENTICATOR.caller(method, [target], headers, body)


def temporary(
    client_id: str | None = "some/temp",
    scopes: tuple[str, ...] = ("a:1", "from-role"),
    issuer: str = "some",
    token: str = TOKEN,
    start: datetime = NOW,
    expiry: datetime = NOW + timedelta(minutes=20),
) -> dict[str, str]:
    return credentials.temporary_credentials(
        client_id=client_id, scopes=scopes, start=start, expiry=expiry, issuer=issuer, issuer_token=token, seed=SEED
    )


def temporary_header(issued: dict[str, str], *, authorized: list[str] | None = None, **changes: Any) -> dict[str, str]:
    ext: dict[str, Any] = {"certificate": {**json.loads(issued["certificate"]), **changes}}
    if authorized is not None:
        ext["authorizedScopes"] = authorized
    return header(issued["clientId"], issued["accessToken"], ext=ext)


async def test_a_call_without_credentials_is_anonymous() -> None:
    for headers in ({}, {"authorization": ""}, {"authorization": " "}):
        caller = await call(headers)
        assert caller.client_id is None
        assert list(caller.scopes) == ["assume:anonymous", "public"]


async def test_a_client_has_its_expanded_scopes_and_those_of_anonymous() -> None:
    caller = await call(header())
    assert caller.client_id == "some"
    assert caller.expires is None
    assert list(caller.scopes) == [
        "a:*",
        "assume:anonymous",
        "assume:r",
        "auth:create-client:some/*",
        "from-role",
        "public",
    ]


async def test_the_root_client_may_do_everything() -> None:
    assert list((await call(header("root", ROOT_TOKEN))).scopes) == ["*"]


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "other"},
        {"key": TOKEN + "x"},
        {"method": "POST"},
        {"target": "/api/queue/v1/task/x/y"},
        {"target": TARGET + "?limit=1"},
        {"ts": NOW - timedelta(seconds=901)},
        {"ts": NOW + timedelta(seconds=901)},
        {"root_url": "https://tc.example.org"},
        {"root_url": "http://tc.example.com"},
        {"client_id": "off"},
        {"client_id": "old"},
        {"payload_hash": "B0weSUXsMcb5UhL41FZbrUJCAotzSI3HawE1NPLRUz9="},
        {"ext": []},
        {"ext": {"certificate": {}}},
        {"ext": {"certificate": None}},
        {"ext": {"authorizedScopes": "a:1"}},
        {"ext": {"authorizedScopes": ["\n"]}},
        {"ext": {"authorizedScopes": ["b"]}},
        {"ext": {"authorizedScopes": ["a*"]}},
    ],
)
async def test_credentials_that_do_not_hold(changes: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        await call(header(**changes))


async def test_the_payload_counts_when_its_hash_is_given() -> None:
    body, kind = b'{"a": 1}', {"content-type": "application/json; charset=utf-8"}
    signed = header(payload_hash=hawk.payload_hash(kind["content-type"], body).decode())
    assert (await call({**signed, **kind}, body=body)).client_id == "some"
    with pytest.raises(AuthenticationFailed):
        await call({**signed, **kind}, body=b'{"a": 2}')


@pytest.mark.parametrize(
    "issued",
    [temporary(), temporary(client_id=None), temporary("x", ("anything",), "root", ROOT_TOKEN)],
    ids=["named", "unnamed", "root"],
)
async def test_temporary_credentials(issued: dict[str, str]) -> None:
    caller = await call(temporary_header(issued))
    assert caller.client_id == issued["clientId"]
    assert caller.expires == NOW + timedelta(minutes=20)
    expected = {*json.loads(issued["certificate"])["scopes"], "assume:anonymous", "public"}
    assert set(caller.scopes) == expected


async def test_names_below_a_client_have_its_share() -> None:
    own = (await call(header())).share
    for name in ("some/one", "some/another", None):
        assert (await call(temporary_header(temporary(name)))).share == own
    assert (await call(header("wide"))).share != own
    assert (await call({})).share == NAMELESS


@pytest.mark.parametrize(
    "issued",
    [
        temporary(scopes=("b",)),
        temporary(scopes=("a*",)),
        temporary(scopes=("public",)),
        temporary(client_id="other/temp"),
        temporary(issuer="nobody"),
        temporary(token=TOKEN[::-1]),
        temporary("x", (), "off"),
        temporary("x", (), "old"),
        temporary(start=NOW + timedelta(minutes=6)),
        temporary(start=NOW - timedelta(hours=1), expiry=NOW - timedelta(minutes=6)),
    ],
)
async def test_temporary_credentials_that_do_not_hold(issued: dict[str, str]) -> None:
    with pytest.raises(AuthenticationFailed):
        await call(temporary_header(issued))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"scopes": ["a:2"]},
        {"scopes": ["*"]},
        {"start": 1767225600001},
        {"expiry": 1767226800001},
        {"expiry": 1767225600000 + 32 * 86_400_000},
        {"seed": SEED[::-1]},
        {"issuer": "root"},
        {"issuer": "some/temp"},
        {"issuer": ["some"]},
        {"signature": "t5yxp68cI8bNcdMc4uJpPb+oYuZsKAxTD1QApghiun4="},
    ],
)
async def test_each_field_of_a_certificate_counts(changes: dict[str, Any]) -> None:
    assert (await call(temporary_header(temporary()))).client_id == "some/temp"
    with pytest.raises(AuthenticationFailed):
        await call(temporary_header(temporary(), **changes))


async def test_a_certificate_is_not_for_another_name() -> None:
    issued = temporary()
    with pytest.raises(AuthenticationFailed):
        await call(temporary_header({**issued, "clientId": "some/else"}))


async def test_authorized_scopes_restrict() -> None:
    caller = await call(header(ext={"authorizedScopes": ["a:1", "public"]}))
    assert list(caller.scopes) == ["a:1", "assume:anonymous", "public"]
    assert list((await call(header(ext={"authorizedScopes": []}))).scopes) == ["assume:anonymous", "public"]


async def test_authorized_scopes_restrict_temporary_credentials() -> None:
    caller = await call(temporary_header(temporary(), authorized=["a:1"]))
    assert list(caller.scopes) == ["a:1", "assume:anonymous", "public"]
    with pytest.raises(AuthenticationFailed):
        await call(temporary_header(temporary(), authorized=["a:2"]))


def bewit(expiry: datetime = NOW + timedelta(minutes=15), target: str = TARGET, key: str = TOKEN) -> str:
    seconds = int(expiry.timestamp())
    text = f"hawk.1.bewit\n{seconds}\n\nGET\n{target}\ntc.example.com\n443\n\n\n"
    mac = base64.b64encode(hmac.digest(key.encode(), text.encode(), hashlib.sha256)).decode()
    token = base64.urlsafe_b64encode(f"some\\{seconds}\\{mac}\\".encode()).decode().rstrip("=")
    return f"{target}{'&' if '?' in target else '?'}bewit={token}"


@pytest.mark.parametrize("method", ["GET", "HEAD", "get"])
async def test_a_bewit_signs_a_url(method: str) -> None:
    assert (await call({}, method=method, target=bewit())).client_id == "some"
    assert (await call({}, method=method, target=bewit(target=TARGET + "?limit=1"))).client_id == "some"


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("POST", bewit(), {}),
        ("GET", bewit(), header()),
        ("GET", bewit(), {"authorization": "Bearer x"}),
        ("GET", bewit(NOW), {}),
        ("GET", bewit(key=ROOT_TOKEN), {}),
        ("GET", bewit() + "&limit=1", {}),
        ("GET", bewit().replace("x%2Fy", "x%2Fz"), {}),
        ("GET", bewit() + "&bewit=", {}),
    ],
)
async def test_bewits_that_do_not_hold(method: str, target: str, headers: dict[str, str]) -> None:
    with pytest.raises(AuthenticationFailed):
        await call(headers, method=method, target=target)


async def test_what_is_missing_is_named_and_nothing_else() -> None:
    caller = await call(header())
    caller.require({"AllOf": ["a:1", "public"]})
    with pytest.raises(InsufficientScopes) as refused:
        caller.require({"AllOf": ["a:1", "b", "c"]})
    message = refused.value.message
    assert '"b"' in message
    assert "Client ID some" in message
    assert "from-role" not in message
    assert "auth:create-client" not in message


async def test_nothing_prints_a_token() -> None:
    client = await KEYRING.client("some")
    assert TOKEN not in repr(client)


async def test_scopes_that_expand_to_too_much_are_refused() -> None:
    caller = await call(header("wide"))
    assert caller.satisfies("assume:p/r19/x")
    restricted = {"authorizedScopes": ["assume:p/r12/x"]}
    assert (await call(header("wide", ext=restricted))).satisfies("assume:p/r20/xaaaaaaaa")
    certificate = temporary(None, ("assume:p/r0/x",), issuer="wide")
    for headers in (
        header("wide", ext={"authorizedScopes": ["assume:p/r0/x"]}),
        header("wide", certificate["accessToken"], ext={"certificate": json.loads(certificate["certificate"])}),
    ):
        with pytest.raises(AuthenticationFailed, match="expand through roles to more than"):
            await call(headers)


class NotedKeyring(Keyring):
    """The keyring of these tests, which remembers what it was told."""

    def __init__(self) -> None:
        self.clients, self.noted = KEYRING, list[tuple[str, Refusal]]()

    async def client(self, client_id: str) -> Client | None:
        return await self.clients.client(client_id)

    async def roles(self) -> Roles:
        return await self.clients.roles()

    def refused(self, client: Client, why: Refusal) -> None:
        self.noted.append((client.client_id, why))


@pytest.mark.parametrize(
    ("headers", "noted"),
    [
        (header("reset", FORMER_TOKEN), [("reset", "token")]),
        (header("root", PREVIOUS_ROOT_TOKEN), [("root", "token")]),
        (header("reset", "another-token-0123456789ab"), []),  # anybody can have sent it
        (header("reset", FORMER_TOKEN, root_url="https://old.example.com"), []),
        (header(key="another-token-0123456789ab"), []),
        (header("off"), [("off", "disabled")]),
        (header("old"), [("old", "ended")]),
        (header("nobody"), []),
        (header(ts=NOW - timedelta(hours=1)), []),
        (header(), []),
        ({}, []),
    ],
)
async def test_the_keyring_is_told_which_clients_are_refused_and_why(
    headers: dict[str, str], noted: list[tuple[str, Refusal]]
) -> None:
    keyring = NotedKeyring()
    authenticator = Authenticator(keyring, "https://tc.example.com", lambda: NOW)
    with contextlib.suppress(AuthenticationFailed):
        await authenticator.caller("GET", [TARGET], headers, b"")
    assert keyring.noted == noted
