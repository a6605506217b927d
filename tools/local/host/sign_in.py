"""A page of the local host itself, beside the app's: it asks whether to sign in to the console, and redeems the code of
`./dev ui` (`tools.local.handover`).

It is on the origin of the console, so that it can use the console's own sign-in; the app knows nothing of it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.local.handover import PAGE, redeem
from tools.local.host.asgi import Message, Receive, Send, respond

SCRIPT = f"{PAGE}.js"
_FILES = Path(__file__).with_name("sign_in")
_BODY_LIMIT = 1024
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

Asgi = Callable[[Message, Receive, Send], Awaitable[None]]


class SignInPage:
    """Serves the page, and passes everything else on to the app."""

    def __init__(self, app: Asgi, codes: Path) -> None:
        """Takes the app, and the folder in which codes are left."""
        self._app = app
        self._codes = codes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves a request by the ASGI protocol; only `http` scopes are expected."""
        match scope["method"], scope["raw_path"].decode("ascii", "replace"):
            case "GET", path if path == PAGE:
                await _send(send, 200, "text/html; charset=utf-8", (_FILES / "page.html").read_bytes())
            case "GET", path if path == SCRIPT:
                await _send(send, 200, "text/javascript; charset=utf-8", (_FILES / "page.js").read_bytes())
            case "POST", path if path == PAGE:
                await self._redeem(scope, receive, send)
            case _:
                await self._app(scope, receive, send)

    async def _redeem(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers the credentials to the page itself: browsers let no other site send JSON or read the answer."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        code = _code(await _body(receive)) if _is_the_page(headers) else None
        credentials = None if code is None else redeem(self._codes, code, datetime.now(UTC))
        if credentials is None:
            await _send(send, 403, "application/json", b"{}")
        else:
            await _send(send, 200, "application/json", json.dumps(credentials).encode())


def _is_the_page(headers: Mapping[str, str]) -> bool:
    is_same_site = urlsplit(headers.get("origin", "")).netloc == headers["host"]
    return is_same_site and headers.get("content-type") == "application/json"


def _code(body: bytes) -> str | None:
    try:
        found: Any = json.loads(body)
    except ValueError:
        return None
    code = found.get("code") if isinstance(found, dict) else None
    return code if isinstance(code, str) else None


async def _body(receive: Receive) -> bytes:
    """Reads the body of a request, up to the length that a code can have."""
    body = b""
    more = True
    while more and len(body) <= _BODY_LIMIT:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _send(send: Send, status: int, content_type: str, body: bytes) -> None:
    await respond(send, "", status, {**_HEADERS, "content-type": content_type}, body)
