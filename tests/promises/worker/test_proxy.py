"""The proxy of a task's calls, in front of a server that verifies the signatures, and what else takes credentials."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import mohawk
import mohawk.bewit
import pytest
import taskcluster.aio
from aiohttp import web
from yarl import URL

from shared.auth.certificates import task_scopes, temporary_credentials
from shared.auth.hawk import parse_header
from shared.base.ids import new_slugid
from tests.promises.worker.test_queue import OPTIONS
from worker.claim import Claim
from worker.context import Asking, Json
from worker.proxy import LONGEST_LINE, Proxy
from worker.users import User

SIZE = 3_000_000
SCOPES = ["test:mine", "queue:create-artifact:task/0"]
"""What calls are signed for: the task's scopes, and that of its artifacts."""


def claim_of(root_url: str, *, proxied: bool = False, scopes: Sequence[str] = SCOPES[:1], **more: Any) -> Claim:
    """Returns a claim, and what comes with it."""
    claimed = {
        "status": {"taskId": "task"},
        "runId": 0,
        "task": {"payload": {"features": {"taskclusterProxy": proxied}}, "scopes": scopes},
        **renewal("first"),
        **more,
    }
    return Claim(claimed, lambda _: cast(Any, None), dataclasses.replace(OPTIONS, root_url=root_url))


def renewal(token: str) -> dict[str, Any]:
    """Returns what a renewal of the claim brings."""
    credentials = {"clientId": "task/0", "accessToken": token, "certificate": '{"of": "the task"}'}
    return {"takenUntil": "2100-01-01T00:00:00.000Z", "credentials": credentials}


class Worker(Asking):
    """Asks a claim as a task's process does."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def tell(self, message: Json) -> None:
        self._answer = self._claim.answer(message)

    def receive(self) -> Json:
        return self._answer


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
                lambda _: lookup, request.headers["Authorization"], url, request.method, accept_untrusted_content=True
            )
        except mohawk.exc.HawkFail as problem:
            return web.json_response({"message": str(problem)}, status=401)
        ext = json.loads(base64.b64decode(receiver.parsed_header["ext"]))
        assert ext == {"authorizedScopes": SCOPES, "certificate": {"of": "the task"}}
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


@dataclass
class Front:
    """A proxy for a claim, and somebody who calls it."""

    deployment: Deployment
    claim: Claim
    session: aiohttp.ClientSession
    url: str = ""

    async def call(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        url = URL(self.url + path, encoded=True)
        async with self.session.request(method, url, allow_redirects=False, **more) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def front(deployment: Deployment) -> AsyncIterator[Front]:
    async with aiohttp.ClientSession() as session:
        front = Front(deployment, claim_of(deployment.url, proxied=True), session)
        async with Proxy(deployment.url, Worker(front.claim), None).serving() as front.url:
            yield front


async def test_todays_client_needs_nothing_but_its_url(front: Front) -> None:
    queue = taskcluster.aio.Queue({"rootUrl": front.url})
    assert await queue.createArtifact("a", "0", "public/x y", {"storageType": "s3"}) == {"storageType": "s3"}
    ((method, path, content_type, _),) = front.deployment.received
    assert (method, content_type) == ("POST", "application/json")
    assert path == "/api/queue/v1/task/a/runs/0/artifacts/public%2Fx%20y"


async def test_calls_and_answers_are_passed_on_as_they_are(front: Front) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * (SIZE // 3)

    for path in ("/api/queue/v1/task/a%2Fb?x=1%202&y", "/queue/v1/task/a%2Fb?x=1%202&y"):
        assert (await front.call("GET", path, headers={"Authorization": "Hawk nonsense"}))[0] == 200
    status, text = await front.call("PUT", "/api/queue/v1/upload", data=chunks())
    assert (status, len(text)) == (200, SIZE)
    for headers in ({}, {"Content-Type": "text/x"}):
        more: dict[str, Any] = {"headers": headers, "skip_auto_headers": ("Content-Type",)}
        await front.call("POST", "/api/queue/v1/x", data=b"{}", **more)
    assert front.deployment.received == [
        *[("GET", "/api/queue/v1/task/a%2Fb?x=1%202&y", None, 0)] * 2,
        ("PUT", "/api/queue/v1/upload", "application/octet-stream", SIZE),
        ("POST", "/api/queue/v1/x", "application/json", 2),
        ("POST", "/api/queue/v1/x", "text/x", 2),
    ]
    status, text = await front.call("GET", "/api/queue/v1/elsewhere")
    assert (status, json.loads(text)) == (303, {"url": "http://storage/x"})
    status, text = await front.call("GET", "/api/queue/v1/refused")
    assert (status, json.loads(text)["code"]) == (400, "InputError")


async def test_renewed_credentials_are_used_at_once(front: Front) -> None:
    front.deployment.keys = {"task/0": "second"}
    assert (await front.call("GET", "/api/queue/v1/x"))[0] == 401
    front.claim._renewed(renewal("second"))
    assert (await front.call("GET", "/api/queue/v1/x"))[0] == 200


async def test_other_paths_are_unknown(front: Front) -> None:
    for path in ("/", "/api/", "/api/queue", "/api/queue/task", "/../etc/passwd", "/credentials"):
        assert (await front.call("GET", path))[0] == 404
    assert front.deployment.received == []


async def test_only_urls_of_the_deployment_are_signed(front: Front) -> None:
    deployed = front.deployment.url
    url = f"{deployed}/api/queue/v1/task/a/artifacts/private%2Fx?y=1"
    status, signed = await front.call("POST", "/bewit", data=f" {url}\n")
    assert status == 303
    assert signed.startswith(f"{url}&bewit=")
    credentials = {"id": "task/0", "key": "first", "algorithm": "sha256"}
    padding = "=" * (-len(signed.partition("bewit=")[2]) % 4)
    assert mohawk.bewit.check_bewit(signed + padding, credential_lookup=lambda _: credentials)
    for other in ("https://a.b/x", f"{deployed}.example.com/", "", urlsplit(deployed).netloc, f"{deployed}/x\ny"):
        assert (await front.call("POST", "/bewit", data=other))[0] == 400
    assert (await front.call("POST", "/bewit", data="x" * (LONGEST_LINE + 1)))[0] == 413


def test_a_process_gets_what_its_task_may_and_no_credentials() -> None:
    """Whoever it is: a task may have changed the process that works on it. Without a proxy, what its parts call."""
    deployed = "https://tc.example.com"
    with_proxy, without = claim_of(deployed, proxied=True), claim_of(f"{deployed}/")
    own = f"{deployed}/api/queue/v1/task/task/runs/0/artifacts/public%2Fa"
    artifact = f"{deployed}/api/queue/v1/task/other/artifact-content/public%2Fa"
    calls = [own, artifact, f"{deployed}/api/index/v1/task/a.b"]
    for url in (
        *calls,
        *(
            f"{deployed}/api/queue/v1/{path}"
            for path in ("x", "task/task/runs/0/completed", "task/task/runs/1/artifacts/a")
        ),
        f"{own}/../../../runs/0/completed",
        f"{artifact}?x=1",
        f"https://example.com/{own}",
        f"{deployed}/api/\ud800",
    ):
        message = sign("POST" if url == own else "GET", url)
        assert ("done" in without.answer(message)) == (url in calls), url
        is_signed = url.startswith(f"{deployed}/api/") and url.isascii()
        assert ("done" in with_proxy.answer(message)) == is_signed, url
    for refused in ({"do": "bewit", "url": calls[2]}, sign("PUT", calls[2]), sign("DELETE", calls[2])):
        assert "refused" in without.answer(refused)
    for nothing in ({"do": "report"}, {"do": "sign"}, {"do": "sign", "method": 1, "url": own, "contentType": ""}, {}):
        assert with_proxy.answer(nothing) == {"refused": "it asks for nothing that is known"}
    answers = str([with_proxy.answer(sign("GET", url)) for url in calls])
    assert "first" not in answers, "the token is in none"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "runs/0/artifacts/public%2Flogs%2Flive.log"), ("GET", "artifact-content/public%2Fx")]
)
def test_what_parts_call_is_signed_for_tasks_with_many_scopes(method: str, path: str) -> None:
    """The service refuses a header of more than 4,096 characters (contract, trap 4)."""
    now, task_id = datetime.now(UTC), new_slugid()
    scopes = [f"queue:get-artifact:project/team-{number:02}/{'x' * 20}*" for number in range(35)]
    credentials = temporary_credentials(
        client_id=f"task-client/{task_id}/0/on/group/worker/until/1767226800",
        scopes=task_scopes(task_id=task_id, run_id=0, scopes=scopes),
        start=now,
        expiry=now + timedelta(minutes=20),
        issuer="queue-service",
        issuer_token="x" * 44,
        seed="A" * 44,
    )
    claim = claim_of("https://tc", scopes=scopes, status={"taskId": task_id}, credentials=credentials)
    header = claim.answer(sign(method, f"https://tc/api/queue/v1/task/{task_id}/{path}"))["done"]
    assert parse_header(header).id == credentials["clientId"]


def sign(method: str, url: str) -> Json:
    """Returns the message by which a process asks for a signature of that call."""
    return {"do": "sign", "method": method, "url": url, "contentType": "application/json"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the one address of loopback")
def test_it_is_reached_by_its_own_address_alone(front: Front) -> None:
    """Other machines do not reach it: any caller would have the task's credentials."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", URL(front.url).port), 30)


async def test_a_deployment_that_is_down(front: Front) -> None:
    down = "http://127.0.0.1:1"
    front.claim = claim_of(down, proxied=True)
    async with Proxy(down, Worker(front.claim), None).serving() as front.url:
        assert (await front.call("GET", "/api/queue/v1/x"))[0] == 502


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
async def test_it_serves_its_user_alone(front: Front, user: User, version: str) -> None:
    other = User.of(str(user.uid + 1))
    deployed = front.deployment.url
    async with Proxy(deployed, Worker(front.claim), user).serving() as url:
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
