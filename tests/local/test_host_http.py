"""HTTP functions over real connections: paths, methods, bodies, answers, failures."""

import http.client
import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.local.host_process import SAMPLE, HostProcess, running_host, wait_until
from tools.local.azurite import Azurite
from tools.local.host.host import listen

LIMIT = 100_000


@pytest.fixture(scope="module")
def host(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    """A host that treats paths as Core Tools do."""
    folder = tmp_path_factory.mktemp("host")
    with running_host(azurite, folder, "--core-tools-paths", FUNCTIONS_REQUEST_BODY_SIZE_LIMIT=str(LIMIT)) as running:
        yield running


@pytest.fixture(scope="module")
def azure_host(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    """A host that treats paths as deployed Functions do."""
    with running_host(azurite, tmp_path_factory.mktemp("azure")) as running:
        yield running


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def send(
    host: HostProcess, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """One request, its target sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=30)
    try:
        connection.request(method, target, body=body, headers=dict(headers or {}), encode_chunked=True)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_a_function_sees_the_request(host: HostProcess) -> None:
    answer = send(host, "PUT", "/items/caf%C3%A9%2Fx?a=1&a=2&b=", b"body", {"X-Two": "b", "Content-Type": "a/b"})
    assert (answer.status, answer.headers["content-type"], answer.headers["x-echo"]) == (200, "application/json", "yes")
    assert len(answer.headers["x-invocation"]) == 36
    seen = answer.json()
    assert seen["url"] == f"{host.url}/items/caf%C3%A9%2Fx?a=1&a=2&b="
    assert seen["route"] == {"name": "café%2Fx"}
    assert seen["params"] == {"a": "1,2"}
    assert (seen["method"], seen["body"]) == ("PUT", "body")
    assert seen["headers"]["x-two"] == "b"
    assert "x-original-url" not in seen["headers"]


def test_deployed_paths_are_decoded_and_the_raw_one_is_in_headers(azure_host: HostProcess) -> None:
    raw = "/files/a%2Fb%3Ac/%E4%BD%A0?x=%2F"
    seen = send(azure_host, "GET", raw, headers={"X-Original-URL": "/forged"}).json()
    assert seen["route"] == {"rest": "a/b:c/你"}
    assert seen["url"] == f"{azure_host.url}/files/a/b:c/%E4%BD%A0?x=%2F"
    assert seen["headers"]["x-original-url"] == seen["headers"]["x-waws-unencoded-url"] == raw
    assert send(azure_host, "GET", "/items/a%2Fb").status == 404, "a segment's slash makes another path"
    assert send(azure_host, "GET", "/items/a%252Fb").json()["route"] == {"name": "a%2Fb"}


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nothing", 404),
        ("DELETE", "/items/x", 404),
        ("POST", "/words", 404),
        ("OPTIONS", "/words", 404),
        ("GET", "/items/%00", 400),
        ("GET", "/", 200),
        ("GET", "/admin/host/ping", 200),
        ("GET", "/admin/functions", 404),
    ],
)
def test_what_no_function_serves_gets_an_empty_answer(host: HostProcess, method: str, target: str, status: int) -> None:
    answer = send(host, method, target)
    assert (answer.status, answer.body) == (status, b"")


def test_head_has_the_headers_of_get_and_no_body(host: HostProcess) -> None:
    head, get = send(host, "HEAD", "/items/x"), send(host, "GET", "/items/x")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert int(head.headers["content-length"]) == len(get.body) + len("HEAD") - len("GET")


def test_strings_cookies_and_failures(host: HostProcess) -> None:
    words = send(host, "GET", "/words")
    assert (words.status, words.body, words.headers["content-type"]) == (200, b"plain", "text/plain; charset=utf-8")
    cookies = send(host, "GET", "/answers/cookies")
    assert (cookies.status, cookies.body, cookies.headers["set-cookie"]) == (204, b"", "a=1; Path=/")
    failed = send(host, "GET", "/answers/error?secret=hush")
    assert (failed.status, failed.body) == (500, b"")
    log = host.child.output()
    assert "meant to fail" in log
    assert "hush" not in log


def test_every_line_of_the_log_is_json_and_names_the_invocation(host: HostProcess) -> None:
    answer = send(host, "GET", "/items/x", headers={"Authorization": "Hawk mac"})
    lines = [line for line in host.child.output().splitlines() if not line.startswith("local host:")]
    entries = [json.loads(line) for line in lines]
    (entry,) = [entry for entry in entries if entry.get("invocation") == answer.headers["x-invocation"]]
    assert entry["level"] == "Information"
    assert entry["message"].startswith("Function item succeeded")
    assert "Hawk" not in host.child.output()


def test_a_function_that_runs_longer_than_function_timeout_fails(azurite: Azurite, tmp_path: Path) -> None:
    app = shutil.copytree(SAMPLE, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    settings = json.loads((app / "host.json").read_text())
    (app / "host.json").write_text(json.dumps({**settings, "functionTimeout": "00:00:00.500"}))
    with running_host(azurite, tmp_path, app=app) as host:
        assert send(host, "GET", "/answers/slow?seconds=600").status == 500
        assert "Function answers was stopped: it ran longer than functionTimeout" in host.child.output()


def test_slow_functions_do_not_hold_up_others(host: HostProcess) -> None:
    """Twenty-one of them wait for one another."""
    with ThreadPoolExecutor(20) as pool:
        slow = [pool.submit(send, host, "GET", "/answers/meet?number=21") for _ in range(20)]
        wait_until(lambda: len(host.seen(function="answers", kind="meet")) == 20, "all have begun")
        assert send(host, "GET", "/words").status == 200
        assert not any(future.done() for future in slow)
        assert send(host, "GET", "/answers/meet?number=21").status == 200
        assert [future.result().status for future in slow] == [200] * 20


def test_a_body_up_to_the_limit_is_taken(host: HostProcess) -> None:
    assert send(host, "POST", "/files/x", b"x" * LIMIT).json()["size"] == LIMIT


@pytest.mark.parametrize("size", [LIMIT + 1, 20 * LIMIT])
def test_a_body_beyond_the_limit_is_answered_413(host: HostProcess, size: int) -> None:
    answer = send(host, "POST", "/files/x", b"x" * size)
    assert (answer.status, answer.body) == (413, b"")
    chunks = (b"x" * 10_000 for _ in range(size // 10_000 + 1))
    assert send(host, "POST", "/files/x", chunks, {"Transfer-Encoding": "chunked"}).status == 413


def test_a_client_that_asks_first_need_not_send_too_large_a_body(host: HostProcess) -> None:
    with socket.create_connection(("127.0.0.1", host.port), timeout=30) as connection:
        head = f"POST /files/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {LIMIT + 1}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_in_chunks_reaches_the_function_whole(host: HostProcess) -> None:
    answer = send(host, "POST", "/files/x", iter([b"one ", b"two"]), {"Transfer-Encoding": "chunked"})
    assert answer.json()["body"] == "one two"


def test_a_client_that_hangs_up_does_not_end_its_function(host: HostProcess) -> None:
    """Its answer is written into the void: nobody is told, the function least of all."""
    before = len(host.seen(function="answers", kind="meet"))
    with socket.create_connection(("127.0.0.1", host.port), timeout=30) as connection:
        connection.sendall(b"GET /answers/meet?number=2 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(host.seen(function="answers", kind="meet")) == before + 1, "it has begun")
    assert send(host, "GET", "/answers/meet?number=2").status == 200


def test_a_request_that_is_cut_in_its_body_reaches_no_function(host: HostProcess) -> None:
    before = host.child.output().count("Function item ")
    with socket.create_connection(("127.0.0.1", host.port), timeout=30) as connection:
        connection.sendall(b"PUT /items/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\npart")
    answer = send(host, "PUT", "/items/whole", b"body")
    assert answer.status == 200
    assert host.child.output().count("Function item ") == before + 1
    assert "Exception" not in host.child.output()


def test_a_connection_serves_many_requests(host: HostProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=30)
    for number in range(3):
        connection.request("PUT", f"/items/{number}", body=b"x" * number)
        answer = Answer(connection.getresponse())
        assert (answer.status, answer.json()["size"]) == (200, number)
    connection.close()


def test_answers_on_kept_connections_do_not_wait_for_confirmations() -> None:
    """Head and body of an answer are two writes; by default the second waits 40 ms for the client to confirm the
    first."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
