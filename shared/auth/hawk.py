"""Hawk as Taskcluster uses it: header and bewit syntax, MACs, payload hash, clock skew.

Pure. The rules are contract 11.1, 11.2 and 11.6. MACs are made here with `hmac`, not with mohawk: that formats the
whole payload and the signed text, certificates included, for its debug log on every call."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from shared.base.errors import AuthenticationFailed
from shared.base.frozen import dataclass
from shared.base.shares import Share

MAX_LENGTH = 4096
"""The longest Authorization header, and the longest target with a bewit, in characters."""
MAX_SKEW_SECONDS = 900
SHARE = "share"
"""Name of the property in the `ext` of the root client's bewits which states the share that their use counts for."""

_HEADER = re.compile(r"hawk[ \t]+", re.IGNORECASE)
_ATTRIBUTE = re.compile(r'([a-z]+)="([\x20\x21\x23-\x5b\x5d-\x7e]+)"[ \t]*(?:,[ \t]*|\Z)')
_ATTRIBUTES = frozenset({"id", "ts", "nonce", "hash", "ext", "mac", "app", "dlg"})
_SECONDS = re.compile(r"[0-9]{1,15}")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_BEWIT = re.compile(r"[?&]bewit=([^&]*)")


class MacMismatch(AuthenticationFailed):
    """Raised when none of the known keys signed this request for any of the possible targets."""

    def __init__(self) -> None:
        super().__init__("Bad mac, or no such client")


@dataclass(frozen=True, kw_only=True)
class Site:
    """The address at which clients believe the service to be: host in lower case, and port. Both are signed."""

    host: str
    port: int

    @classmethod
    def of(cls, root_url: str) -> Site:
        """Reads a root URL, which has a scheme, a host and perhaps a port. Raises ValueError if it has other parts."""
        parts = urlsplit(root_url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
            raise ValueError("a root URL is http(s)://host or http(s)://host:port")
        return cls(host=parts.hostname, port=parts.port or (443 if parts.scheme == "https" else 80))


@dataclass(frozen=True, kw_only=True)
class Signed:
    """The values by which a caller proves its identity. Texts are as sent: they are what was signed."""

    id: str
    ts: str
    """Time at which the request was signed, or the bewit ends, in seconds since the epoch."""
    mac: str
    nonce: str = ""
    hash: str = ""
    ext: str = ""
    app: str = ""
    dlg: str = ""
    bewit: bool = False


def parse_header(header: str) -> Signed:
    """Returns the attributes of an Authorization header, in time linear in its length. Raises AuthenticationFailed."""
    if len(header) > MAX_LENGTH:
        raise AuthenticationFailed("Header length too long")
    scheme = _HEADER.match(header)
    if scheme is None:
        raise AuthenticationFailed("Authorization must be of the scheme Hawk")
    attributes: dict[str, Any] = {}
    position = scheme.end()
    while position < len(header):
        attribute = _ATTRIBUTE.match(header, position)
        if attribute is None:
            raise AuthenticationFailed("Bad header format")
        name, value = attribute.groups()
        if name not in _ATTRIBUTES:
            raise AuthenticationFailed("Unknown attribute in header")
        if name in attributes:
            raise AuthenticationFailed(f"Duplicate attribute in header: {name}")
        attributes[name] = value
        position = attribute.end()
    if not attributes.keys() >= {"id", "ts", "nonce", "mac"}:
        raise AuthenticationFailed("Missing attributes in header")
    if _SECONDS.fullmatch(attributes["ts"]) is None:
        raise AuthenticationFailed("ts must be whole seconds since the epoch")
    return Signed(**attributes)


def has_bewit(target: str) -> bool:
    """Returns whether the request target has a `bewit` parameter."""
    return "bewit=" in target and _BEWIT.search(target) is not None


def parse_bewit(target: str) -> tuple[Signed, str]:
    """Returns the bewit of a request target, and the target as it was signed, without it. Raises AuthenticationFailed.
    If the parameter is repeated, the last one counts. The others remain part of the signed target."""
    if len(target) > MAX_LENGTH:
        raise AuthenticationFailed("URL too long for a bewit")
    *_, parameter = _BEWIT.finditer(target)
    text = _decode_base64(parameter[1]).decode("ascii", "replace")
    parts = text.split("\\")
    if _PRINTABLE.fullmatch(text) is None or len(parts) != 4 or not all(parts[:3]):
        raise AuthenticationFailed("Invalid bewit structure")
    identity, expiry, mac, ext = parts
    if _SECONDS.fullmatch(expiry) is None:
        raise AuthenticationFailed("Invalid bewit structure")
    before, after = target[: parameter.start()], target[parameter.end() :]
    # What follows starts with "&"; where the bewit was the first parameter, the next one takes its "?".
    unsigned = before + (target[parameter.start()] + after[1:] if len(after) > 1 else "")
    return Signed(id=identity, ts=expiry, mac=mac, ext=ext, bewit=True), unsigned


def make_bewit(
    client_id: str,
    key: str,
    resource: str,
    expiry: datetime,
    site: Site,
    *,
    authorized_scopes: Sequence[str],
    share: Share,
) -> str:
    """Returns a bewit, which goes into a URL as `?bewit=…`: until `expiry` it lets anyone GET the resource (contract
    11.6). It carries only `authorized_scopes` of the client's scopes (contract 11.4); its use counts for `share`."""
    restriction = json.dumps({"authorizedScopes": list(authorized_scopes), SHARE: share}, separators=(",", ":"))
    ext = base64.b64encode(restriction.encode()).decode()
    signed = Signed(id=client_id, ts=str(int(expiry.timestamp())), mac="", ext=ext, bewit=True)
    mac = calculate_mac(signed, key=key, method="GET", resource=resource, site=site).decode()
    text = "\\".join((client_id, signed.ts, mac, ext))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def check_mac(signed: Signed, *, keys: Sequence[str], method: str, resources: Sequence[str], site: Site) -> int:
    """Returns which of the keys signed this request for one of the resources. Raises MacMismatch when none did.
    `resources` are the request targets (path and query, percent-encoding as on the request line) that mean the routed
    request; all are tried, so that the time taken does not disclose which one it was."""
    given = signed.mac.encode()
    matching = [
        number
        for number, key in enumerate(keys)
        for resource in resources
        if hmac.compare_digest(given, calculate_mac(signed, key=key, method=method, resource=resource, site=site))
    ]
    if not matching:
        raise MacMismatch
    return matching[0]


def calculate_mac(signed: Signed, *, key: str, method: str, resource: str, site: Site) -> bytes:
    """Returns the MAC in base64 of what a client signs for this request (contract 11.1; 11.6 for a bewit)."""
    lines = [
        "hawk.1.bewit" if signed.bewit else "hawk.1.header",
        signed.ts,
        signed.nonce,
        "GET" if signed.bewit else method.upper(),
        resource,
        site.host,
        str(site.port),
        signed.hash,
        # Header and bewit syntax leave neither a backslash nor a line break to escape.
        signed.ext,
    ]
    if signed.app:
        lines += [signed.app, signed.dlg]
    text = "\n".join([*lines, ""])
    return base64.b64encode(hmac.digest(key.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256))


def check_time(signed: Signed, now: datetime) -> None:
    """Raises AuthenticationFailed for a header signed more than 15 minutes ago or ahead, or a bewit at its end."""
    seconds = int(signed.ts)
    if signed.bewit:
        if seconds <= now.timestamp():
            raise AuthenticationFailed("Access expired")
    elif abs(now.timestamp() - seconds) > MAX_SKEW_SECONDS:
        raise AuthenticationFailed("Stale timestamp")


def check_payload(signed: Signed, *, content_type: str, body: bytes) -> None:
    """Raises AuthenticationFailed if a payload hash was given and does not match."""
    if signed.hash and not hmac.compare_digest(signed.hash.encode(), payload_hash(content_type, body)):
        raise AuthenticationFailed("Bad payload hash")


def payload_hash(content_type: str, body: bytes) -> bytes:
    """Returns the payload hash in base64. Only a JSON body counts as one (contract 11.1)."""
    media_type = content_type.partition(";")[0].strip().lower()
    counted = body if media_type == "application/json" else b""
    digest = hashlib.sha256(b"hawk.1.payload\n" + media_type.encode("utf-8", "surrogatepass") + b"\n")
    digest.update(counted)
    digest.update(b"\n")
    return base64.b64encode(digest.digest())


def parse_ext(ext: str) -> Mapping[str, object]:
    """Returns the object in `ext`; empty when there is no ext. Raises AuthenticationFailed (contract 11.2)."""
    if not ext:
        return {}
    try:
        value = json.loads(_decode_base64(ext).decode("utf-8"))
    except (ValueError, RecursionError):
        raise AuthenticationFailed("Failed to parse ext") from None
    if not isinstance(value, dict):
        raise AuthenticationFailed("ext must be a JSON object")
    return value


def _decode_base64(text: str) -> bytes:
    """Decodes base64 of either alphabet, with or without padding. Raises AuthenticationFailed."""
    digits = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("Not base64") from None
