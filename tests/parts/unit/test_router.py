"""Raw paths to endpoints (contract 1.4, design 8)."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.endpoint import Endpoint
from shared.api.router import Router
from shared.app.apis import QUEUE

ROUTER = Router(QUEUE.prefix, QUEUE.endpoints)
TASK = "AAAAAAAAQACAAAAAAAAAAA"


def found(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    match = ROUTER.find(method, QUEUE.prefix + path)
    return None if match is None else (match.endpoint.name, dict(match.params))


@pytest.mark.parametrize(
    ("method", "path", "name", "params"),
    [
        ("GET", "/ping", "ping", {}),
        ("HEAD", "/ping/", "ping", {}),
        ("GET", f"/task/{TASK}", "task", {"taskId": TASK}),
        ("PUT", f"/task/{TASK}", "createTask", {"taskId": TASK}),
        ("GET", f"/task/{TASK}/", "task", {"taskId": TASK}),
        ("GET", "/task/a%2Fb", "task", {"taskId": "a/b"}),
        ("GET", "/task/%", "task", {"taskId": "%"}),
        ("GET", f"/task/{TASK}/status", "status", {"taskId": TASK}),
        ("POST", "/tasks/status", "statuses", {}),
        ("POST", f"/task/{TASK}/runs/0/claim", "claimTask", {"taskId": TASK, "runId": "0"}),
        ("POST", "/claim-work/p%2Fw", "claimWork", {"taskQueueId": "p/w"}),
        ("POST", "/claim-work/p%2fw", "claimWork", {"taskQueueId": "p/w"}),
        ("POST", "/claim-work/p/w", "claimWork", {"taskQueueId": "p/w"}),
        ("POST", "/claim-work/p/w/", "claimWork", {"taskQueueId": "p/w"}),
        ("GET", f"/task-group/{TASK}/list", "listTaskGroup", {"taskGroupId": TASK}),
    ],
)
def test_routes(method: str, path: str, name: str, params: dict[str, str]) -> None:
    assert found(method, path) == (name, params)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/"),
        ("GET", "/Ping"),
        ("GET", "//ping"),
        ("GET", "/ping//"),
        ("GET", "/ping\n"),
        ("POST", "/ping"),
        ("HEAD", f"/task/{TASK}/cancel"),
        ("GET", "/task/"),
        ("GET", "/task/a/b"),
        ("GET", f"/task/{TASK}/statuses"),
        ("POST", "/claim-work"),
        ("POST", "/claim-work/a/b/c"),
        ("POST", "/claim-work//"),
        ("TRACE", "/ping"),
    ],
)
def test_what_is_no_route(method: str, path: str) -> None:
    assert found(method, path) is None


def test_other_prefixes_are_not_ours() -> None:
    assert ROUTER.find("GET", "/ping") is None
    assert ROUTER.find("GET", f"/api/queue/v2{'/ping'}") is None
    assert ROUTER.find("GET", f"/x{QUEUE.prefix}/ping") is None


def test_methods_of_a_path() -> None:
    assert ROUTER.methods(f"{QUEUE.prefix}/task/{TASK}") == ["GET", "HEAD", "PUT"]
    assert ROUTER.methods(f"{QUEUE.prefix}/claim-work/a%2Fb") == ["POST"]
    assert ROUTER.methods(f"{QUEUE.prefix}/nothing") == []


@given(st.sampled_from(QUEUE.endpoints), st.data())
def test_every_endpoint_is_found_by_what_clients_send(endpoint: Endpoint, data: st.DataObject) -> None:
    """The router finds every endpoint with arguments of any text, which clients percent-encode."""
    params = {name: data.draw(st.text(min_size=1, max_size=12), label=name) for name in endpoint.params}
    path = re.sub(r"<([^>]+)>", lambda match: quote(params[match[1]], safe=""), endpoint.route)
    match = ROUTER.find(endpoint.method, QUEUE.prefix + path)
    assert match is not None
    assert (match.endpoint, match.params) == (endpoint, params)
