"""Hostile headers, exts, certificates and bewits: only AuthenticationFailed may come out, and quickly."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.api.scopes import ScopeSet, satisfies
from shared.auth import certificates as credentials
from shared.auth import hawk
from shared.auth.authenticate import Authenticator
from shared.auth.clients.rows import Client, Keyring
from shared.auth.roles.expansion import Roles
from shared.base.errors import AuthenticationFailed
from tests.selection import examples

NOW = datetime.fromtimestamp(1767225600, UTC)
TOKEN = "some-token-0123456789abcdef"
SITE = hawk.Site.of("https://tc.example.com")
AUTHENTICATOR = Authenticator(
    Keyring([Client(client_id="some", access_token=TOKEN, scopes=("a*",))], Roles({"anonymous": ["public"]})),
    "https://tc.example.com",
    lambda: NOW,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=10), children, max_size=4),
    max_leaves=8,
)
good_certificate: dict[str, Any] = json.loads(
    credentials.temporary_credentials(
        client_id=None,
        scopes=["a:1"],
        start=NOW,
        expiry=NOW,
        issuer="some",
        issuer_token=TOKEN,
        seed="AAAAAAAAQACAAAAAAAAAAABBBBBBBBRBCBBBBBBBBBBQ",
    )["certificate"]
)
certificate_fields = {**good_certificate, "issuer": "x", "clientId": "y"}
broken_certificates = st.fixed_dictionaries(
    {}, optional={name: st.just(value) | json_values for name, value in certificate_fields.items()}
)
exts = (
    st.binary(max_size=60)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries(
        {}, optional={"certificate": json_values | broken_certificates, "authorizedScopes": json_values}
    ).map(lambda value: json.dumps(value).encode())
)
attribute_texts = st.text(max_size=30) | st.sampled_from(["some", "1767225600", "e30=", "1", "nonce"])


def signed_header(ext: bytes, key: str = TOKEN) -> str:
    """Returns a header with a good MAC, so that the ext is looked into."""
    text = base64.b64encode(ext).decode()
    signed = hawk.Signed(id="some", ts="1767225600", mac="", nonce="n", ext=text)
    mac = hawk.calculate_mac(signed, key=key, method="GET", resource="/a", site=SITE).decode()
    return f'Hawk id="some", ts="1767225600", nonce="n", mac="{mac}"' + (f', ext="{text}"' if text else "")


async def caller_of(headers: dict[str, str], target: str = "/a") -> None:
    try:
        await AUTHENTICATOR.caller("GET", [target], headers, b"")
    except AuthenticationFailed as failed:
        assert TOKEN not in failed.message


@given(st.text(max_size=200) | st.text(max_size=200).map(lambda text: f"Hawk {text}"))
async def test_any_header(header: str) -> None:
    await caller_of({"authorization": header})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["id", "ts", "nonce", "mac", "ext", "hash", "app", "dlg", "x"]),
            attribute_texts,
            st.sampled_from([", ", ",", " ", ""]),
        ),
        max_size=10,
    )
)
async def test_any_attributes(attributes: list[tuple[str, str, str]]) -> None:
    header = "Hawk " + "".join(f'{name}="{value}"{separator}' for name, value, separator in attributes)
    await caller_of({"authorization": header})


@given(exts)
async def test_any_ext_in_a_well_signed_header(ext: bytes) -> None:
    await caller_of({"authorization": signed_header(ext)})


@given(broken_certificates)
async def test_any_certificate_in_a_well_signed_header(certificate: dict[str, Any]) -> None:
    seed = certificate.get("seed")
    key = credentials.temporary_access_token(TOKEN, seed) if isinstance(seed, str) and seed.isascii() else TOKEN
    await caller_of({"authorization": signed_header(json.dumps({"certificate": certificate}).encode(), key)})


@given(st.text(max_size=100) | st.binary(max_size=100).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
async def test_any_bewit(bewit: str) -> None:
    await caller_of({}, target=f"/a?bewit={bewit}")
    await caller_of({}, target=f"/a?x=1&bewit={bewit}&y={bewit}")


scope_texts = st.text(alphabet="ab:*", max_size=6)


@given(st.lists(scope_texts, max_size=12), scope_texts)
def test_satisfaction_agrees_with_its_definition(held: list[str], scope: str) -> None:
    expected = any(one == scope or (one.endswith("*") and scope.startswith(one[:-1])) for one in held)
    assert satisfies(ScopeSet(held), scope) is expected


@given(st.lists(scope_texts, max_size=12))
def test_the_normal_form_means_the_same_and_is_minimal(held: list[str]) -> None:
    normal = list(ScopeSet(held))
    assert all(scope in ScopeSet(normal) for scope in held)
    assert all(scope in ScopeSet(held) for scope in normal)
    assert all(scope not in ScopeSet(other for other in normal if other != scope) for scope in normal)
    assert list(ScopeSet(normal)) == normal


role_ids = st.text(alphabet="ab", min_size=1, max_size=3)


@given(
    st.dictionaries(
        st.tuples(role_ids, st.sampled_from(["", "*"])).map("".join),
        st.lists(st.sampled_from(["x:<..>", "y:<..>:z", "p", "q*"]), max_size=3),
        max_size=5,
    ),
    st.tuples(role_ids, st.sampled_from(["", "*"])).map("".join),
    role_ids,
)
@settings(max_examples=examples(300))
def test_a_starred_assumption_covers_every_role_that_it_matches(
    roles: dict[str, list[str]], held: str, role_id: str
) -> None:
    """A held `assume:a*` grants at least what every `assume:a…` grants: a star never means less than its instances."""
    resolver = Roles(roles)
    if satisfies(ScopeSet([held]), role_id):
        expanded = resolver.expand([f"assume:{held}"])
        assert all(scope in expanded for scope in resolver.expand([f"assume:{role_id}"]))
