"""URLs, headers and bodies (contract 1.3, 1.4, 12)."""

from __future__ import annotations

import http.client
import json
import re
from urllib.parse import urlsplit

import pytest

from shared.api.validation import MAX_BODY
from shared.base.ids import new_slugid
from tests.promises.host.service import Service, refused
from tests.promises.host.wire import API, send

NOT_FOUND = {"error": "Not found"}


def test_ping_is_public_and_looks_at_no_credentials(service: Service) -> None:
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Hawk nonsense"}):
        answer = send(service, "GET", f"{API}/ping", signed=False, headers=headers)
        assert (answer.status, answer.body["alive"]) == (200, True)
        assert answer.body["uptime"] >= 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/queue/v1/nothing"),
        ("GET", "/api/queue/v1"),
        ("GET", "/api/queue/v2/ping"),
        ("GET", "/api/queue/v1/Ping"),
        ("GET", "/api/queue/v1/ping//"),
        ("GET", "/api/queue/v1/task"),
        ("GET", "/api/queue/v1/task/"),
        ("GET", "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/nothing"),
        ("DELETE", "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA"),
        ("GET", "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/cancel"),
        ("POST", "/api/queue/v1/claim-work/a/b/c"),
        ("GET", "/nothing"),
        ("POST", "/"),
    ],
)
def test_unknown_routes(service: Service, method: str, path: str) -> None:
    answer = send(service, method, path, signed=False)
    assert (answer.status, answer.body) == (404, NOT_FOUND)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


def test_headers_of_every_answer(service: Service) -> None:
    task_id = new_slugid()
    for answer in (
        send(service, "GET", f"{API}/ping"),
        send(service, "GET", f"{API}/task/{task_id}"),
        send(service, "GET", f"{API}/nothing"),
    ):
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store no-cache must-revalidate"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-max-age"] == "900"
        assert answer.headers["access-control-allow-methods"] == "OPTIONS,GET,HEAD,POST,PUT,DELETE,TRACE,CONNECT"
        assert answer.headers["access-control-request-method"] == "*"
        assert "Authorization" in answer.headers["access-control-allow-headers"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors 'none'")
        assert answer.headers["x-for-trace-id"]
        assert answer.headers["x-for-request-id"]
    traced = send(service, "GET", f"{API}/ping", headers={"x-taskcluster-trace-id": "trace-1"})
    assert traced.headers["x-for-trace-id"] == "trace-1"


def test_the_error_envelope(service: Service) -> None:
    task_id = new_slugid()
    payload = {"newPriority": "high"}
    answer = send(service, "POST", f"{API}/task/{task_id}/priority", json.dumps(payload).encode())

    assert answer.status == 404
    assert answer.body.keys() == {"code", "message", "requestInfo"}
    assert answer.code == "ResourceNotFound"
    info = answer.body["requestInfo"]
    assert info == {
        "method": "changeTaskPriority",
        "params": {"taskId": task_id},
        "payload": payload,
        "time": info["time"],
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", info["time"])
    tail = answer.body["message"].splitlines()[-6:]
    assert tail == [
        "---",
        "",
        "* method:     changeTaskPriority",
        "* errorCode:  ResourceNotFound",
        "* statusCode: 404",
        f"* time:       {info['time']}",
    ]


def test_head_returns_the_headers_of_get_without_a_body(service: Service) -> None:
    task_id = service.create()
    for path in (f"{API}/ping", f"{API}/task/{task_id}", f"{API}/task/{task_id}/status"):
        answer = send(service, "HEAD", path)
        assert (answer.status, answer.text) == (200, b"")
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert send(service, "HEAD", f"{API}/task/{new_slugid()}").status == 404
    assert send(service, "HEAD", f"{API}/task/{task_id}/cancel").status == 404


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/ping", "GET, HEAD"),
        ("/task/AAAAAAAAQACAAAAAAAAAAA", "GET, HEAD, PUT"),
        ("/task/AAAAAAAAQACAAAAAAAAAAA/cancel", "POST"),
        ("/claim-work/a%2Fb", "POST"),
    ],
)
def test_options(service: Service, path: str, allow: str) -> None:
    answer = send(service, "OPTIONS", API + path, signed=False)
    assert answer.status == 200
    assert sorted(answer.headers["allow"].split(", ")) == sorted(allow.split(", "))
    assert answer.text.decode() == answer.headers["allow"]
    assert answer.headers["access-control-allow-origin"] == "*"


def test_one_slash_at_the_end_is_tolerated(service: Service) -> None:
    task_id = service.create()
    assert send(service, "GET", f"{API}/task/{task_id}/").body == service.queue.task(task_id)
    assert send(service, "GET", f"{API}/task/{task_id}/status/").status == 200
    assert send(service, "GET", f"{API}/task/{task_id}/status//").status == 404


def test_a_task_queue_with_a_raw_and_with_an_encoded_slash(service: Service) -> None:
    body = json.dumps({"workerGroup": "g", "workerId": "w"}).encode()
    provisioner_id, worker_type = service.pool.split("/")
    for path in (f"{provisioner_id}/{worker_type}", f"{provisioner_id}%2F{worker_type}"):
        task_id = service.create()
        answer = send(service, "POST", f"{API}/claim-work/{path}", body)
        assert [claim["status"]["taskId"] for claim in answer.body["tasks"]] == [task_id]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b'{"a": 1} x',
        b"{'a': 1}",
        b'"text"',
        b"5",
        b"null",
        b"true",
        b"\xff\xfe",
        b'{"a": NaN}',
        b"[" * 50,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_json_object_is_malformed(service: Service, body: bytes) -> None:
    task_id = service.create()
    for method, path in (
        ("PUT", f"/task/{new_slugid()}"),
        ("POST", f"/claim-work/{service.pool}"),
        ("POST", f"/task/{task_id}/cancel"),
    ):
        answer = send(service, method, API + path, body)
        assert (answer.status, answer.code) == (400, "MalformedPayload"), path
    assert service.status(task_id)["state"] == "pending"


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 101 + b"1" + b"}" * 101, b"[" + b"0," * 250_000 + b"0]", b"[" + b"9" * 1000 + b"]"],
    ids=["unclosed", "nested", "many", "digits"],
)
def test_body_beyond_a_limit_is_refused_with_a_short_answer(service: Service, body: bytes) -> None:
    for method, path in (("PUT", f"/task/{new_slugid()}"), ("POST", f"/claim-work/{service.pool}")):
        answer = send(service, method, API + path, body)
        assert (answer.status, answer.code) == (400, "InputError"), path
        assert "beyond a limit" in answer.body["message"]
        assert len(answer.text) < 65_536


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PUT", f"{API}/task/AAAAAAAAQACAAAAAAAAAAA", {"Transfer-Encoding": "chunked"}),
        ("POST", f"{API}/task/AAAAAAAAQACAAAAAAAAAAA/cancel", {"Transfer-Encoding": "chunked"}),
        ("GET", f"{API}/ping", {"Transfer-Encoding": "chunked"}),
        ("PUT", f"{API}/task/AAAAAAAAQACAAAAAAAAAAA", {}),
        ("PUT", "/artifacts/relay/AAAAAAAAQACAAAAAAAAAAA/0/YQ", {}),
    ],
)
def test_a_body_whose_length_is_not_stated_is_refused(
    service: Service, method: str, target: str, headers: dict[str, str]
) -> None:
    """A body whose length is not stated is refused: the Functions host passes on no body in chunks, and it must not be
    taken for an empty one."""
    site = urlsplit(service.running.deployment.root_url)
    connection = http.client.HTTPConnection(str(site.hostname), site.port, timeout=30)
    try:
        connection.putrequest(method, target)
        for name, value in {"content-type": "application/json", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(b"2\r\n{}\r\n0\r\n\r\n" if headers else None)
        answer = connection.getresponse()
        said = json.loads(answer.read())
    finally:
        connection.close()
    assert (answer.status, said["code"]) == (411, "LengthRequired")
    assert "Content-Length" in said["message"]
    assert send(service, "POST", f"{API}/task/{service.create()}/cancel").status == 200, "no body needs no length"


def test_a_body_that_is_too_large(service: Service) -> None:
    task_id = new_slugid()
    body = json.dumps(service.a_task(payload={"x": "x" * MAX_BODY})).encode()
    answer = send(service, "PUT", f"{API}/task/{task_id}", body)
    assert (answer.status, answer.code) == (413, "InputTooLarge")
    assert len(answer.text) < 10_000
    with refused(404, "ResourceNotFound"):
        service.queue.task(task_id)


def test_a_lone_surrogate_is_no_text(service: Service) -> None:
    """A lone surrogate is refused and never leads to a 500: it cannot be stored as UTF-8, nor sent in an event."""
    body = json.dumps(service.a_task(payload={"x": "?"})).replace('"?"', '"\\ud800"').encode()
    answer = send(service, "PUT", f"{API}/task/{new_slugid()}", body)
    assert answer.status == 400
