"""A load balancer in front of several hosts: each request goes to any of them, as in a deployment."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Sequence

import aiohttp
from aiohttp import web
from yarl import URL


class Balancer:
    """Forwards requests as they are, and counts the answers of claimWork."""

    def __init__(self, port: int, hosts: Sequence[int]) -> None:
        self._port, self._hosts = port, hosts
        self.answers: Counter[str] = Counter()
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=timeout, auto_decompress=False
        ) as self._session:
            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", self._forward)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self._ready.set()
            await asyncio.Event().wait()

    async def _forward(self, request: web.Request) -> web.Response:
        try:
            return await self._answered(request)
        except aiohttp.ClientError as error:
            return web.Response(status=502, text=repr(error))

    async def _answered(self, request: web.Request) -> web.Response:
        url = URL(f"http://127.0.0.1:{random.choice(self._hosts)}{request.raw_path}", encoded=True)
        body = await request.read()
        async with self._session.request(
            request.method,
            url,
            headers=request.headers,
            data=body or None,
            allow_redirects=False,
            skip_auto_headers=("content-type",),
        ) as answer:
            content = await answer.read()
            if "/claim-work/" in request.raw_path:
                kind = "503" if answer.status == 503 else "empty" if content == b'{"tasks":[]}' else str(answer.status)
                self.answers[kind] += 1
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN}
            return web.Response(status=answer.status, body=content, headers=headers)


_OWN = {"content-length", "transfer-encoding", "connection", "date", "server"}
