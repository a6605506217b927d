"""The proxy that signs a task's calls, in front of a server that verifies the signatures."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import mohawk
import mohawk.bewit
import pytest
import taskcluster.aio
from aiohttp import web
from yarl import URL

from worker.claim import Claim
from worker.proxy import Proxy
from worker.users import User

SIZE = 3_000_000


class FakeClaim:
    """A claim whose credentials change when it is renewed."""

    def __init__(self) -> None:
        self.credentials = {"clientId": "task/0", "accessToken": "first"}

    def hawk_ext(self) -> str:
        return "certificate of the task"


class Deployment:
    """Remembers the calls whose signatures are right."""

    def __init__(self) -> None:
        self.url = ""
        self.keys = {"task/0": "first"}
        self.received: list[Any] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers what it was sent."""
        url = f"{self.url}{request.raw_path}"
        lookup = {"key": self.keys.get("task/0"), "id": "task/0", "algorithm": "sha256"}
        try:
            receiver = mohawk.Receiver(
                lambda _: lookup,
                request.headers["Authorization"],
                url,
                request.method,
                accept_untrusted_content=True,
            )
        except mohawk.exc.HawkFail as problem:
            return web.json_response({"message": str(problem)}, status=401)
        assert receiver.parsed_header["ext"] == "certificate of the task"
        body = await request.read()
        self.received.append((request.method, request.raw_path, request.headers.get("Content-Type"), len(body)))
        if request.path.endswith("/elsewhere"):
            return web.json_response({"url": "http://storage/x"}, status=303, headers={"Location": "http://storage/x"})
        if request.path.endswith("/refused"):
            return web.json_response({"code": "InputError", "message": "no"}, status=400)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(body or b"{}")
        await response.write_eof()
        return response


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    deployment = Deployment()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", deployment.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    deployment.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield deployment
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def claim() -> FakeClaim:
    return FakeClaim()


@pytest.fixture
async def proxy(deployment: Deployment, session: aiohttp.ClientSession, claim: FakeClaim) -> AsyncIterator[str]:
    async with Proxy(cast(Claim, claim), deployment.url, session).serving() as url:
        yield url


async def call(session: aiohttp.ClientSession, method: str, url: str, **more: Any) -> tuple[int, str]:
    async with session.request(method, URL(url, encoded=True), allow_redirects=False, **more) as answer:
        return answer.status, await answer.text()


async def test_todays_client_needs_nothing_but_its_url(deployment: Deployment, proxy: str) -> None:
    queue = taskcluster.aio.Queue({"rootUrl": proxy})
    assert await queue.createArtifact("a", "0", "public/x y", {"storageType": "s3"}) == {"storageType": "s3"}
    ((method, path, content_type, _),) = deployment.received
    assert (method, content_type) == ("POST", "application/json")
    assert path == "/api/queue/v1/task/a/runs/0/artifacts/public%2Fx%20y"


async def test_both_forms_of_paths_and_queries(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession
) -> None:
    for path in ("/api/queue/v1/task/a%2Fb?x=1%202&y", "/queue/v1/task/a%2Fb?x=1%202&y"):
        assert (await call(session, "GET", proxy + path))[0] == 200
    assert [path for _, path, _, _ in deployment.received] == ["/api/queue/v1/task/a%2Fb?x=1%202&y"] * 2


async def test_bodies_are_streamed_both_ways(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * (SIZE // 3)

    status, text = await call(session, "PUT", f"{proxy}/api/queue/v1/upload", data=chunks())
    assert (status, len(text)) == (200, SIZE)
    assert deployment.received[0][3] == SIZE


@pytest.mark.parametrize(
    ("headers", "seen"), [({}, "application/json"), ({"Content-Type": "text/x"}, "text/x")], ids=["none", "its own"]
)
async def test_a_body_without_a_content_type_is_json(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession, headers: dict[str, str], seen: str
) -> None:
    url = f"{proxy}/api/queue/v1/x"
    await call(session, "POST", url, data=b"{}", headers=headers, skip_auto_headers=("Content-Type",))
    assert deployment.received[0][2] == seen


async def test_answers_are_passed_on_as_they_are(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession
) -> None:
    status, text = await call(session, "GET", f"{proxy}/api/queue/v1/elsewhere")
    assert (status, json.loads(text)) == (303, {"url": "http://storage/x"})
    status, text = await call(session, "GET", f"{proxy}/api/queue/v1/refused")
    assert (status, json.loads(text)["code"]) == (400, "InputError")


async def test_credentials_of_the_task_are_not_overridden(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession
) -> None:
    status, _ = await call(session, "GET", f"{proxy}/api/queue/v1/x", headers={"Authorization": "Hawk nonsense"})
    assert status == 200


async def test_renewed_credentials_are_used_at_once(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession, claim: FakeClaim
) -> None:
    deployment.keys = {"task/0": "second"}
    assert (await call(session, "GET", f"{proxy}/api/queue/v1/x"))[0] == 401
    claim.credentials = {"clientId": "task/0", "accessToken": "second"}
    assert (await call(session, "GET", f"{proxy}/api/queue/v1/x"))[0] == 200


@pytest.mark.parametrize("path", ["/", "/api/", "/api/queue", "/api/queue/task", "/../etc/passwd", "/credentials"])
async def test_other_paths_are_unknown(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession, path: str
) -> None:
    status, _ = await call(session, "GET", proxy + path)
    assert status == 404
    assert deployment.received == []


async def test_signed_urls(deployment: Deployment, proxy: str, session: aiohttp.ClientSession) -> None:
    url = f"{deployment.url}/api/queue/v1/task/a/artifacts/private%2Fx?y=1"
    async with session.post(f"{proxy}/bewit", data=f" {url}\n", allow_redirects=False) as answer:
        signed = await answer.text()
        assert (answer.status, answer.headers["Location"]) == (303, signed)
    assert signed.startswith(f"{url}&bewit=")
    credentials = {"id": "task/0", "key": "first", "algorithm": "sha256"}
    padding = "=" * (-len(signed.partition("bewit=")[2]) % 4)
    assert mohawk.bewit.check_bewit(signed + padding, credential_lookup=lambda _: credentials)


async def test_only_urls_of_the_deployment_are_signed(
    deployment: Deployment, proxy: str, session: aiohttp.ClientSession
) -> None:
    for url in (
        "https://example.com/api/queue/v1/x",
        f"{deployment.url}.example.com/",
        "",
        urlsplit(deployment.url).netloc,
    ):
        assert (await call(session, "POST", f"{proxy}/bewit", data=url))[0] == 400


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the one address of loopback")
def test_it_is_reached_by_its_own_address_alone(proxy: str) -> None:
    """Not from other machines: any caller would have the task's credentials."""
    port = URL(proxy).port
    with socket.create_connection(("127.0.0.1", port), 30):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 30)


async def test_a_deployment_that_is_down(proxy: str, session: aiohttp.ClientSession, claim: FakeClaim) -> None:
    async with Proxy(cast(Claim, claim), "http://127.0.0.1:1", session).serving() as url:
        assert (await call(session, "GET", f"{url}/api/queue/v1/x"))[0] == 502


CALL = """
import socket, sys
family, address = (socket.AF_INET6, "::ffff:127.0.0.1") if sys.argv[1] == "6" else (socket.AF_INET, "127.0.0.1")
with socket.socket(family) as connection:
    connection.connect((address, int(sys.argv[2])))
    connection.sendall(b"GET /api/queue/v1/ping HTTP/1.0\\r\\n\\r\\n")
    print(connection.recv(100).split()[1].decode())
"""


@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="it needs a Python that every user may run")
@pytest.mark.parametrize("version", ["4", "6"], ids=["IPv4", "a socket for IPv6, as Java has them"])
async def test_it_serves_its_user_alone(
    deployment: Deployment, session: aiohttp.ClientSession, claim: FakeClaim, user: User, version: str
) -> None:
    other = User.of(str(user.uid + 1))
    async with Proxy(cast(Claim, claim), deployment.url, session, user).serving() as url:
        for caller, status in ((user, b"200\n"), (other, b"403\n")):
            calling = await asyncio.create_subprocess_exec(
                *("/usr/bin/python3", "-I", "-c", CALL, version, str(urlsplit(url).port)),
                stdout=asyncio.subprocess.PIPE,
                user=caller.uid,
                group=caller.gid,
                extra_groups=[],
                cwd="/",
            )
            assert (await calling.communicate())[0] == status
