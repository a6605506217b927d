"""Temporary credentials: certificates of version 1, how they are issued and how they are checked. Pure. The rules are
contract 11.3, the credentials of a claim contract 5.3."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from shared.api import scopes as scope_rules
from shared.base.errors import AuthenticationFailed
from shared.base.frozen import dataclass
from shared.base.shares import Share

MAX_LIFETIME = timedelta(days=31)
"""The longest time from start to expiry of a certificate."""
SKEW = timedelta(minutes=5)
"""The most by which the clocks of issuer and verifier may differ."""
_SEED_LENGTH = 44
_MAX_DATE_MS = 8_640_000_000_000_000
"""The end of JavaScript's calendar, in ms since the epoch: no certificate of any client can state a later time."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A well-formed certificate. Its validity is checked separately. `start` and `expiry` in ms since the epoch."""

    issuer: str | None
    """Client id of the signer; None for unnamed credentials, whose signer is the Hawk id itself."""
    seed: str
    start: int | float
    expiry: int | float
    scopes: tuple[str, ...]
    signature: str

    @property
    def share(self) -> Share:
        """The share that the root client has written into the seed."""
        return self.seed[_SEED_LENGTH // 2 :]

    @property
    def expires(self) -> datetime:
        """When the credentials end, skew not counted."""
        return datetime.fromtimestamp(self.expiry / 1000, UTC)


def parse_certificate(value: object) -> Certificate:
    """Returns a certificate from the `ext` of a request. Raises AuthenticationFailed if it is not of version 1."""
    if not isinstance(value, dict):
        raise AuthenticationFailed("ext.certificate must be an object")
    version = value.get("version")
    if isinstance(version, bool) or version != 1:
        raise AuthenticationFailed("ext.certificate.version must be 1")
    issuer = value.get("issuer")
    if "issuer" in value and not isinstance(issuer, str):
        raise AuthenticationFailed("ext.certificate.issuer must be a string")
    if "issuer" not in value and "clientId" in value:
        raise AuthenticationFailed("ext.certificate.clientId must only be used with ext.certificate.issuer")
    seed = value.get("seed")
    # Every client makes the seed of two slugids: ASCII, so that all sides count its characters alike.
    if not isinstance(seed, str) or len(seed) != _SEED_LENGTH or not seed.isascii():
        raise AuthenticationFailed("ext.certificate.seed must be 44 characters")
    certificate_scopes = value.get("scopes")
    if not isinstance(certificate_scopes, list) or not all(map(scope_rules.is_valid, certificate_scopes)):
        raise AuthenticationFailed("ext.certificate.scopes must be an array of valid scopes")
    signature = value.get("signature")
    if not isinstance(signature, str):
        raise AuthenticationFailed("ext.certificate.signature must be a string")
    return Certificate(
        issuer=issuer,
        seed=seed,
        start=_milliseconds(value, "start"),
        expiry=_milliseconds(value, "expiry"),
        scopes=tuple(certificate_scopes),
        signature=signature,
    )


def _milliseconds(certificate: Mapping[str, object], name: str) -> int | float:
    value = certificate.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_DATE_MS:
        raise AuthenticationFailed(f"ext.certificate.{name} must be a time in milliseconds")
    # JavaScript has one kind of number: 1.0 is signed as "1".
    return int(value) if value == int(value) else value


def check_window(certificate: Certificate, now: datetime) -> None:
    """Raises AuthenticationFailed outside of the certificate's time, or when that is longer than 31 days."""
    now_ms = now.timestamp() * 1000
    skew_ms = SKEW.total_seconds() * 1000
    if certificate.start > now_ms + skew_ms:
        raise AuthenticationFailed("ext.certificate.start is in the future")
    if certificate.expiry < now_ms - skew_ms:
        raise AuthenticationFailed("ext.certificate.expiry has passed")
    if certificate.expiry - certificate.start > MAX_LIFETIME.total_seconds() * 1000:
        raise AuthenticationFailed("ext.certificate must not last longer than 31 days")


def check_signature(certificate: Certificate, client_id: str, issuer_token: str) -> None:
    """Raises AuthenticationFailed unless the issuer's access token signed this certificate for this client id."""
    name = client_id if certificate.issuer is not None else None
    expected = sign(issuer_token, certificate, name)
    if not hmac.compare_digest(expected.encode(), certificate.signature.encode("utf-8", "surrogatepass")):
        raise AuthenticationFailed("ext.certificate.signature is not valid")


def temporary_access_token(issuer_token: str, seed: str) -> str:
    """Returns the access token that belongs to a seed: its HMAC in URL-safe base64 without padding."""
    digest = hmac.digest(issuer_token.encode(), seed.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def temporary_credentials(
    *,
    client_id: str | None,
    scopes: Sequence[str],
    start: datetime,
    expiry: datetime,
    issuer: str,
    issuer_token: str,
    seed: str,
) -> dict[str, str]:
    """Credentials as responses carry them: `clientId`, `accessToken` and `certificate`, the latter as JSON text.

    Named when `client_id` is given, else unnamed (the client id is then the issuer's). `seed` is two fresh slugids; for
    the root client, a slugid and the share in whose name calls with these credentials come. Raises ValueError for what
    no verifier would accept."""
    if not timedelta(0) <= expiry - start <= MAX_LIFETIME:
        raise ValueError("temporary credentials last from 0 to 31 days")
    if len(seed) != _SEED_LENGTH:
        raise ValueError("a seed has 44 characters")
    if client_id == issuer:
        raise ValueError("named credentials need a name other than their issuer's")
    if not all(map(scope_rules.is_valid, scopes)):
        raise ValueError("scopes are printable ASCII")
    certificate = Certificate(
        issuer=issuer if client_id is not None else None,
        seed=seed,
        start=epoch_milliseconds(start),
        expiry=epoch_milliseconds(expiry),
        scopes=tuple(scopes),
        signature="",
    )
    named = {"issuer": issuer} if client_id is not None else {}
    body = {
        "version": 1,
        "scopes": list(scopes),
        "start": certificate.start,
        "expiry": certificate.expiry,
        "seed": seed,
        **named,
        "signature": sign(issuer_token, certificate, client_id),
    }
    return {
        "clientId": client_id or issuer,
        "accessToken": temporary_access_token(issuer_token, seed),
        "certificate": json.dumps(body, separators=(",", ":")),
    }


def sign(issuer_token: str, certificate: Certificate, client_id: str | None) -> str:
    """Returns the signature of a certificate in base64; `client_id` is the name of named credentials."""
    named = [] if client_id is None else [f"clientId:{client_id}", f"issuer:{certificate.issuer}"]
    text = "\n".join(
        [
            "version:1",
            *named,
            f"seed:{certificate.seed}",
            f"start:{certificate.start}",
            f"expiry:{certificate.expiry}",
            "scopes:",
            *certificate.scopes,
        ]
    )
    digest = hmac.digest(issuer_token.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.b64encode(digest).decode()


def epoch_milliseconds(time: datetime) -> int:
    """Returns whole milliseconds since the epoch; digits beyond are cut off (contract 3.3)."""
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def task_client_id(*, task_id: str, run_id: int, worker_group: str, worker_id: str, taken_until: datetime) -> str:
    """Returns the client id of a claim's credentials; its end is in Unix seconds with their fraction (contract 5.3)."""
    seconds, milliseconds = divmod(epoch_milliseconds(taken_until), 1000)
    fraction = f".{milliseconds:03}".rstrip("0") if milliseconds else ""
    return f"task-client/{task_id}/{run_id}/on/{worker_group}/{worker_id}/until/{seconds}{fraction}"


def task_scopes(*, task_id: str, run_id: int, scopes: Iterable[str]) -> list[str]:
    """Returns the scopes of a claim's credentials: what the run needs, then the task's own (contract 5.3)."""
    return [
        f"queue:reclaim-task:{task_id}/{run_id}",
        f"queue:resolve-task:{task_id}/{run_id}",
        f"queue:create-artifact:{task_id}/{run_id}",
        *scopes,
    ]
