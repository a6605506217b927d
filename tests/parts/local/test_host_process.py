"""Hosts as processes, on a real Azurite: how they start, what their app's process does to them, and how they stop.

The names are those of docs/functions-host.md. Times are shorter than the platform's, and their order is the same.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import QueueClient

from tests.parts.local.host_process import ECHO, HostProcess, launched, running_host, wait_until
from tools.local.azurite import Azurite
from tools.local.host.serving import bind

LIMIT = 100_000
STOPPED = "Host is shutting down"


def send(
    host: HostProcess,
    method: str = "GET",
    body: bytes | None = None,
    *,
    path: str = "/x",
    headers: Mapping[str, str] | None = None,
    timeout: float = 30,
    **order: object,
) -> tuple[int | None, bytes]:
    """Sends a request, with which the echo app does what the order says. No status: the connection was cut."""
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=timeout)
    try:
        ordered = {f"X-{name}": str(value) for name, value in order.items()}
        connection.request(method, path, body, {**(headers or {}), **ordered})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None, b""
    finally:
        connection.close()


@pytest.fixture
def calls() -> Iterator[ThreadPoolExecutor]:
    """Makes calls beside the test."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def queue(azurite: Azurite) -> Iterator[QueueClient]:
    """Yields a queue of the test's own, which the echo app listens to."""
    with QueueClient.from_connection_string(azurite.connection_string, f"q-{uuid.uuid4().hex[:12]}") as client:
        client.create_queue()
        yield client


def put(queue: QueueClient, **order: object) -> None:
    """Puts a message, with which the echo app does what the order says."""
    queue.send_message(base64.b64encode(json.dumps(order).encode()).decode())


def left(queue: QueueClient) -> int:
    """Returns how many messages there are, hidden ones included."""
    return queue.get_queue_properties().approximate_message_count or 0


def begun(host: HostProcess, name: str) -> bool:
    """Whether the echo app has begun the order with this id."""
    return bool(host.seen(begun=name))


@contextlib.contextmanager
def with_a_call_and_a_message(
    host: HostProcess, queue: QueueClient, calls: ThreadPoolExecutor, **order: Any
) -> Iterator[Future[tuple[int | None, bytes]]]:
    """Starts a call and a message that do what is ordered, and yields the call once both have begun."""
    call = calls.submit(send, host, id="call", **order)
    put(queue, id="message", **order)
    wait_until(lambda: begun(host, "call") and begun(host, "message"), "both have begun")
    yield call


def test_a_killed_worker_fails_its_calls_and_its_messages_come_again(
    azurite: Azurite, tmp_path: Path, queue: QueueClient, calls: ThreadPoolExecutor
) -> None:
    """When the worker process is killed, its calls fail and its messages come again at once, not when their leases end;
    calls that come meanwhile wait (experiment worker-kill)."""
    with running_host(azurite, tmp_path, queue=queue.queue_name) as host:
        put(queue, id="message", sleep=0.5)
        pending = calls.submit(send, host, id="call", sleep=60)
        wait_until(lambda: begun(host, "call") and begun(host, "message"), "both have begun")
        os.kill(host.seen()[0]["pid"], signal.SIGKILL)
        assert pending.result() == (500, b"")
        assert send(host)[0] == 200
        wait_until(lambda: host.seen(ended="message"), "the message is delivered again")
        assert [note["count"] for note in host.seen(message={"id": "message", "sleep": 0.5})] == [1, 2]
        wait_until(lambda: left(queue) == 0, "the message is deleted")
        assert host.child.poll() is None


def test_the_third_crash_of_the_worker_stops_the_host(
    azurite: Azurite, tmp_path: Path, calls: ThreadPoolExecutor
) -> None:
    """The third crash of the worker process stops the host. A call that comes after an earlier crash waits for the
    restart; one that comes after the third is cut (experiment worker-exit)."""
    with running_host(azurite, tmp_path, "--times", "restart=0.3,calls=0.5") as host:
        for _ in range(2):
            assert send(host, exit=3) == (500, b"")
            assert send(host)[0] == 200
        assert send(host, exit=3) == (500, b"")
        assert send(host)[0] is None
        assert host.child.wait(10) == 0
        assert "Exceeded language worker restart retry count" in host.child.output()


def test_a_message_that_kills_the_worker_stops_the_host(azurite: Azurite, tmp_path: Path, queue: QueueClient) -> None:
    """A message that kills the worker process three times stops the host (experiment worker-qexit)."""
    with running_host(azurite, tmp_path, "--times", "restart=0", queue=queue.queue_name) as host:
        put(queue, exit=3)
        assert host.child.wait(20) == 0
        assert [note["count"] for note in host.seen(message={"exit": 3})] == [1, 2, 3]


def test_a_function_that_overruns_is_answered_by_another_process(
    azurite: Azurite, tmp_path: Path, calls: ThreadPoolExecutor
) -> None:
    """The process of a function that overruns is replaced; the function is not told (experiment worker-timeout)."""
    app = shutil.copytree(ECHO, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    settings = json.loads((app / "host.json").read_text()) | {"functionTimeout": "00:00:00.300"}
    (app / "host.json").write_text(json.dumps(settings))
    with running_host(azurite, tmp_path, "--times", "grace=0.1,kill=0.3", app=app) as host:
        assert send(host, id="late", sleep=60) == (500, b"")
        assert send(host)[0] == 200
        assert len({note["pid"] for note in host.seen()}) == 2
        assert not host.seen(cut="late")
        assert "timeout value of 0.3 s exceeded" in host.child.output()


def test_a_host_ignores_sigterm_and_ends_in_order_on_sigint(
    azurite: Azurite, tmp_path: Path, queue: QueueClient, calls: ThreadPoolExecutor
) -> None:
    """SIGTERM has no effect. After SIGINT connections are refused at once, what runs is finished, and messages are
    still taken (experiments stop-term, stop-int)."""
    with running_host(azurite, tmp_path, queue=queue.queue_name) as host:
        with with_a_call_and_a_message(host, queue, calls, held=1) as call:
            os.kill(host.child.pid, signal.SIGTERM)
            assert send(host)[0] == 200
            host.child.terminate()
            wait_until(lambda: send(host)[0] is None, "connections are refused")
            put(queue, id="new")
            wait_until(lambda: host.seen(ended="new"), "messages are taken")
            assert not call.done()
            put(queue, id="release", release=1)
        assert call.result()[0] == 200
        assert host.child.wait(20) == 0
        assert host.seen(ended="message")
        assert left(queue) == 0


def test_what_runs_too_long_is_cut_when_the_host_stops(
    azurite: Azurite, tmp_path: Path, queue: QueueClient, calls: ThreadPoolExecutor
) -> None:
    """When the host stops, a call that runs too long is cut, and a message stays hidden until its lease ends. Their
    functions are told nothing (experiment stop-int-long)."""
    arguments = ("--times", "calls=0.3,messages=0.3,take=3")
    with running_host(azurite, tmp_path, *arguments, queue=queue.queue_name) as host:
        with with_a_call_and_a_message(host, queue, calls, sleep=60) as call:
            host.child.terminate()
            assert host.child.wait(20) == 0
        assert call.result()[0] is None
        assert not [note for note in host.seen() if "cut" in note or note.get("ended") in ("call", "message")]
        assert left(queue) == 1
    with running_host(azurite, tmp_path, queue=queue.queue_name) as other:
        wait_until(lambda: len(other.seen(message={"id": "message", "sleep": 60})) == 2, "it comes again")
        other.child.kill()


@pytest.mark.parametrize("group", ["http", "function:q", "function:t"])
def test_a_group_of_its_own_starts_its_listeners_alone(
    azurite: Azurite, tmp_path: Path, queue: QueueClient, group: str
) -> None:
    """With FUNCTIONS_TARGET_GROUP a host loads all functions, and starts the listeners of its group alone."""
    put(queue, id="message")
    with running_host(azurite, tmp_path, queue=queue.queue_name, FUNCTIONS_TARGET_GROUP=group) as host:
        match group:
            case "http":
                assert send(host)[0] == 200
                assert not host.seen(timer=True)
                assert left(queue) == 1
            case "function:q":
                wait_until(lambda: host.seen(ended="message"), "it is handled")
            case _:
                wait_until(lambda: host.seen(timer=True), "the timer runs")
                assert left(queue) == 1


def test_a_host_whose_roles_are_missing_ends_before_it_opens_its_port(azurite: Azurite, tmp_path: Path) -> None:
    """A host without its roles ends with exit code 0 before it opens its port, to be started again (start-403)."""
    other_key = azurite.connection_string.replace("AccountKey=", "AccountKey=AAAA")
    with launched(azurite, tmp_path, AzureWebJobsStorage=other_key) as child:
        assert child.wait(30) == 0
        assert STOPPED in child.output()
        assert "functions on http" not in child.output()


@pytest.fixture(scope="module")
def shared(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    """Yields a host that takes bodies up to a limit. Tests that use it leave it as it is."""
    folder = tmp_path_factory.mktemp("host")
    with running_host(azurite, folder, FUNCTIONS_REQUEST_BODY_SIZE_LIMIT=str(LIMIT)) as running:
        yield running


def test_a_body_beyond_the_limit_is_answered_500(shared: HostProcess) -> None:
    assert json.loads(send(shared, "POST", b"x" * LIMIT)[1])["length"] == LIMIT
    assert send(shared, "POST", b"x" * (LIMIT + 1)) == (500, b"")


def test_deployed_paths_are_decoded_and_the_raw_one_is_in_headers(shared: HostProcess) -> None:
    raw = "/files/a%2Fb%3Ac/%E4%BD%A0?x=%2F"
    seen = json.loads(send(shared, path=raw, headers={"X-Original-URL": "/forged"})[1])
    assert seen["route"] == "files/a/b:c/你"
    assert seen["url"] == f"http://127.0.0.1:{shared.port}/files/a/b:c/%E4%BD%A0?x=%2F"
    assert seen["headers"]["x-original-url"] == seen["headers"]["x-waws-unencoded-url"] == raw


def test_slow_functions_do_not_hold_up_others(shared: HostProcess, calls: ThreadPoolExecutor) -> None:
    """Many slow functions do not hold up other calls (experiment load-200)."""
    slow = [calls.submit(send, shared, id=f"slow{number}", sleep=1) for number in range(8)]
    wait_until(lambda: all(begun(shared, f"slow{number}") for number in range(8)), "all have begun")
    assert send(shared)[0] == 200
    assert not any(call.done() for call in slow)
    assert [call.result()[0] for call in slow] == [200] * 8


def test_a_client_that_hangs_up_does_not_end_its_function(shared: HostProcess) -> None:
    assert send(shared, timeout=0.3, id="gone", sleep=0.6)[0] is None
    wait_until(lambda: shared.seen(ended="gone"), "it ends by itself")


def test_a_request_that_is_cut_in_its_body_reaches_no_function(shared: HostProcess) -> None:
    assert send(shared, "PUT", b"part", headers={"Content-Length": "100"}, timeout=0.2, id="cut")[0] is None
    assert send(shared, "PUT", b"whole", id="whole")[0] == 200
    assert not begun(shared, "cut")
    assert "Exception" not in shared.child.output()


def test_every_line_of_the_log_is_json_and_names_the_invocation(shared: HostProcess) -> None:
    invocation = json.loads(send(shared, headers={"Authorization": "Hawk mac"})[1])["invocation"]
    lines = [line for line in shared.child.output().splitlines() if not line.startswith("local host:")]
    (entry,) = [entry for entry in map(json.loads, lines) if entry.get("invocation") == invocation]
    assert entry["level"] == "Information"
    assert entry["message"].startswith("Function http succeeded")
    assert "Hawk" not in shared.child.output()


def test_answers_on_kept_connections_do_not_wait_for_confirmations() -> None:
    """Nagle's algorithm is off: the second write of an answer would wait 40 ms for the client's confirmation."""
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            connection, _ = listener.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
