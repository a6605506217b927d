"""Signed URLs and headers for any path: the public client signs only those of calls that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import mohawk
import taskcluster


class _AnyUrl(taskcluster.Queue):  # type: ignore[misc]  # the public client has no types
    """A client whose calls are URLs."""

    def buildUrl(self, methodName: str, *args: Any, **kwargs: Any) -> str:  # noqa: N802, N803 - the client's names
        return methodName


def signed_url(credentials: Mapping[str, str], url: str, lifetime: timedelta) -> str:
    """Returns the URL with a signature (`bewit`): anyone who has it may GET it with the signer's scopes until the time
    is over. Raises TaskclusterFailure for credentials that cannot sign."""
    client = _AnyUrl({"rootUrl": "https://unused.example.com", "credentials": dict(credentials)})
    return str(client.buildSignedUrl(url, expiration=int(lifetime.total_seconds())))


def signed_header(credentials: Mapping[str, str], method: str, url: str) -> str:
    """Returns the header that authorizes one call now. The body is not signed, so any may be sent."""
    client = _AnyUrl({"rootUrl": "https://unused.example.com", "credentials": dict(credentials)})
    key = {"id": credentials["clientId"], "key": credentials["accessToken"], "algorithm": "sha256"}
    sender = mohawk.Sender(key, url, method, ext=client.makeHawkExt(), always_hash_content=False)
    return f"Authorization: {sender.request_header}"
