"""Requests of monitoring systems, at the API and at the root of the host (contract 1.2)."""

from __future__ import annotations

import gzip
import json
from urllib.parse import quote

import pytest

from shared.api.answer import PACKED_FROM, fixed_headers
from shared.base.ids import new_slugid
from shared.base.version import VERSION
from tests.promises.host.service import Service, refused
from tests.promises.host.wire import API, send


def test_by_the_public_client(service: Service) -> None:
    assert service.anonymous.ping()["alive"] is True
    assert service.anonymous.lbheartbeat() == {}
    assert service.anonymous.heartbeat() == {}
    version = service.anonymous.version()
    assert version.keys() == {"version", "commit", "source", "build"}
    assert (version["version"], version["build"]) == (VERSION, "development")


@pytest.mark.endpoint("health")
def test_health(service: Service) -> None:
    found = service.call("GET", "health")
    assert found.keys() == {"healthy", "findings"}
    assert found["healthy"] == (found["findings"] == [])
    assert not {finding["code"] for finding in found["findings"]} & {"tables-silent", "storage-slow"}
    with refused(403, "InsufficientScopes"):
        service.anonymous._makeHttpRequest("GET", "health", None)


def test_long_lists_are_compressed_for_those_who_accept_it(service: Service) -> None:
    group = new_slugid()
    for _ in range(8):
        service.create(taskGroupId=group)
    target = f"{API}/task-group/{group}/list"
    plain = send(service, "GET", target)
    packed = send(service, "GET", target, headers={"accept-encoding": "br, gzip"})
    assert gzip.decompress(packed.text) == plain.text
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "accept-encoding")
    assert ("content-encoding" not in plain.headers, plain.headers["vary"]) == (True, "accept-encoding")
    claimed = send(
        service,
        "POST",
        f"{API}/claim-work/{quote(service.pool, safe='')}",
        json.dumps({"workerGroup": "g", "workerId": "w", "tasks": 8}).encode(),
        headers={"accept-encoding": "gzip"},
    )
    assert (len(claimed.text) > PACKED_FROM, "content-encoding" in claimed.headers) == (True, False)


@pytest.mark.parametrize("path", ["/__version__", "/__heartbeat__", "/__lbheartbeat__"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_at_the_root_by_any_method(service: Service, method: str, path: str) -> None:
    answer = send(service, method, path, signed=False)
    assert answer.status == 200
    assert answer.body == send(service, "GET", API + path, signed=False).body


def test_https_is_demanded_where_the_root_url_is_one_of_https(service: Service) -> None:
    assert "strict-transport-security" not in send(service, "GET", f"{API}/ping").headers
    assert fixed_headers("https://tc.example.com")["strict-transport-security"] == "max-age=7776000"
