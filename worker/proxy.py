"""Passes on a task's calls, signed with the task's own credentials, as taskcluster-proxy does.

It is on loopback, in the task's process, which has no credentials either: the worker signs (claim.py). It takes

* `/api/<service>/<version>/<path>`, and the older `/<service>/<version>/<path>`: the call, to the deployment;
* `POST /bewit` with a URL of the deployment as the body: 303 to the same URL, signed for an hour.

Bodies are streamed in both directions, and not part of the signature. Redirections are passed on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from worker.context import REFUSED, Asking
from worker.text import log, shown
from worker.users import User

TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=300)
LONGEST_LINE = 8190
"""Characters of a URL to be signed: as many as a request's line may have."""
_API = re.compile(r"(?:/api)?/([a-z][a-z-]*)/(v[0-9]+)/(.*)", re.DOTALL)
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"}
_HOP_BY_HOP |= {"transfer-encoding", "upgrade"}
_OWN = _HOP_BY_HOP | {"host", "authorization"}
_LOOPBACKS = {"/proc/net/tcp": "0100007F", "/proc/net/tcp6": "0000000000000000FFFF00000100007F"}
"""A client that calls 127.0.0.1 by an IPv6 socket, as Java does, is in the second table."""


@dataclass
class Proxy:
    """The proxy of one task."""

    _root_url: str
    _worker: Asking
    _user: User | None
    """Connections of others are refused."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Yields its URL, for as long as the commands run. Raises OSError."""
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1)
        await runner.setup()
        # As many connections as the task keeps open: they are its own descriptors.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            auto_decompress=False,
            middlewares=[self._worker.sign],
            skip_auto_headers=("Content-Type", "User-Agent", "Accept", "Accept-Encoding"),
            timeout=TIMEOUT,
        ) as self._session:
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._user is not None and _owner(request) != self._user.uid:
            return web.Response(status=403, text="This proxy belongs to another task.\n")
        found = _API.fullmatch(request.raw_path)
        try:
            if request.path == "/bewit":
                return await self._bewit(request)
            if found is not None:
                return await self._forward(request, f"{self._root_url}/api/{found[1]}/{found[2]}/{found[3]}")
        except REFUSED as refused:
            return web.Response(status=400, text=f"{refused}\n")
        except (aiohttp.ClientError, TimeoutError) as trouble:
            log.info("the proxy cannot reach the deployment: %s", shown(trouble))
            return web.Response(status=502, text=f"{self._root_url} cannot be reached.\n")
        return web.Response(status=404, text="This is not /api/<service>/<version>/<path>.\n")

    async def _forward(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        headers = CIMultiDict((name, text) for name, text in request.headers.items() if name.lower() not in _OWN)
        if request.body_exists and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        method, to = request.method, URL(url, encoded=True)
        body = request.content if request.body_exists else None
        async with self._session.request(method, to, headers=headers, data=body, allow_redirects=False) as answer:
            names = ((name, text) for name, text in answer.headers.items() if name.lower() not in _HOP_BY_HOP)
            headers = CIMultiDict([*names, ("X-Taskcluster-Endpoint", url)])
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _bewit(self, request: web.BaseRequest) -> web.Response:
        url = (await request.text()).strip()
        if len(url) > LONGEST_LINE:
            return web.Response(status=413, text=f"The URL has more than {LONGEST_LINE} characters.\n")
        signed = self._worker.ask("bewit", url=url)
        return web.Response(status=303, headers={"Location": signed}, text=signed)


def _owner(request: web.BaseRequest) -> int | None:
    """Returns the user id of the process at the other end of a loopback connection, as the system lists it."""
    peer, here = (request.transport and request.transport.get_extra_info(end) for end in ("peername", "sockname"))
    if not peer or not here:
        return None
    for table, loopback in _LOOPBACKS.items():
        # Both ends, in state 01, that of a connection: the port may be in use for another address, or have been until a
        # moment ago, then as root's.
        connection = [f"{loopback}:{peer[1]:04X}", f"{loopback}:{here[1]:04X}", "01"]
        with suppress(FileNotFoundError):  # a system without IPv6 lacks the second table
            for line in Path(table).read_text(encoding="utf-8").splitlines():
                if (fields := line.split())[1:4] == connection:
                    return int(fields[7])
    return None
