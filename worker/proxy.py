"""Signs a task's calls with the task's own credentials, as taskcluster-proxy does, so that the task needs none.

One proxy a task, on loopback. It takes

* `/api/<service>/<version>/<path>`, and the older `/<service>/<version>/<path>`: the call, to the deployment;
* `POST /bewit` with a URL of the deployment as the body: 303 to the same URL, signed for an hour.

Bodies are streamed in both directions, and not part of the signature. Redirections are passed on.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import mohawk
import mohawk.bewit
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from worker.claim import Claim
from worker.hiding import shown, without_secrets
from worker.queue import TROUBLE
from worker.users import User

log = logging.getLogger("worker")

BEWIT_SECONDS = 3600
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=300)
_API = re.compile(r"(?:/api)?/([a-z][a-z-]*)/(v[0-9]+)/(.*)", re.DOTALL)
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OWN = _HOP_BY_HOP | {"host", "authorization"}


class Proxy:
    """The proxy of one task."""

    def __init__(self, claim: Claim, root_url: str, session: aiohttp.ClientSession, user: User | None = None) -> None:
        """`user`: connections of others are refused."""
        self._claim = claim
        self._root_url = root_url.rstrip("/")
        self._session = session
        self._user = user

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its URL, for as long as the task runs."""
        server = web.Server(self._handle, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._user is not None and _owner(request) != self._user.uid:
            return web.Response(status=403, text="This proxy belongs to another task.\n")
        if request.path == "/bewit":
            return await self._bewit(request)
        found = _API.fullmatch(request.raw_path)
        if found is None:
            return web.Response(status=404, text=f"{request.path} is not /api/<service>/<version>/<path>.\n")
        return await self._forward(request, f"{self._root_url}/api/{found[1]}/{found[2]}/{found[3]}")

    async def _forward(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        headers = CIMultiDict((name, text) for name, text in request.headers.items() if name.lower() not in _OWN)
        if request.body_exists and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        headers["Authorization"] = self._sign(request.method, url, headers.get("Content-Type", ""))
        try:
            async with self._session.request(
                request.method,
                URL(url, encoded=True),
                headers=headers,
                data=request.content if request.body_exists else None,
                skip_auto_headers=("Content-Type", "User-Agent", "Accept", "Accept-Encoding"),
                allow_redirects=False,
                auto_decompress=False,
                timeout=TIMEOUT,
            ) as answer:
                return await _pass_on(request, answer, url)
        except TROUBLE as trouble:
            log.info("%s: the proxy cannot reach %s: %s", self._claim, without_secrets(url), shown(trouble))
            return web.Response(status=502, text=f"{self._root_url} cannot be reached.\n")

    def _sign(self, method: str, url: str, content_type: str) -> str:
        sender = mohawk.Sender(
            credentials=self._key(),
            url=url,
            method=method,
            ext=self._claim.hawk_ext(),
            content_type=content_type,
            always_hash_content=False,
        )
        return str(sender.request_header)

    async def _bewit(self, request: web.BaseRequest) -> web.Response:
        url = (await request.text()).strip()
        if not url.startswith(f"{self._root_url}/"):
            return web.Response(status=400, text=f"The body must be a URL of {self._root_url}.\n")
        resource = mohawk.base.Resource(
            credentials=self._key(),
            method="GET",
            ext=self._claim.hawk_ext(),
            url=url,
            timestamp=int(time.time()) + BEWIT_SECONDS,
            nonce="",
        )
        bewit = mohawk.bewit.get_bewit(resource).rstrip("=")
        signed = f"{url}{'&' if urlsplit(url).query else '?'}bewit={bewit}"
        return web.Response(status=303, headers={"Location": signed}, text=signed)

    def _key(self) -> dict[str, str]:
        credentials = self._claim.credentials
        return {"id": credentials["clientId"], "key": credentials["accessToken"], "algorithm": "sha256"}


async def _pass_on(request: web.BaseRequest, answer: aiohttp.ClientResponse, url: str) -> web.StreamResponse:
    headers = CIMultiDict((name, text) for name, text in answer.headers.items() if name.lower() not in _HOP_BY_HOP)
    headers["X-Taskcluster-Endpoint"] = url
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


_ESTABLISHED = "01"
"""State of a connection in /proc/net/tcp."""
_LOOPBACKS = {"/proc/net/tcp": "0100007F", "/proc/net/tcp6": "0000000000000000FFFF00000100007F"}
"""A client that calls 127.0.0.1 by an IPv6 socket, as Java does, is in the second table."""


def _owner(request: web.BaseRequest) -> int | None:
    """The user id of the process at the other end of a loopback connection, as the system lists it."""
    peer, here = (request.transport and request.transport.get_extra_info(end) for end in ("peername", "sockname"))
    if not peer or not here:
        return None
    # Compare both ends: the port may be in use for another address, or have been until a moment ago (then listed as
    # root's).
    for table, loopback in _LOOPBACKS.items():
        connection = [f"{loopback}:{peer[1]:04X}", f"{loopback}:{here[1]:04X}", _ESTABLISHED]
        with suppress(FileNotFoundError):  # a system without IPv6 lacks the second table
            for line in Path(table).read_text(encoding="utf-8").splitlines()[1:]:
                fields = line.split()
                if fields[1:4] == connection:
                    return int(fields[7])
    return None
