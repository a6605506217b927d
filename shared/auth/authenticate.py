"""Authentication of a call: who sent it and what it may do (contract 11.4, 11.7).

Hawk signs the path as sent, while the Functions host decodes and encodes it again on its way to Python. So the
signature is checked against each request target that the client may have signed (design 8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from urllib.parse import quote, unquote_to_bytes

from shared.api import scopes as scope_rules
from shared.api.caller import Caller
from shared.api.scopes import ScopeSet
from shared.auth import certificates as credentials
from shared.auth import hawk
from shared.auth.clients.rows import CLIENT_ID, ROOT_CLIENT_ID, Keyring
from shared.auth.roles.expansion import ASSUME, ExpansionTooLarge, Roles
from shared.base.errors import AuthenticationFailed
from shared.base.shares import share_of

_RAW_HEADERS = ("x-waws-unencoded-url", "x-original-url")
"""Headers in which App Service's front end passes on the request target as it was sent."""

_CLIENT_ENCODINGS = (
    "",  # Python's client
    "!*'()~",  # encodeURIComponent
    "!*()~",  # Node's client
    "$&+=:@~",  # Go's url.PathEscape
    "/",  # the same four with raw slashes, which several routes accept (contract 1.4)
    "/!*'()~",
    "/!*()~",
    "/$&+=:@~",
    "/:@!$&'()*+,;=~",  # a URL typed by hand: everything that may stand in a path as it is
)
"""Sets of characters that clients leave unescaped in a route argument, besides letters, digits and `_.-~`."""

_RESERVED = frozenset("!$&'()*+,;=:@")
"""The characters that some clients leave unescaped in a route argument, and others do not."""

_ARGUMENT = re.compile(r"(<[^<>]+>)")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_ENCODED_PERCENT = re.compile(r"%25(?=[0-9A-Fa-f]{2})")
_DOT = re.compile(r"(?<=/)(?:\.|%2[Ee])(?:/|\Z)")
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


def target_of(url: str) -> str:
    """Returns path and query of a URL or of a request target, their encoding untouched."""
    target = _ORIGIN.sub("", url).partition("#")[0]
    return target if target.startswith("/") else f"/{target}"


def raw_target(url: str, headers: Mapping[str, str]) -> str | None:
    """Returns the target as it was on the request line, if the platform passes it on; header names in lower case. A
    client that can reach the app directly can send these headers itself. Therefore one counts only if it means the same
    as the URL that was routed."""
    routed = target_of(url)
    for name in _RAW_HEADERS:
        if headers.get(name):
            candidate = target_of(headers[name])
            path, mark, query = candidate.partition("?")
            # The host decodes the path, and then takes what was an encoded percent sign and two hexadecimal digits for
            # an encoded character; and it leaves out segments of a single dot.
            shown = (path, _ENCODED_PERCENT.sub("%", path), _DOT.sub("", path))
            if any(same_meaning(each + mark + query, routed) for each in shown):
                return candidate
    return None


def signed_targets(url: str, headers: Mapping[str, str], *, route: str = "", params: Mapping[str, str]) -> list[str]:
    """Returns the targets that a client may have signed for this request, the likeliest first; each means the routed
    one. `route` is the endpoint's whole path with `<param>` placeholders, and `params` are their decoded values."""
    raw = raw_target(url, headers)
    if raw is not None:
        # Node's client signs what url.parse returns, in which an apostrophe is encoded, and sends it as it is.
        return list(dict.fromkeys([raw, raw.replace("'", "%27")]))
    routed = target_of(url)
    _, mark, query = routed.partition("?")
    candidates = [routed]
    for safe in _CLIENT_ENCODINGS:
        encoded = {f"<{name}>": quote(value, safe=safe) for name, value in params.items()}
        candidates.append("".join(encoded.get(part, part) for part in _ARGUMENT.split(route)) + mark + query)
    return [candidate for candidate in dict.fromkeys(candidates) if same_meaning(candidate, routed)]


def is_ambiguous(url: str, headers: Mapping[str, str], params: Mapping[str, str]) -> bool:
    """Returns whether `signed_targets` may lack the one that the client signed, since the platform has decoded the
    path. It includes both spellings of each character that clients treat differently, but not every mixture of several.
    """
    if raw_target(url, headers) is not None:
        return False
    text = "".join(params.values())
    return len(_RESERVED & set(text)) > 1 or _ENCODED.search(text) is not None


def same_meaning(target: str, other: str) -> bool:
    """Returns whether two targets decode to the same path and to the same query parameters, in order."""
    if target == other:
        return True
    path, _, query = target.partition("?")
    other_path, _, other_query = other.partition("?")
    return unquote_to_bytes(path) == unquote_to_bytes(other_path) and (
        query == other_query or _parameters(query) == _parameters(other_query)
    )


def _parameters(query: str) -> list[tuple[bytes, bytes]]:
    # By hand: urllib's parsers decode to text, where different bytes can become the same replacement character.
    parts = (parameter.replace("+", " ").partition("=") for parameter in query.split("&") if parameter)
    return [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in parts]


ANONYMOUS = f"{ASSUME}anonymous"
"""The scope that every request holds, with or without credentials."""


class Authenticator:
    """Verifies requests to one site against a keyring."""

    def __init__(self, keyring: Keyring, root_url: str, now: Callable[[], datetime]) -> None:
        """Raises ValueError if `root_url` is not a root URL."""
        self._keyring = keyring
        self._site = hawk.Site.of(root_url)
        self._now = now

    async def caller(
        self, method: str, targets: Sequence[str], headers: Mapping[str, str], body: bytes | None
    ) -> Caller:
        """Returns who sent this request.

        `targets` are the request targets that the client may have signed, all meaning the routed request (see
        `signed_targets`); of `headers` (names in lower case) authorization and content-type are used; `body` is as
        sent, or None where it is not known: then its hash is not checked.
        Raises AuthenticationFailed when credentials were given and do not hold, and StorageUnavailable. Not to be
        called for endpoints without scopes: they never look at credentials (contract 11.7)."""
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
        # Check the MAC first: the errors that follow tell more, and cost more, and are only for clients that hold a
        # key.
        keys = [issuer.access_token]
        if certificate is not None:
            keys = [credentials.temporary_access_token(token, certificate.seed) for token in issuer.issuing_tokens]
        try:
            key = hawk.check_mac(signed, keys=keys, method=method, resources=resources, site=self._site)
        except hawk.MacMismatch:
            # Temporary credentials are meant to end with their issuer's token.
            if certificate is None and issuer.former_tokens:
                with suppress(hawk.MacMismatch):
                    former = issuer.former_tokens
                    hawk.check_mac(signed, keys=former, method=method, resources=resources, site=self._site)
                    self._keyring.refused(issuer, "token")
            raise
        hawk.check_time(signed, now)
        if body is not None:
            hawk.check_payload(signed, content_type=content_type, body=body)
        if issuer.disabled or (issuer.expires is not None and issuer.expires < now):
            self._keyring.refused(issuer, "disabled" if issuer.disabled else "ended")
            raise AuthenticationFailed("Client is disabled" if issuer.disabled else "Client has expired")
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
        share = share_of(issuer.client_id)
        if issuer.client_id == ROOT_CLIENT_ID:  # it issues credentials and URLs for others
            share = certificate.share if certificate is not None else str(ext.get(hawk.SHARE, share))
        return Caller(client_id=signed.id, scopes=scopes, expires=expires, share=share, payload_hash=signed.hash)


def _expanded(roles: Roles, scopes: Iterable[str]) -> ScopeSet:
    """Returns the expansion of scopes that a request relies on. Raises AuthenticationFailed where it costs too much. An
    expansion is the union of those of its scopes: what is expanded already is not expanded again."""
    try:
        return roles.expand(scopes)
    except ExpansionTooLarge as error:
        raise AuthenticationFailed(f"The credentials cannot be used: {error}") from None


def _check_issuer(certificate: credentials.Certificate, client_id: str, issuing: ScopeSet) -> None:
    """Raises AuthenticationFailed if an issuer grants scopes that it lacks, or a forbidden name (contract 11.3)."""
    if certificate.issuer is not None:
        if not CLIENT_ID.fullmatch(client_id):
            raise AuthenticationFailed("the name of temporary credentials has characters that no client id may have")
        if certificate.issuer == client_id:
            raise AuthenticationFailed("ext.certificate.issuer must differ from the client id")
        if f"auth:create-client:{client_id}" not in issuing:
            raise AuthenticationFailed("The issuer may not create credentials of this name")
    if not all(scope in issuing for scope in certificate.scopes):
        raise AuthenticationFailed("ext.certificate.scopes go beyond the issuer's scopes")


def _restricted(held: ScopeSet, authorized: object, roles: Roles) -> ScopeSet:
    """Returns the `authorizedScopes` of a request, expanded: a part of the caller's scopes (contract 11.4)."""
    if not isinstance(authorized, list) or not all(map(scope_rules.is_valid, authorized)):
        raise AuthenticationFailed("ext.authorizedScopes must be an array of valid scopes")
    available = held.union(_expanded(roles, [ANONYMOUS]))
    if not all(scope in available for scope in authorized):
        raise AuthenticationFailed("ext.authorizedScopes go beyond the caller's scopes")
    return _expanded(roles, authorized)
