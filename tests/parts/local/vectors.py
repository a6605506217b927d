"""Raw requests to Microsoft's Functions host while it served tests/parts/local/echo_app, and their answers.

`recorded/vectors.json` holds them, a line each: name, request, what was seen and answered as far as it is not usual,
and the answer that the function was asked for. `{a*400}` stands for 400 times `a`, `{bytes*4}` for all bytes four
times, `{headers*90}` for 90 headers. `differences` sends one to a host and compares.
"""

import base64
import hashlib
import json
import re
import socket
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

SECONDS = 20
_ALL_BYTES = bytes(range(256)).decode("latin-1")
_TOKEN = re.compile(r"\{(.|bytes|headers)\*(\d+)\}")
_SHOWN = 200


@dataclass(frozen=True)
class Vector:
    """One recorded request."""

    name: str
    request: bytes
    expected: dict[str, Any]


def _spelled_out(value: Any) -> Any:
    """Replaces the short forms in texts, and in whatever holds texts."""
    if isinstance(value, dict):
        return {name: _spelled_out(each) for name, each in value.items()}
    return _TOKEN.sub(_repeated, value) if isinstance(value, str) else value


def _repeated(match: re.Match[str]) -> str:
    if match[1] == "headers":
        return "".join(f"X-H{number}: v\r\n" for number in range(int(match[2])))
    return (_ALL_BYTES if match[1] == "bytes" else match[1]) * int(match[2])


def _vector(name: str, request: str, expected: dict[str, Any], answer: dict[str, Any] | None = None) -> Vector:
    asked = base64.b64encode(json.dumps(_spelled_out(answer)).encode()).decode()
    usual = {"content-type": "application/json", "transfer-encoding": "chunked"}
    full = {
        "status": "200",
        "end": "kept",
        "server": "Kestrel",
        "headers": usual,
        "body": "",
        **_spelled_out(expected),
    }
    if "seen" in full:
        del full["body"]
        usual_request = {"method": "GET", "url": "http://127.0.0.1/x", "params": {}, "route": "x", "length": 0}
        full["seen"] = usual_request | full["seen"]
        full["seen"]["headers"] = {"host": "127.0.0.1", **full["seen"].get("headers", {})}
    return Vector(name, _spelled_out(request).replace("{answer}", asked).encode("latin-1"), full)


VECTORS = [_vector(*entry) for entry in json.loads((Path(__file__).parent / "recorded/vectors.json").read_text())]


def differences(vector: Vector, port: int) -> dict[str, tuple[Any, Any]]:
    """Returns what a host on this port answers differently: the recorded and the present value of each field."""
    found = _answered(vector.request, port)
    names = vector.expected.keys() | found.keys()
    pairs = {name: (vector.expected.get(name), found.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _answered(request: bytes, port: int) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(request)
        stream = connection.makefile("rb")
        status, headers = _head(stream)
        if status == "100":
            status, headers = _head(stream)
        if not status:
            return {"status": "closed"}
        try:
            body, end = _body(stream, request.split(b" ")[0], int(status), headers)
        except (OSError, ValueError):
            body, end = b"", "cut"
    if headers.get("connection") == "close":
        end += ", says close"
    headers.pop("date", None)
    found = {"status": status, "end": end, "server": headers.pop("server", None), "headers": headers}
    try:
        seen = json.loads(body)
    except ValueError:
        seen = None
    if not isinstance(seen, dict):
        text = body[:_SHOWN].decode("latin-1")
        digest = hashlib.sha256(body).hexdigest()[:12]
        return {**found, "body": text if len(body) <= _SHOWN else f"{text}… {len(body)} bytes {digest}"}
    seen["sha256"] = seen["sha256"][:12]
    return {
        **found,
        "seen": {name: seen[name] for name in seen if name != "invocation" and (name != "sha256" or seen["length"])},
    }


def _head(stream: BufferedReader) -> tuple[str, dict[str, str]]:
    """Reads status and headers; returns nothing if the connection was closed."""
    status = stream.readline().decode("latin-1").removeprefix("HTTP/1.1 ").partition(" ")[0]
    lines = iter(lambda: stream.readline().decode("latin-1").rstrip("\r\n"), "")
    pairs = (line.partition(": ") for line in lines)
    return status, {name.lower(): value for name, _, value in pairs}


def _body(stream: BufferedReader, method: bytes, status: int, headers: dict[str, str]) -> tuple[bytes, str]:
    """Reads what follows the head; returns it, and what becomes of the connection after it."""
    if method == b"HEAD" or status in (204, 304):
        return b"", "kept"
    if status < 200:
        return stream.read1(), "kept"
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(stream.readline().partition(b";")[0], 16):
            body += stream.read(size + 2)[:size]
        return body, "kept"
    if "content-length" not in headers:
        return stream.read(), "closed"
    length = int(headers["content-length"])
    body = stream.read(length)
    return body, "kept" if len(body) == length else "cut"
