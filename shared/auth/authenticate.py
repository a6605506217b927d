"""Authentication of a call: from a request to a Caller, who it is and what it may do (contract 11.4, 11.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from shared.auth import credentials, hawk
from shared.auth import scopes as scope_rules
from shared.auth.caller import Caller
from shared.auth.clients import Client, Keyring, Refusal
from shared.auth.expansion import ASSUME, ExpansionTooLarge, Roles
from shared.auth.scopes import ScopeSet
from shared.errors import AuthenticationFailed

ANONYMOUS = f"{ASSUME}anonymous"
"""What every request holds, with or without credentials."""


class Authenticator:
    """Verifies requests to one site against a keyring."""

    def __init__(self, keyring: Keyring, root_url: str, now: Callable[[], datetime]) -> None:
        """Raises ValueError when the root URL is none."""
        self._keyring = keyring
        self._site = hawk.Site.of(root_url)
        self._now = now

    async def caller(
        self, method: str, targets: Sequence[str], headers: Mapping[str, str], body: bytes | None
    ) -> Caller:
        """Who sent this request.

        `targets` are the request targets that the client may have signed, all meaning the routed request (see
        `targets`); of `headers` (names in lower case) authorization and content-type are used; `body` is as sent, or
        None where it is not known: then its hash is not checked.
        Raises AuthenticationFailed when credentials were given and do not hold, and StorageUnavailable. Not to be
        called for endpoints without scopes: they never look at credentials (contract 11.7).
        """
        header = headers.get("authorization", "").strip()
        with_bewit = [target for target in targets if hawk.has_bewit(target)]
        if not header and not with_bewit:
            return Caller(client_id=None, scopes=_expanded(await self._keyring.roles(), [ANONYMOUS]))
        if header and with_bewit:
            raise AuthenticationFailed("Multiple authentications")
        if header:
            signed, resources = hawk.parse_header(header), list(targets)
        else:
            if method.upper() not in ("GET", "HEAD"):
                raise AuthenticationFailed("A bewit is for GET only")
            parsed = [hawk.parse_bewit(target) for target in with_bewit]
            signed, resources = parsed[0][0], [resource for _, resource in parsed]
        return await self._verify(signed, method, resources, headers.get("content-type", ""), body)

    async def _verify(
        self, signed: hawk.Signed, method: str, resources: list[str], content_type: str, body: bytes | None
    ) -> Caller:
        now = self._now()
        ext = hawk.parse_ext(signed.ext)
        certificate = credentials.parse_certificate(ext["certificate"]) if "certificate" in ext else None
        issuer = await self._keyring.client(certificate.issuer or signed.id if certificate else signed.id)
        if issuer is None:
            raise hawk.MacMismatch
        # The MAC comes first: only a client that holds a key learns more, and only for it more is computed.
        keys = [issuer.access_token]
        if certificate is not None:
            keys = [credentials.temporary_access_token(token, certificate.seed) for token in issuer.issuing_tokens]
        try:
            key = hawk.check_mac(signed, keys=keys, method=method, resources=resources, site=self._site)
        except hawk.MacMismatch:
            if certificate is None:  # temporary credentials are meant to end with their issuer's token
                self._keyring.refused(issuer, "token")
            raise
        hawk.check_time(signed, now)
        if body is not None:
            hawk.check_payload(signed, content_type=content_type, body=body)
        if (why := _refusal(issuer, now)) is not None:
            self._keyring.refused(issuer, why)
            raise AuthenticationFailed(_REFUSALS[why])
        roles = await self._keyring.roles()
        held, expires = _expanded(roles, issuer.scopes), issuer.expires
        if certificate is not None:
            credentials.check_window(certificate, now)
            credentials.check_signature(certificate, signed.id, issuer.issuing_tokens[key])
            _check_issuer(certificate, signed.id, held)
            held = _expanded(roles, certificate.scopes)
            expires = min(certificate.expires, expires or certificate.expires)
        await self._keyring.used(issuer)
        if "authorizedScopes" in ext:
            held = _restricted(held, ext["authorizedScopes"], roles)
        scopes = held.union(_expanded(roles, [ANONYMOUS]))
        return Caller(client_id=signed.id, scopes=scopes, expires=expires, payload_hash=signed.hash)


def _expanded(roles: Roles, scopes: Iterable[str]) -> ScopeSet:
    """The expansion of scopes that a request relies on. Raises AuthenticationFailed where it costs too much.

    An expansion is the union of those of its scopes: what is expanded already is not expanded again.
    """
    try:
        return roles.expand(scopes)
    except ExpansionTooLarge as error:
        raise AuthenticationFailed(f"The credentials cannot be used: {error}") from None


_REFUSALS: Mapping[Refusal, str] = {"disabled": "Client is disabled", "ended": "Client has expired"}


def _refusal(client: Client, now: datetime) -> Refusal | None:
    if client.disabled:
        return "disabled"
    return "ended" if client.expires is not None and client.expires < now else None


def _check_issuer(certificate: credentials.Certificate, client_id: str, issuing: ScopeSet) -> None:
    """An issuer grants only scopes that it has, and only a name that it may create (contract 11.3)."""
    if certificate.issuer is not None:
        if certificate.issuer == client_id:
            raise AuthenticationFailed("ext.certificate.issuer must differ from the client id")
        if f"auth:create-client:{client_id}" not in issuing:
            raise AuthenticationFailed("The issuer may not create credentials of this name")
    if not all(scope in issuing for scope in certificate.scopes):
        raise AuthenticationFailed("ext.certificate.scopes go beyond the issuer's scopes")


def _restricted(held: ScopeSet, authorized: object, roles: Roles) -> ScopeSet:
    """The scopes that callers left themselves, expanded: some of those that they have (contract 11.4)."""
    if not isinstance(authorized, list) or not all(map(scope_rules.is_valid, authorized)):
        raise AuthenticationFailed("ext.authorizedScopes must be an array of valid scopes")
    available = held.union(_expanded(roles, [ANONYMOUS]))
    if not all(scope in available for scope in authorized):
        raise AuthenticationFailed("ext.authorizedScopes go beyond the caller's scopes")
    return _expanded(roles, authorized)
