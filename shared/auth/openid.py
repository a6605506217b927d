"""Who an ID token of an OpenID Connect provider is about, a person or a workload, and what it allows (contract 11.8).

The signature is checked with the keys that the provider publishes: they are read from its discovery document, kept for
an hour, and read again when a token names a key that is not among them."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shared.auth.roles.expansion import Roles
from shared.base import bounds
from shared.base.errors import AuthenticationFailed, ServiceUnavailable
from shared.base.frozen import dataclass
from shared.base.ids import digest_of
from shared.base.shares import CHECKING, NAMELESS, Place, Room, Share, drop, share_of

if TYPE_CHECKING:
    import jwt  # loaded with the first ID token: few deployments see one


Fetch = Callable[[str], Awaitable[bytes]]
"""The content at a URL. Raises OSError, TimeoutError or ValueError when it cannot be had."""

FirstExchange = Callable[[str, datetime], Awaitable[datetime]]
"""Records an exchange of an ID token and returns the time of the first one: now, unless there was an earlier one. Its
arguments are the token's hash and its expiration. Raises StorageUnavailable."""

ALGORITHMS: Mapping[str, tuple[str, str]] = {"RS256": ("kty", "RSA"), "ES256": ("crv", "P-256")}
"""Accepted signature algorithms, with the property that a published key of each must have."""
LEEWAY = timedelta(minutes=1)
"""How far the clocks of the provider and of this service may differ."""
KEYS_LAST = timedelta(hours=1)
"""How long published keys are kept, so that a withdrawn one is not used for longer."""
KEYS_REST = timedelta(seconds=30)
"""Shortest time between two readings of the keys because of a token with an unknown key: anybody can make one up."""
FAILURE_RESTS = timedelta(seconds=5)
"""How long after a failed reading of the keys everybody is answered with that failure."""
AGAIN_WITHIN = timedelta(minutes=1)
"""How long after its first exchange an ID token of a person may be exchanged again: the answer may have been lost."""
REFRESHED_WITHIN = timedelta(minutes=5)
"""How long after it was issued a refreshed ID token of a person may be exchanged: browsers do so at once."""
EVERYBODY = "*"
"""Stands for all who can sign in, in the mapping from groups to roles."""
_FETCH_SECONDS = 5.0
_LATEST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
"""Later expirations of tokens count as this one, in seconds since the epoch: the last day that dates can express."""
_SUBJECT = re.compile(r"[\x21-\x29\x2b-\x7e]{1,500}")
"""The characters of scopes, without the asterisk and the space."""
_PLAIN = re.compile(r"[A-Za-z0-9@:.+|_-]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """A person or workload that has signed in."""

    client_id: str
    scopes: Sequence[str]
    share: Share
    """The share that the identity's calls count for. An identity that somebody has given a role has its own. All who
    only have the role that everybody has share one: a provider may give out as many identities as somebody wants."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SignIn:
    """Verifies ID tokens of people, of one provider. Each is good for one sign-in."""

    tokens: IdTokens
    name: str
    """The provider's name as people know it, and in the client ids of those who sign in."""
    user_claim: str
    """The claim that identifies a person permanently."""
    roles: Sequence[tuple[str, str]]
    """Pairs of a value of the claims `groups` and `roles`, or EVERYBODY, and a role that it gives."""
    first_exchange: FirstExchange
    now: Callable[[], datetime]

    async def identity(self, id_token: str, nonce: str | None) -> Identity:
        """Returns who the token is about. One that was refreshed has no nonce (OpenID Connect Core 12.2): it must have
        just been issued. Raises AuthenticationFailed, also for one that was exchanged more than a minute ago,
        ServiceUnavailable if the provider does not answer, StorageUnavailable."""
        claims = await self.tokens.claims(id_token, *(() if nonce is None else ("nonce",)))
        if nonce is None:
            if self.now() - datetime.fromtimestamp(int(claims["iat"]), UTC) > REFRESHED_WITHIN:
                raise AuthenticationFailed("the ID token was issued too long ago; sign in again")
        elif not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
            raise AuthenticationFailed("the ID token belongs to another sign-in")
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not user:
            raise AuthenticationFailed(f"the ID token has no claim {self.user_claim}")
        given = (value if isinstance(value, list) else [value] for value in map(claims.get, ("groups", "roles")))
        held = {value for values in given for value in values if isinstance(value, str)}
        roles = dict.fromkeys(role for value, role in self.roles if value in {EVERYBODY, *held})
        is_known = any(value in held for value, _ in self.roles if value != EVERYBODY)
        until = datetime.fromtimestamp(min(int(claims["exp"]), _LATEST), UTC) + LEEWAY
        # The signature is left out of the hash: the same content can have several valid signatures.
        first = await self.first_exchange(digest_of(id_token.rpartition(".")[0]), until)
        if self.now() - first > AGAIN_WITHIN:
            raise AuthenticationFailed("the ID token was exchanged before; sign in again")
        return Identity(
            client_id=f"login/{self.name}/{_escaped(user)}",
            scopes=[f"assume:{role}" for role in roles],
            share=share_of(f"sign-in {self.tokens.issuer} {user if is_known else EVERYBODY}") if roles else NAMELESS,
        )


@dataclass(frozen=True, eq=False)
class WorkloadSignIn:
    """Verifies ID tokens of workloads, such as jobs of GitHub Actions, which get them without a browser.

    A token may be exchanged for as long as it is valid: many platforms give a workload the same one until it ends.

    The subject says what runs, such as `repo:my-org/my-repo:ref:refs/heads/main`. It gives the role of the same name
    after `<name>:`, so that roles, also those that end with `*`, decide which subject may do what."""

    tokens: IdTokens
    name: str
    roles: Callable[[], Awaitable[Roles]]

    async def identity(self, id_token: str) -> Identity:
        """Returns who the token is about. Raises AuthenticationFailed, ServiceUnavailable if the provider does not
        answer, StorageUnavailable."""
        subject = str((await self.tokens.claims(id_token))["sub"])
        if not _SUBJECT.fullmatch(subject):
            # A scope that ends with an asterisk would stand for the roles of other subjects, too.
            raise AuthenticationFailed("the ID token's subject has characters that a role cannot be named with")
        role = f"{self.name}:{subject}"
        granted_by = (await self.roles()).granting(role)
        return Identity(
            client_id=f"workload/{self.name}/{_escaped(subject)}",
            scopes=[f"assume:{role}"],
            share=NAMELESS if granted_by is None else share_of(f"workload {granted_by}"),
        )


class IdTokens:
    """Verifies signature, issuer, audience and times of ID tokens."""

    def __init__(self, issuer: str, audience: str, fetch: Fetch, monotonic: Callable[[], float]) -> None:
        self.issuer = issuer
        self._audience = audience
        self._keys = PublishedKeys(issuer, fetch, monotonic)

    async def claims(self, id_token: str, *more: str) -> Mapping[str, Any]:
        """Returns what a valid token says, with `more` claims that it must have. Raises as `identity` does."""
        import jwt

        try:
            header = jwt.get_unverified_header(id_token)
        except jwt.PyJWTError:
            raise AuthenticationFailed("the ID token is no JWT") from None
        algorithm = str(header.get("alg"))
        if algorithm not in ALGORITHMS:
            raise AuthenticationFailed(f"the ID token must be signed with one of {', '.join(ALGORITHMS)}")
        key = await self._keys.find(header.get("kid"), algorithm)
        try:
            claims: dict[str, Any] = jwt.decode(
                id_token,
                key.key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub", *more]},
            )
        except jwt.PyJWTError as error:
            raise AuthenticationFailed(f"the ID token is not valid: {error}") from None
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != self._audience:
            raise AuthenticationFailed("the ID token was issued to another client")
        return claims


class PublishedKeys:
    """The keys with which a provider signs. Anybody can make up a token, and the provider may be slow or silent. So a
    known key is found without waiting, and is read again before it is too old. Calls with unknown keys share one
    reading and its failure, which is remembered; few of them wait for it, and the oldest give way to newer ones."""

    def __init__(self, issuer: str, fetch: Fetch, monotonic: Callable[[], float]) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._monotonic = monotonic
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._read: float | None = None
        self._failed: tuple[float, str] | None = None
        """When the latest reading failed, and why; None after one that did not."""
        self._reading: asyncio.Task[None] | None = None
        self._waiting = Room(bounds.SIGN_INS_WAITING)

    async def find(self, key_id: object, algorithm: str) -> jwt.PyJWK:
        """Returns the key that a token names. Raises AuthenticationFailed, ServiceUnavailable."""
        import jwt

        found = self._chosen(key_id, algorithm)
        if len(found) != 1 and self._age() > KEYS_REST.total_seconds():
            await self._renew()
            found = self._chosen(key_id, algorithm)
        elif self._age() > KEYS_LAST.total_seconds() / 2 and self._reading is None and not self._has_failed():
            self._reading = asyncio.create_task(self._refresh())
        if len(found) != 1:
            raise AuthenticationFailed("the ID token is signed with a key that its issuer does not publish")
        try:
            return jwt.PyJWK(dict(found[0]), algorithm)
        except jwt.PyJWTError:
            raise AuthenticationFailed("the key that the ID token is signed with cannot be used") from None

    def _has_failed(self) -> bool:
        """Returns whether a reading has failed a moment ago."""
        return self._failed is not None and self._monotonic() - self._failed[0] < FAILURE_RESTS.total_seconds()

    def _age(self) -> float:
        return float("inf") if self._read is None else self._monotonic() - self._read

    def _chosen(self, key_id: object, algorithm: str) -> list[Mapping[str, Any]]:
        """Returns the known keys that may have signed a token; none if the keys were read too long ago."""
        if self._age() > KEYS_LAST.total_seconds():
            return []
        property_name, wanted = ALGORITHMS[algorithm]
        return [
            key
            for key in self._keys
            if key.get(property_name) == wanted
            and key.get("use", "sig") == "sig"
            and key.get("alg", algorithm) == algorithm
            and key_id in (None, key.get("kid"))
        ]

    async def _renew(self) -> None:
        """Reads the keys, or waits for the reading that is under way. Raises ServiceUnavailable."""
        if self._reading is None:
            if self._failed is not None and self._has_failed():
                raise ServiceUnavailable(self._failed[1])
            self._reading = asyncio.create_task(self._refresh())
        place = Place(share=CHECKING)
        try:
            async with asyncio.timeout(None) as place.waits:
                drop(self._waiting.enter(place))
                await asyncio.shield(self._reading)
        except TimeoutError:
            raise ServiceUnavailable(
                f"too many sign-ins wait for the keys of {self._issuer}; send the call again"
            ) from None
        finally:
            self._waiting.leave(place)
        if self._failed is not None:
            raise ServiceUnavailable(self._failed[1])

    async def _refresh(self) -> None:
        base = self._issuer.rstrip("/")
        try:
            metadata = json.loads(await self._fetch(f"{base}/.well-known/openid-configuration"))
            if metadata["issuer"] != self._issuer:
                raise ValueError(f"it calls itself {metadata['issuer']}")
            address = str(metadata["jwks_uri"])
            if urlsplit(address).scheme != urlsplit(self._issuer).scheme:
                raise ValueError("its keys are published at another scheme")
            keys = json.loads(await self._fetch(address))["keys"]
            self._keys = [key for key in keys if isinstance(key, dict)]
        except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            self._failed = self._monotonic(), f"the keys of {self._issuer} cannot be read: {error!r}"
        else:
            self._read, self._failed = self._monotonic(), None
        finally:
            self._reading = None


async def fetch(url: str) -> bytes:
    """Returns what a provider publishes. Redirects are not followed. Raises OSError, ValueError for over a mebibyte."""
    import aiohttp  # takes a tenth of a second, and few deployments need it here

    timeout = aiohttp.ClientTimeout(total=_FETCH_SECONDS)
    content = bytearray()
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            async for part in response.content.iter_any():
                content += part
                if len(content) > bounds.KEYS_OF_A_PROVIDER:
                    raise ValueError(f"{url} has more than {bounds.KEYS_OF_A_PROVIDER} bytes")
    except aiohttp.ClientError as error:
        raise ConnectionError(repr(error)) from error
    return bytes(content)


def _escaped(user: str) -> str:
    """Escapes a user's id for use in a client id: characters that are not plain, such as the slash, become `!` and the
    hex digits of each byte."""
    return "".join(
        each if _PLAIN.fullmatch(each) else "".join(f"!{byte:02x}" for byte in each.encode("utf-8", "surrogatepass"))
        for each in user
    )
