"""Pages: the query options `limit` and `continuationToken` (contract 13)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from shared.errors import InputError

MOST = 1000
"""Entries of a page, unless the caller asks for fewer."""
OF_LOOKUPS = 200
"""Entries of a page of what is read one by one, unless the caller says how many."""
_LONGEST = 513
"""Characters of a start: a key has 512 at the most."""


def limit_of(query: Mapping[str, str], default: int = MOST) -> int:
    """How many entries the page may hold: more than the most are capped silently, 0 is an empty page."""
    # Digits beyond any page are cut off before they are read, as a number may have very many.
    text = query.get("limit", str(default)).lstrip("0") or "0"
    return min(int(text[:6]), MOST) if len(text) <= 6 else MOST


def start_of(query: Mapping[str, str]) -> str:
    """The key at which the page starts; empty for the first page. Raises InputError for a token that is not ours."""
    token = query.get("continuationToken")
    if token is None:
        return ""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise InputError("invalid continuationToken") from None
    if not text.isprintable() or len(text) > _LONGEST:
        raise InputError("invalid continuationToken")
    return text


def token_of(start: str) -> str:
    """The token, safe in URLs, of the page that starts at this key."""
    return base64.urlsafe_b64encode(start.encode("ascii")).rstrip(b"=").decode()


def continued(resume: str | None) -> dict[str, str]:
    """The token of the next page, if there is one."""
    return {} if resume is None else {"continuationToken": token_of(resume)}
