"""Every endpoint of the index, called as its clients call it (docs/compatibility.md)."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote

import pytest

from shared.base.ids import new_slugid
from tests.promises.host.service import Service, eventually, in_future
from tests.promises.host.wire import send


@pytest.fixture
def space() -> str:
    """Returns a namespace of the test's own."""
    return f"test-{uuid.uuid4().hex}"


def entry(rank: int = 0) -> dict[str, Any]:
    return {"taskId": new_slugid(), "rank": rank, "data": {}, "expires": in_future(3600)}


@pytest.mark.endpoint("index.ping")
@pytest.mark.endpoint("index.lbheartbeat")
@pytest.mark.endpoint("index.heartbeat")
@pytest.mark.endpoint("index.version")
@pytest.mark.endpoint("index.health")
def test_monitoring_of_the_index(service: Service) -> None:
    assert service.index.ping()["alive"] is True
    assert service.index.lbheartbeat() == service.index.heartbeat() == {}
    assert set(service.index._makeHttpRequest("GET", "health", None)) == {"healthy", "findings"}
    assert set(service.index.version()) == {"version", "commit", "source", "build"}


@pytest.mark.endpoint("index.insertTask")
@pytest.mark.endpoint("index.findTask")
@pytest.mark.endpoint("index.deleteTask")
def test_an_entry_is_inserted_found_and_deleted(service: Service, space: str) -> None:
    wanted = entry(rank=7)
    stored = service.index.insertTask(f"{space}.a", wanted)
    assert stored == {**wanted, "namespace": f"{space}.a", "expires": stored["expires"]}
    assert service.index.findTask(f"{space}.a") == stored
    assert service.index.deleteTask(f"{space}.a") == {}
    assert service.index.listTasks(space) == {"tasks": []}


@pytest.mark.endpoint("index.findTasksAtIndex")
@pytest.mark.endpoint("index.listNamespaces")
@pytest.mark.endpoint("index.listTasks")
def test_entries_and_namespaces_are_listed(service: Service, space: str) -> None:
    stored = [service.index.insertTask(f"{space}.{name}", entry()) for name in ("a", "b.c")]
    asked = {"indexes": [f"{space}.a", f"{space}.b.c", f"{space}.absent"]}
    found = service.index.findTasksAtIndex(asked)["tasks"]
    assert sorted(found, key=lambda one: one["namespace"]) == stored
    assert service.index.listTasks(space)["tasks"] == stored[:1]
    assert [one["name"] for one in service.index.listNamespaces(space)["namespaces"]] == ["b"]


@pytest.mark.endpoint("index.listNamespacesPost")
@pytest.mark.endpoint("index.listTasksPost")
def test_the_older_forms_of_the_lists(service: Service, space: str) -> None:
    stored = service.index.insertTask(f"{space}.b.c", entry())
    call = service.index._makeHttpRequest
    assert [one["name"] for one in call("POST", f"namespaces/{space}", {"limit": 1})["namespaces"]] == ["b"]
    assert space in [one["name"] for one in call("POST", "namespaces", {})["namespaces"]]
    assert call("POST", f"tasks/{space}.b", None)["tasks"] == [stored]


@pytest.mark.endpoint("index.findArtifactFromTask")
def test_an_artifact_is_found_by_the_path_of_its_task(service: Service, space: str) -> None:
    claim = service.claimed(routes=[f"index.{space}.latest"])
    task_id = claim["status"]["taskId"]
    reference = {"storageType": "reference", "url": "https://example.com/log", "contentType": "text/plain"}
    service.queue.createArtifact(task_id, 0, "secret/log", {**reference, "expires": in_future(3600)})
    service.queue.reportCompleted(task_id, 0)
    listed = eventually(lambda: service.index.listTasks(space)["tasks"])
    assert [one["taskId"] for one in listed] == [task_id]
    answer = service.index.findArtifactFromTask(f"{space}.latest", "secret/log")["response"]
    queue = f"{service.running.deployment.root_url}/api/queue/v1"
    assert answer.headers["location"].startswith(f"{queue}/task/{task_id}/artifacts/secret%2Flog?bewit=")


def by_go(text: str) -> str:
    """Escapes a parameter as Go's url.PathEscape does, by which the Go clients and their command line write paths."""
    return quote(text, safe="$&+=:@~")


def test_calls_as_the_command_line_in_go_writes_them(service: Service, space: str) -> None:
    path, wanted = f"{space}.a%b.c'(d)~*!", entry(rank=3)
    route = f"/api/index/v1/task/{by_go(path)}"
    stored = send(service, "PUT", route, json.dumps(wanted).encode()).body
    assert (stored["namespace"], stored["taskId"]) == (path, wanted["taskId"])
    assert send(service, "GET", route).body == stored
    asked = json.dumps({"indexes": [path]}).encode()
    assert send(service, "POST", "/api/index/v1/tasks/indexes?continuationToken=&limit=5", asked).status == 400
    assert send(service, "POST", "/api/index/v1/tasks/indexes?limit=5", asked).body == {"tasks": [stored]}
    listed = send(service, "GET", f"/api/index/v1/tasks/{by_go(f'{space}.a%b')}?limit=5")
    assert listed.body == {"tasks": [stored]}
    assert send(service, "GET", "/api/index/v1/namespaces/").status == 200, "an empty parameter leaves the slash"
    sent_on = send(service, "GET", f"{route}/artifacts/{by_go('secret/a b')}")
    assert sent_on.status == 303
    assert sent_on.text.decode() == f"See Other. Redirecting to {sent_on.headers['location']}"
    assert f"/task/{wanted['taskId']}/artifacts/secret%2Fa%20b?bewit=" in sent_on.headers["location"]
    assert send(service, "DELETE", route).body == {}
    assert send(service, "GET", route).status == 404
