"""Answers: JSON bodies, headers, the error envelope (contract 1.3, 12), and the root's paths (contract 1.2)."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from shared.base.dates import format_date
from shared.base.errors import ApiError
from shared.base.frozen import dataclass, replace
from shared.base.jsontext import write
from shared.base.version import VERSION

JSON_TYPE = "application/json; charset=utf-8"
CORS: Mapping[str, str] = {
    "access-control-allow-origin": "*",
    "access-control-max-age": "900",
    "access-control-allow-methods": "OPTIONS,GET,HEAD,POST,PUT,DELETE,TRACE,CONNECT",
    "access-control-request-method": "*",
    "access-control-allow-headers": "X-Requested-With,Content-Type,Authorization,Accept,Origin,Cache-Control",
}
ALWAYS: Mapping[str, str] = {
    "cache-control": "no-store no-cache must-revalidate",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}
HTTPS_ONLY: Mapping[str, str] = {"strict-transport-security": "max-age=7776000"}
"""The header that tells browsers to use HTTPS alone for 90 days (contract 1.3)."""
MOST_SAID = 24_000
"""The most bytes of an error's message."""
MOST_ECHOED = 4096
"""The most bytes of a body that an error repeats."""
MOST_NAMED = 2048
"""The most bytes of a URL parameter that an error repeats."""
MOST_REFUSED = 64 * 1024
"""The most bytes of an error's envelope, which follows from the limits of its parts."""
PACKED_FROM = 4096
"""Size in bytes from which on a body is worth compressing."""
PACKING_LEVEL = 1
"""Compression level of gzip: it takes a third of the default level's time for four fifths of the effect."""
VARIES: Mapping[str, str] = {"vary": "accept-encoding"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)
    outcome: str | None = None
    """The outcome to log and count in place of the status."""
    is_shared: bool = True
    """Whether pages of other origins may read it: the console's own files they need not."""


NO_CONTENT = Answer(status=204)

_SAFE = "".join(map(chr, range(0x20, 0x7F)))


def header_value(text: str) -> str:
    """Returns a header's value with all but printable ASCII percent-encoded, as a URL may have it: the Functions host
    answers 500 in place of an answer with any other."""
    return text if text.isascii() and text.isprintable() else quote(text, safe=_SAFE, errors="replace")


def fixed_headers(root_url: str) -> dict[str, str]:
    """Headers of every answer of a deployment. Browsers use HTTPS alone where the root URL is an `https:` one."""
    return {**ALWAYS, **(HTTPS_ONLY if root_url.startswith("https:") else {})}


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Returns a JSON answer."""
    return Answer(status=status, body=write(value), headers=headers or {})


def pack(answer: Answer) -> Answer:
    """Returns the answer, compressed."""
    body = gzip.compress(answer.body, PACKING_LEVEL, mtime=0)
    return replace(answer, body=body, headers={**answer.headers, "content-encoding": "gzip", **VARIES})


def redirection(url: str) -> Answer:
    """Returns a 303 to a URL, whose body is for people."""
    body = f"See Other. Redirecting to {url}".encode()
    return Answer(status=303, body=body, content_type="text/plain; charset=utf-8", headers={"location": url})


def not_found() -> Answer:
    """Returns the answer for an unknown path or method, which has no error envelope (contract 1.4)."""
    return json_answer({"error": "Not found"}, 404)


def echo(body: bytes, payload: Any) -> Any:
    """Returns a request's body as an error repeats it: `payload` as it was parsed, or the beginning of a long one."""
    if len(body) <= MOST_ECHOED:
        return payload or {}
    return f"{body[: MOST_ECHOED // 2].decode(errors='replace')}… (cut: the body has {len(body)} bytes)"


def error_answer(error: ApiError, *, method: str, params: Mapping[str, str], payload: Any, now: datetime) -> Answer:
    """Returns the error envelope. `method` is the endpoint's name, `payload` what `echo` makes of the body. It never
    has more than MOST_REFUSED bytes, whatever the caller sent."""
    time = format_date(now)
    message = (
        f"{_cut(error.message, MOST_SAID)}\n\n---\n\n* method:     {method}\n* errorCode:  {error.code}\n"
        f"* statusCode: {error.status}\n* time:       {time}"
    )
    headers: dict[str, str] = {}
    if error.status == 401:
        headers["www-authenticate"] = "hawk"
    if error.retry_after is not None:
        headers["retry-after"] = error.retry_after
    shown = {name: _cut(value, MOST_NAMED) for name, value in params.items()}
    request_info = {"method": method, "params": shown, "payload": payload, "time": time}
    body = write({"code": error.code, "message": message, "requestInfo": request_info})
    return Answer(status=error.status, body=body, headers=headers, outcome=error.outcome)


def _cut(text: str, most: int) -> str:
    """Returns the text, cut so that it takes at most `most` bytes as JSON (without quotes)."""
    if len(text) <= most and len(write(text)) <= most + 2:
        return text
    return f"{text[: most // 6]}… (cut: {len(text)} characters)"  # a character takes up to six bytes: \u0000


_ROBOTS = b"User-agent: *\nDisallow: /\n"


def version_of(build: str) -> Mapping[str, str]:
    """Returns the deployed version, in the form of Mozilla's Dockerflow; unknown fields are empty."""
    return {"version": VERSION, "commit": "", "source": "", "build": build}


SAME_AS: Mapping[str, str] = {
    "/__heartbeat__": "/api/queue/v1/__heartbeat__",
    "/__lbheartbeat__": "/api/queue/v1/__lbheartbeat__",
}
"""Paths at the root, each with the path of the API whose answer to GET it returns, whatever the method."""


def at_root(path: str, build: str) -> Answer | None:
    """Returns the answer at a path of the root, None for any other path."""
    match path:
        case "/__version__":
            return json_answer(version_of(build))
        case "/robots.txt":
            return Answer(body=_ROBOTS, content_type="text/plain; charset=utf-8")
        case _:
            return None
