"""The console's files: its pages at the addresses that people link to, its assets below a path with their hash.

Assets never change below their path, so browsers and a CDN may keep them; the page itself is never kept. Everything
is read once and kept compressed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from shared.api.answer import Answer
from shared.base.frozen import dataclass, replace
from shared.base.settings import Settings
from shared.store.connection import Endpoints, parse_connection_string

FOLDER = Path(__file__).resolve().parent.parent / "console"

_ROUTES = "core/router.js"
"""The module with the one list of pages."""
_ROUTE = re.compile(r'^  route\("([^"]+)"', re.MULTILINE)
_ARGUMENT = re.compile(r"(?P<slugid>:\w+!)|(?P<part>:\w+)|(?P<rest>\*\w+)")
_ARGUMENTS: Mapping[str | None, str] = {"slugid": "[A-Za-z0-9_-]{22}", "part": "[^/]+", "rest": ".+"}

_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_KEPT = "public, max-age=31536000, immutable"
_IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
_COMPRESSION = 9
_FIRST = "app.js"
_CALLBACK = "/login/callback"
_IMPORTED = re.compile(r'^(?:import|export)\b(?:[^;]*?\bfrom)?\s*"(\.[^"]+)"', re.MULTILINE)
_PRELOAD = re.compile(r'[^\n]*"{{assets}}/{{module}}"[^\n]*\n')


@dataclass(frozen=True)
class _File:
    content_type: str
    content: bytes

    @cached_property
    def packed(self) -> bytes:
        """The compressed content. Made at the first request, since compressing all files takes a tenth of a start."""
        return gzip.compress(self.content, _COMPRESSION, mtime=0)


@dataclass(frozen=True)
class ConsoleSite:
    """The console as it is served."""

    page: _File
    assets: Mapping[str, _File]
    """The assets by their paths."""
    policy: str
    """The content security policy of pages: scripts and styles of this origin alone."""
    pages: re.Pattern[str]
    """Paths that are pages of the console."""

    @classmethod
    def load(cls, folder: Path, sources: Iterable[str], framed: str = "") -> Self:
        """Read the files. `sources` are origins that the console reads besides its own: storage, the identity
        provider; `framed` is the latter, which is asked in a hidden frame whether somebody is still signed in.
        Raises FileNotFoundError if the folder has no page."""
        contents = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        prefix = f"/console/{_digest(contents)}"
        html = _preloading((folder / "index.html").read_text(encoding="utf-8"), contents).replace("{{assets}}", prefix)
        assets = {f"{prefix}/{name}": _File(_TYPES[Path(name).suffix], content) for name, content in contents.items()}
        page = _File("text/html; charset=utf-8", html.encode())
        return cls(page, assets, _policy(html, sources, framed), _pages(contents.get(_ROUTES, b"").decode()))

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer | None:
        """The answer for a path; None if the console has nothing there. `headers` are the request's, in lower case."""
        packed = "gzip" in headers.get("accept-encoding", "")
        if (asset := self.assets.get(path)) is not None:
            return _answer(asset, packed, {"cache-control": _KEPT})
        if self.pages.fullmatch(path):
            page = self._page(packed)
            if path == _CALLBACK:  # to which the provider leads that frame
                policy = self.policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
                return replace(page, headers={**page.headers, "content-security-policy": policy})
            return page
        return None

    def unknown(self, path: str, headers: Mapping[str, str]) -> Answer | None:
        """The 404 answer to a browser that opens an unknown address: the page, which says so.

        None for programs, and for paths of the API and of assets.
        """
        if path.startswith(("/api/", "/console/")) or "text/html" not in headers.get("accept", ""):
            return None
        return replace(self._page("gzip" in headers.get("accept-encoding", "")), status=404)

    def _page(self, packed: bool) -> Answer:
        return _answer(self.page, packed, {"content-security-policy": self.policy, "referrer-policy": "no-referrer"})


def sources(settings: Settings) -> list[str]:
    """Origins that the console's pages read: where artifacts are stored, and what the settings name besides."""
    if settings.storage_connection_string is not None:
        endpoints, _ = parse_connection_string(settings.storage_connection_string.get_secret_value())
    else:
        assert settings.storage_account_name is not None, "settings are checked when they are loaded"
        endpoints = Endpoints.of_account(settings.storage_account_name)
    return [each for each in (_origin(endpoints.blob), provider(settings), *settings.console_sources.split()) if each]


def provider(settings: Settings) -> str:
    """The origin of the identity provider of people; empty if there is none."""
    return _origin(settings.openid_issuer) if settings.openid_issuer else ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _answer(file: _File, packed: bool, headers: Mapping[str, str]) -> Answer:
    body = file.packed if packed else file.content
    encoding = {"content-encoding": "gzip"} if packed else {}
    return Answer(body=body, content_type=file.content_type, headers={"vary": "accept-encoding", **encoding, **headers})


def _preloading(html: str, contents: Mapping[str, bytes]) -> str:
    """The page with a preload link for every module that it needs, so that browsers request them all at once."""
    line = _PRELOAD.search(html)
    if line is None:
        return html
    names = sorted(_needed(_FIRST, contents) - {_FIRST})
    return html.replace(line[0], "".join(line[0].replace("{{module}}", name) for name in names))


def _needed(name: str, contents: Mapping[str, bytes]) -> set[str]:
    """Returns the names of a module and of all modules that it imports, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in found:
            continue
        found.add(each)
        imports = _IMPORTED.findall(contents[each].decode())
        waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(each), one)) for one in imports]
    return found


def _pages(router: str) -> re.Pattern[str]:
    """Returns a pattern that matches the paths of the console's routes."""
    shapes = (_ARGUMENT.sub(lambda found: _ARGUMENTS[found.lastgroup], shape) for shape in _ROUTE.findall(router))
    return re.compile(f"(?:{'|'.join(shapes)})/?")


def _policy(html: str, sources: Iterable[str], framed: str) -> str:
    found = _IMPORT_MAP.search(html)
    assert found is not None, "the page has an import map"
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self' 'sha256-{digest}'",
            "style-src 'self'",
            "img-src 'self'",
            "worker-src 'self'",
            f"connect-src 'self' {' '.join(sources)}".rstrip(),
            f"frame-src 'self' {framed}".rstrip(),
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _digest(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]
