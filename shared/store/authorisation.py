"""Authorisation of hot requests: a signature with the account's key, or an identity's token (`wire.Authorisation`).

The signatures are those of "Authorize with Shared Key" in the storage services' REST reference: tables sign little,
queues all headers that they have in common with blobs."""

from __future__ import annotations

import base64
import hmac
import random
import re
import time
from functools import lru_cache
from urllib.parse import unquote

from azure.core.credentials import AccessToken, AccessTokenInfo, AzureNamedKeyCredential, TokenRequestOptions
from azure.core.credentials_async import AsyncSupportsTokenInfo, AsyncTokenCredential

from shared.base.concurrency import OneByOne
from shared.base.frozen import dataclass
from shared.store.wire import Authorisation, Request, StorageAnswer

TOKEN_SCOPE = "https://storage.azure.com/.default"  # noqa: S105 - a scope, not a secret
_EARLY_SECONDS = 300
"""A token with less validity than this is replaced, unless it names its own refresh time."""
_JITTER_SECONDS = 60
"""Seconds over which the replacement of tokens is spread, so that not all processes ask for a new one at once."""
_CLAIMS = re.compile(r'\bclaims="([^"]+)"')


def authorisations(credential: AzureNamedKeyCredential | AsyncTokenCredential) -> tuple[Authorisation, Authorisation]:
    """Returns the authorisations for tables and for queues: by an account's key, or by tokens, which both accept."""
    if isinstance(credential, AzureNamedKeyCredential):
        return TableKey(credential), QueueKey(credential)
    bearer = Bearer(credential)
    return bearer, bearer


@dataclass(frozen=True)
class TableKey:
    """Signs requests to tables by the account's key, which may be replaced."""

    _credential: AzureNamedKeyCredential

    async def renewed(self, answer: StorageAnswer) -> bool:
        """Returns False: the same key would be refused again."""
        return False

    async def authorise(self, request: Request) -> None:
        """Signs what Azure's tables ask to be signed: method, type, date, resource."""
        account, key = self._credential.named_key
        headers = request.headers
        words = (request.method, "", headers.get("Content-Type", ""), headers["x-ms-date"], f"/{account}{request.path}")
        headers["Authorization"] = _shared_key(account, key, "\n".join(words))


class QueueKey(TableKey):
    """Signs requests to queues, likewise."""

    async def authorise(self, request: Request) -> None:
        """Signs what Azure's queues ask to be signed: method, length, type, Azure's headers, resource and query."""
        account, key = self._credential.named_key
        headers = request.headers
        ours = sorted((name, value) for name, value in headers.items() if name.startswith("x-ms-"))
        options = sorted(request.query.split("&")) if request.query else []
        words = (
            *(request.method, "", "", str(len(request.content) or ""), "", headers.get("Content-Type", "")),
            *("", "", "", "", "", ""),  # date, four conditions, range: not used
            *(f"{name}:{value}" for name, value in ours),
            f"/{account}{request.path}",
            *(f"{name}:{unquote(value)}" for name, _, value in (option.partition("=") for option in options)),
        )
        headers["Authorization"] = _shared_key(account, key, "\n".join(words))


class Bearer:
    """Tokens of an identity, each kept until shortly before its end."""

    def __init__(self, credential: AsyncTokenCredential) -> None:
        self._credential = credential
        self._renewals = OneByOne()
        self._token: AccessToken | AccessTokenInfo | None = None
        self._renew_at = 0.0

    async def authorise(self, request: Request) -> None:
        """Adds the token. Raises ValueError for a service that does not speak TLS: anyone who listens could use it."""
        if not request.endpoint.origin.startswith("https://"):
            raise ValueError("a token is sent over HTTPS only")
        if self._is_due():
            await self._renewals.run(self._renew)
        assert self._token is not None, "it was just asked for"
        request.headers["Authorization"] = f"Bearer {self._token.token}"

    async def renewed(self, answer: StorageAnswer) -> bool:
        """Forgets the token, and asks for one with other claims if the answer does (continuous access evaluation)."""
        self._token = None
        challenge = answer.header("www-authenticate") or ""
        claims = _CLAIMS.search(challenge)
        if claims is None or 'error="insufficient_claims"' not in challenge:
            return False
        wanted = base64.urlsafe_b64decode(claims[1] + "=" * (-len(claims[1]) % 4)).decode()
        await self._renewals.run(lambda: self._renew(wanted))
        return True

    def _is_due(self) -> bool:
        return self._token is None or time.time() >= self._renew_at

    async def _renew(self, claims: str | None = None) -> None:
        """Asks for a token with these claims; without any, if it is still due: another call may have asked."""
        if claims is None and not self._is_due():
            return
        if isinstance(self._credential, AsyncSupportsTokenInfo):
            options: TokenRequestOptions = {"claims": claims} if claims else {}
            token: AccessToken | AccessTokenInfo
            token = await self._credential.get_token_info(TOKEN_SCOPE, options=options)
        else:
            token = await self._credential.get_token(TOKEN_SCOPE, claims=claims)
        self._token = token
        renew_at = getattr(token, "refresh_on", None) or token.expires_on - _EARLY_SECONDS
        self._renew_at = min(renew_at + _JITTER_SECONDS * random.random(), token.expires_on)  # noqa: S311 - no secret


def _shared_key(account: str, key: str, text: str) -> str:
    signer = _signer(key).copy()  # in half of the time of `hmac.digest`
    signer.update(text.encode())
    return f"SharedKey {account}:{base64.b64encode(signer.digest()).decode()}"


@lru_cache(maxsize=4)
def _signer(key: str) -> hmac.HMAC:
    return hmac.new(base64.b64decode(key), digestmod="sha256")
