"""The console's files: its pages at the addresses that people link to, its assets below a path with their hash.

Assets never change below their path, so browsers and a CDN may keep them; the page itself is never kept. Everything
is read once and kept compressed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from shared.api.answer import Answer
from shared.base.frozen import dataclass, replace
from shared.base.settings import Settings
from shared.store.connection import Endpoints, parse_connection_string

FOLDER = Path(__file__).resolve().parent.parent / "console"

_ROUTE = re.compile(r'^  route\("([^"]+)", "([^"]+)"\)', re.MULTILINE)
"""Finds the route and module name of each page in core/router.js."""
_MODULE = re.compile(r'^  "?([a-z-]+)"?: \(\) => import\("\./([^"]+)"\)', re.MULTILINE)
"""Finds the name and path of each page module in pages.js."""
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
_CALLBACK = "/login/callback"
_IMPORTED = re.compile(r'^(?:import|export)\b(?:[^;]*?\bfrom)?\s*"([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(rb"^ *(?:/\*\*(?:[^*]|\*(?!/))*\*/|// .*)$", re.MULTILINE)
"""A comment with lines of its own. They are a quarter of what a browser would load, and nobody reads them there."""
_PRELOAD = re.compile(r'^.*"{{module}}".*\n', re.MULTILINE)


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
    """The assets by their paths. `page` is shown at an address of which nothing is known."""
    policy: str
    """The content security policy of pages: scripts and styles of this origin alone."""
    pages: Mapping[re.Pattern[str], _File]
    """The page for each pattern of addresses, with links to what it loads. The first pattern that matches counts."""

    @classmethod
    def load(cls, folder: Path, sources: Iterable[str], framed: str = "") -> Self:
        """Reads the files. `sources` are origins that the console reads besides its own: storage, the identity
        provider; `framed` is the latter, which is asked in a hidden frame whether somebody is still signed in. Raises
        FileNotFoundError if the folder has no page."""
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        digest = hashlib.sha256()
        for name, content in files.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        prefix = f"/console/{digest.hexdigest()[:16]}"
        html = (folder / "index.html").read_text(encoding="utf-8").replace("{{assets}}", prefix)
        assets = {f"{prefix}/{name}": _File(_TYPES[Path(name).suffix], _served(name, files[name])) for name in files}
        found = _IMPORT_MAP.search(html)
        assert found is not None, "the page has an import map"
        by_name = json.loads(found[1]).get("imports")

        @cache
        def imports(name: str) -> list[str]:
            named = _IMPORTED.findall(assets[name].content.decode())
            return [by_name.get(one) or posixpath.normpath(f"{name}/../{one}") for one in named]

        first = f"{prefix}/app.js"
        modules = _MODULE.findall(files.get("pages.js", b"").decode())
        made = {name: _with_preloads(html, imports, first, f"{prefix}/{module}") for name, module in modules}
        pages = {
            re.compile(_ARGUMENT.sub(lambda found: _ARGUMENTS[found.lastgroup], shape) + "/?"): made[name]
            for shape, name in _ROUTE.findall(files.get("core/router.js", b"").decode())
        }
        return cls(_with_preloads(html, imports, first), assets, _policy(found[1], sources, framed), pages)

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer | None:
        """Returns the answer for a path; None if the console has nothing there. Names in `headers` are lower case."""
        packed = "gzip" in headers.get("accept-encoding", "")
        if path in self.assets:
            return _answer(self.assets[path], packed, {"cache-control": _KEPT})
        page = next((self._html(page, packed) for shape, page in self.pages.items() if shape.fullmatch(path)), None)
        if page is not None and path == _CALLBACK:  # to which the provider leads that frame
            policy = self.policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
            return replace(page, headers={**page.headers, "content-security-policy": policy})
        return page

    def unknown(self, path: str, headers: Mapping[str, str]) -> Answer | None:
        """Returns the 404 answer to a browser that opens an unknown address: the page, which says so. None for
        programs, and for paths of the API and of assets."""
        if path.startswith(("/api/", "/console/")) or "text/html" not in headers.get("accept", ""):
            return None
        return replace(self._html(self.page, "gzip" in headers.get("accept-encoding", "")), status=404)

    def _html(self, page: _File, packed: bool) -> Answer:
        return _answer(page, packed, {"content-security-policy": self.policy, "referrer-policy": "no-referrer"})


def sources(settings: Settings) -> list[str]:
    """Origins that the console's pages read: where artifacts are stored, and what the settings name besides."""
    if settings.storage_connection_string is not None:
        endpoints, _ = parse_connection_string(settings.storage_connection_string.get_secret_value())
    else:
        assert settings.storage_account_name is not None, "settings are checked when they are loaded"
        endpoints = Endpoints.of_account(settings.storage_account_name)
    return [each for each in (_origin(endpoints.blob), provider(settings), *settings.console_sources.split()) if each]


def provider(settings: Settings) -> str:
    """Returns the origin of the identity provider of people; empty if there is none."""
    return _origin(settings.openid_issuer) if settings.openid_issuer else ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _answer(file: _File, packed: bool, headers: Mapping[str, str]) -> Answer:
    body = file.packed if packed else file.content
    encoding = {"content-encoding": "gzip"} if packed else {}
    fixed = {"vary": "accept-encoding", **encoding, **headers}
    return Answer(body=body, content_type=file.content_type, headers=fixed, is_shared=False)


def _served(name: str, content: bytes) -> bytes:
    """Returns a module of ours without its comments, in lines of the same numbers, and what others wrote as it is."""
    if name.startswith("vendor/") or not name.endswith(".js"):
        return content
    return _COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), content)


def _with_preloads(html: str, imports: Callable[[str], Iterable[str]], first: str, *others: str) -> _File:
    """Returns the page with a link to every module that these need, so that browsers request them all at once."""
    needed: set[str] = set()
    waiting = [first, *others]
    while waiting:
        each = waiting.pop()
        if each not in needed:
            needed.add(each)
            waiting += imports(each)
    if line := _PRELOAD.search(html):
        html = html.replace(line[0], "".join(line[0].replace("{{module}}", name) for name in sorted(needed - {first})))
    return _File("text/html; charset=utf-8", html.encode())


def _policy(import_map: str, sources: Iterable[str], framed: str) -> str:
    digest = base64.b64encode(hashlib.sha256(import_map.encode()).digest()).decode()
    allowed = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self'; worker-src 'self'",
        f"connect-src 'self' {' '.join(sources)}".rstrip(),
        f"frame-src 'self' {framed}".rstrip(),
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    return "; ".join(allowed)
