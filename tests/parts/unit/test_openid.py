"""ID tokens: who they are about, what that person may do, and every way not to be accepted (contract 11.8)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from shared.auth.openid import FirstExchange, Identity, IdTokens, SignIn, WorkloadSignIn
from shared.auth.roles.expansion import Roles
from shared.base.errors import AuthenticationFailed
from shared.base.settings import Settings
from shared.base.shares import NAMELESS, share_of
from shared.runtime import utc_now
from tests.promises.simulator.world import settings

ISSUER = "https://login.example.com/tenant/v2.0"
CLIENT = "console"
NONCE = "a nonce of this sign-in"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
P256 = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())


def published(key_id: str, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **more: str) -> dict[str, Any]:
    public = key.public_key()
    jwk = (
        RSAAlgorithm.to_jwk(public, as_dict=True)
        if isinstance(public, rsa.RSAPublicKey)
        else ECAlgorithm.to_jwk(public, as_dict=True)
    )
    return {**jwk, "kid": key_id, **more}


async def never_before(fingerprint: str, expires: datetime) -> datetime:
    """Records an exchange as the first one of its token."""
    return utc_now()


class Issuer:
    """Publishes keys as a provider does, and counts who reads them."""

    def __init__(self) -> None:
        self.metadata: Any = {"issuer": ISSUER, "jwks_uri": "https://login.example.com/keys"}
        self.keys = [published("rsa", RSA, use="sig"), published("ec", P256), published("wide", P384)]
        self.reads = 0
        self.is_away = False
        self.clock = 0.0

    async def fetch(self, url: str) -> bytes:
        if self.is_away:
            raise OSError("nobody answers")
        if url == f"{ISSUER}/.well-known/openid-configuration":
            return json.dumps(self.metadata).encode()
        assert url == "https://login.example.com/keys"
        self.reads += 1
        return json.dumps({"keys": self.keys}).encode()

    def sign_in(
        self,
        roles: str = "*=everyone admins=admin Task.Read=reader",
        first_exchange: FirstExchange = never_before,
        now: Callable[[], datetime] = utc_now,
        user_claim: str = "sub",
    ) -> SignIn:
        pairs = settings(openid_issuer=ISSUER, openid_client_id=CLIENT, openid_roles=roles).openid_role_pairs
        return SignIn(
            tokens=self.tokens(CLIENT),
            name="entra",
            user_claim=user_claim,
            roles=pairs,
            first_exchange=first_exchange,
            now=now,
        )

    def tokens(self, audience: str) -> IdTokens:
        return IdTokens(ISSUER, audience, self.fetch, lambda: self.clock)


def token(key: Any = RSA, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changes: Any) -> str:
    """Returns an ID token; a claim of None is left out."""
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": CLIENT,
        "sub": "somebody",
        "nonce": NONCE,
        "iat": now,
        "exp": now + 86_400,
        **changes,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": "rsa"} if headers is None else headers)


async def test_who_it_is_and_with_which_roles() -> None:
    sign_in = Issuer().sign_in()
    assert await sign_in.identity(token(), NONCE) == Identity(
        client_id="login/entra/somebody", scopes=["assume:everyone"], share=share_of(f"sign-in {ISSUER} *")
    )
    named = await sign_in.identity(token(groups=["admins", "admins", 7], roles=["Task.Read", "unknown"]), NONCE)
    assert named.scopes == ["assume:everyone", "assume:admin", "assume:reader"]
    assert (await sign_in.identity(token(P256, "ES256", {"kid": "ec"}, groups="admins"), NONCE)).scopes == [
        "assume:everyone",
        "assume:admin",
    ]


async def test_a_user_without_any_role_may_do_nothing() -> None:
    assert (await Issuer().sign_in("admins=admin").identity(token(groups=["*"]), NONCE)).scopes == []


@pytest.mark.parametrize(
    ("user", "shown"), [("a/b", "a!2fb"), ("a!2fb", "a!212fb"), ("é ", "!c3!a9!20"), ("a|b@c.d", "a|b@c.d")]
)
async def test_nobody_takes_the_client_id_of_another(user: str, shown: str) -> None:
    identity = await Issuer().sign_in().identity(token(sub=user), NONCE)
    assert identity.client_id == f"login/entra/{shown}"


async def test_the_claim_that_names_a_person_can_be_chosen() -> None:
    sign_in = Issuer().sign_in(user_claim="oid")
    assert (await sign_in.identity(token(oid="7"), NONCE)).client_id == "login/entra/7"
    for oid in (None, "", 7):
        with pytest.raises(AuthenticationFailed, match="no claim oid"):
            await sign_in.identity(token(oid=oid), NONCE)


def _without(name: str) -> str:
    missing: dict[str, Any] = {name: None}
    return token(**missing)


ROOT_URL = "https://queue.example.com"
SUBJECT = "repo:my-org/my-repo:ref:refs/heads/main"


def workloads(issuer: Issuer, *roles: str) -> WorkloadSignIn:
    async def known() -> Roles:
        return Roles({each: ["a"] for each in roles})

    return WorkloadSignIn(issuer.tokens(ROOT_URL), "github", known)


def job_token(**changes: Any) -> str:
    """Returns a token as jobs of GitHub Actions get it: without a nonce."""
    claims: dict[str, Any] = {"aud": ROOT_URL, "sub": SUBJECT, "nonce": None, "repository": "my-org/my-repo", **changes}
    return token(**claims)


async def test_a_workload_has_the_role_of_its_subject() -> None:
    assert await workloads(Issuer()).identity(job_token()) == Identity(
        client_id="workload/github/repo:my-org!2fmy-repo:ref:refs!2fheads!2fmain",
        scopes=[f"assume:github:{SUBJECT}"],
        share=NAMELESS,
    )


async def test_a_name_for_nothing_has_no_share_of_its_own() -> None:
    """Only a subject that a role names has a share of its own: otherwise anybody could get shares."""
    own, others = "github:repo:my-org/my-repo:ref:refs/heads/main", "github:repo:my-org/*"
    sign_in = workloads(Issuer(), own, others, "github:repo:my-*")
    main, one, two, strange = [
        (await sign_in.identity(job_token(sub=f"repo:{subject}"))).share
        for subject in ("my-org/my-repo:ref:refs/heads/main", "my-org/a:x", "my-org/b:y", "evil/x:ref:refs/heads/b1")
    ]
    assert len({main, one, NAMELESS}) == 3
    assert (two, strange) == (one, NAMELESS)
    people = Issuer().sign_in()
    named, another = [
        (await people.identity(token(sub=name, groups="admins"), NONCE)).share for name in ("one", "another")
    ]
    assert len({named, another, NAMELESS}) == 3
    strangers = [(await people.identity(token(sub=f"stranger {number}"), NONCE)).share for number in range(3)]
    assert len({*strangers, named, another, NAMELESS}) == 4
    without_roles = Issuer().sign_in("admins=admin")
    assert (await without_roles.identity(token(sub="stranger"), NONCE)).share == NAMELESS


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": CLIENT},
        {"aud": f"{ROOT_URL}/"},
        {"aud": None},
        {"iss": "https://example.com"},
        {"sub": None},
        {"exp": 1},
    ],
    ids=str,
)
async def test_a_workload_whose_token_is_for_something_else_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed, match="not valid"):
        await workloads(Issuer()).identity(job_token(**changes))


async def test_a_token_of_a_person_is_none_of_a_workload_and_the_other_way_round() -> None:
    with pytest.raises(AuthenticationFailed, match="Audience"):
        await workloads(Issuer()).identity(token())
    with pytest.raises(AuthenticationFailed, match="nonce"):
        await Issuer().sign_in().identity(job_token(aud=CLIENT), NONCE)


NOW, LONG = int(time.time()), 86_400
"""The time when this module is imported, and more seconds than any run of the tests takes."""
REFUSED: dict[str, tuple[str, str]] = {
    "no JWT": ("nonsense", "no JWT"),
    "empty": ("", "no JWT"),
    "not signed": (token(None, "none"), "must be signed with one of"),
    "signed with what is public": (token("s" * 32, "HS256"), "must be signed with one of"),
    "another algorithm": (token(RSA, "RS512"), "must be signed with one of"),
    "another curve": (token(P384, "ES384", {"kid": "wide"}), "must be signed with one of"),
    "a key of another kind": (token(RSA, headers={"kid": "ec"}), "does not publish"),
    "an unknown key": (token(RSA, headers={"kid": "unknown"}), "does not publish"),
    "signed by another": (token(OTHER_RSA), "not valid"),
    "changed": (token()[:-8] + "AAAAAAAA", "not valid"),
    "another issuer": (token(iss="https://login.example.com/other/v2.0"), "not valid"),
    "issuer with a slash": (token(iss=f"{ISSUER}/"), "not valid"),
    "another audience": (token(aud="another"), "not valid"),
    "another audience among some": (token(aud=["another", "third"]), "not valid"),
    "several audiences, issued to another": (token(aud=[CLIENT, "another"], azp="another"), "another client"),
    "expired": (token(exp=NOW - 3600, iat=NOW - 7200), "not valid"),
    "of the future": (token(iat=NOW + LONG, exp=NOW + 2 * LONG), "not valid"),
    "not yet valid": (token(nbf=NOW + LONG, exp=NOW + 2 * LONG), "not valid"),
    "another nonce": (token(nonce="a nonce of another sign-in"), "another sign-in"),
    "a nonce that is no text": (token(nonce=[NONCE]), "another sign-in"),
    **{f"without {name}": (_without(name), "not valid") for name in ("iss", "aud", "sub", "nonce", "iat", "exp")},
}


@pytest.mark.parametrize("case", REFUSED)
async def test_bad_id_tokens_are_refused(case: str) -> None:
    id_token, message = REFUSED[case]
    issuer = Issuer()
    issuer.clock = 1000
    with pytest.raises(AuthenticationFailed, match=message):
        await issuer.sign_in().identity(id_token, NONCE)


async def test_a_token_without_a_key_id_needs_a_provider_with_one_key() -> None:
    issuer = Issuer()
    assert await issuer.sign_in().identity(token(headers={}), NONCE)
    issuer.keys.append(published("other", OTHER_RSA))
    with pytest.raises(AuthenticationFailed, match="does not publish"):
        await issuer.sign_in().identity(token(headers={}), NONCE)


@pytest.mark.parametrize(
    "changes",
    [
        {"openid_issuer": "http://login.example.com"},
        {"openid_issuer": "login.example.com"},
        {"openid_workload_issuer": "http://login.example.com"},
        {"openid_workload_name": "with:colon"},
        {"openid_roles": "admins"},
        {"openid_roles": "=admin"},
        {"openid_name": "with a space"},
        {"openid_scopes": "profile"},
    ],
    ids=str,
)
def test_bad_settings_stop_the_start(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="openid_"):
        Settings.model_validate({**settings().model_dump(), **changes})
