"""The index through the public clients' Index classes and taskgraph's own look-ups, on a running deployment."""

from __future__ import annotations

import http.client
import urllib.request
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest
from taskcluster.exceptions import TaskclusterRestFailure
from taskgraph.util import taskcluster as tools

from shared.app.apis import INDEX
from shared.auth import hawk
from shared.base.ids import new_slugid
from shared.base.shares import share_of
from tests.promises.clients.deployment import Credentials, Deployment, Outcome, format_time, javascript
from tests.promises.host.service import eventually

ENDPOINTS = {endpoint.name: endpoint for endpoint in INDEX.endpoints}


class Caller:
    """Calls the PyPI client's Index, with the root credentials or others."""

    def __init__(self, deployment: Deployment, credentials: Credentials | None) -> None:
        self._deployment = deployment
        self._credentials = credentials

    def __call__(self, method: str, *args: Any, query: dict[str, str] | None = None) -> Outcome:
        outcome = self._deployment.python(
            method, *args, service="Index", credentials=self._credentials, **({"query": query} if query else {})
        )
        output = ENDPOINTS[method].output
        if outcome.status == 200 and output is not None:
            output.model_validate(outcome.body)
        return outcome


@pytest.fixture
def root(deployment: Deployment) -> Caller:
    return Caller(deployment, deployment.root)


@pytest.fixture
def space() -> str:
    """Returns a namespace of the test's own."""
    return f"test-{uuid.uuid4().hex}"


def entry(
    task_id: str | None = None, rank: int = 0, life: timedelta = timedelta(days=1), **data: Any
) -> dict[str, Any]:
    return {"taskId": task_id or new_slugid(), "rank": rank, "data": data, "expires": format_time(life)}


def test_insert_find_and_delete(root: Caller, space: str) -> None:
    path = f"{space}.v2.latest.app"
    first, lower = entry(rank=41, v=1), entry(rank=40)
    assert root("findTask", path).code == "ResourceNotFound"
    stored = root("insertTask", path, first).body
    assert stored == {**first, "namespace": path, "expires": stored["expires"]}
    assert root("insertTask", path, lower).body == stored, "the higher rank stays"
    assert root("findTask", path).body == stored
    second = entry(rank=41)
    assert root("insertTask", path, second).body["taskId"] == second["taskId"], "of equal ranks the later wins"
    assert root("deleteTask", path).status == 200
    assert root("deleteTask", path).status == 200
    assert root("findTask", path).status == 404
    listed = root("listNamespaces", space).body["namespaces"]
    assert [one["namespace"] for one in listed] == [f"{space}.v2"], "namespaces stay"


@pytest.mark.parametrize(
    "changes", [{"rank": 1.5}, {"rank": 2**31}, {"data": []}, {"data": None}, {"more": 1}, {"taskId": "x"}]
)
def test_what_is_no_entry_is_refused(root: Caller, space: str, changes: dict[str, Any]) -> None:
    assert root("insertTask", f"{space}.a", {**entry(), **changes}).code == "InputValidationError"
    assert root("findTask", f"{space}.a").status == 404


def test_scopes_are_needed_for_everything(deployment: Deployment, root: Caller, space: str) -> None:
    nobody = Caller(deployment, None)
    path = f"{space}.a"
    root("insertTask", path, entry())
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("findTask", (path,)),
        ("findTasksAtIndex", ({"indexes": [path]},)),
        ("listTasks", (space,)),
        ("listNamespaces", (space,)),
        ("insertTask", (path, entry())),
        ("deleteTask", (path,)),
        ("findArtifactFromTask", (path, "secret/key")),
    ]
    assert {method: nobody(method, *args).code for method, args in calls} == {
        method: "InsufficientScopes" for method, _ in calls
    }
    assert root("findTask", path).status == 200


def test_the_npm_client(deployment: Deployment, space: str) -> None:
    one = entry(rank=-3)
    calls = [
        deployment.javascript_call("insertTask", f"{space}.a", one, credentials=deployment.root, service="Index"),
        deployment.javascript_call("findTask", f"{space}.a", credentials=deployment.root, service="Index"),
        deployment.javascript_call("listTasks", space, credentials=deployment.root, service="Index"),
    ]
    inserted, found, listed = javascript(*calls)
    assert inserted == found
    assert listed.body["tasks"] == [found.body]
    root: dict[str, Any] = {"credentials": deployment.root, "service": "Index"}
    call = deployment.javascript_call
    at_once, namespaces, page, deleted, gone = javascript(
        call("findTasksAtIndex", {"indexes": [f"{space}.a", f"{space}.none"]}, **root),
        call("listNamespaces", "", {"limit": 1000}, **root),
        call("listTasks", space, {"limit": 1}, **root),
        call("deleteTask", f"{space}.a", **root),
        call("findTask", f"{space}.a", **root),
    )
    assert at_once.body["tasks"] == [found.body]
    assert space in [one["name"] for one in namespaces.body["namespaces"]]
    assert page.body["tasks"] == [found.body]
    assert (deleted.body, gone.status) == ({}, 404)


@pytest.fixture
def built(deployment: Deployment, root: Caller, space: str) -> tuple[str, str]:
    """Returns a path and the task that is found there, with two artifacts."""
    path = f"{space}.latest.app"
    task_id = complete(deployment, [f"index.{path}"], {"index": {"rank": 5, "data": {"kind": "build"}}})
    eventually(lambda: root("findTask", path).status == 200 or None)
    return path, task_id


def complete(deployment: Deployment, routes: list[str], extra: dict[str, Any]) -> str:
    """Runs a task to its end; returns its id."""

    def queue(method: str, *args: Any, credentials: Credentials | None = None) -> Any:
        outcome = deployment.python(method, *args, service="Queue", credentials=credentials or deployment.root)
        assert outcome.status in (200, 204), outcome
        return outcome.body

    task_id, worker = new_slugid(), f"w{uuid.uuid4().hex[:12]}"
    definition = {
        "taskQueueId": f"index-test/{worker}",
        "created": format_time(timedelta()),
        "deadline": format_time(timedelta(hours=1)),
        "expires": format_time(timedelta(days=2)),
        "routes": routes,
        "extra": extra,
        "payload": {},
        "metadata": {"name": "n", "description": "d", "owner": "o@example.com", "source": "https://example.com"},
    }
    queue("createTask", task_id, definition)
    (claim,) = queue("claimWork", f"index-test/{worker}", {"workerGroup": "g", "workerId": worker})["tasks"]
    for name in ("public/build 1.zip", "secret/key"):
        artifact = {"storageType": "s3", "contentType": "text/plain", "expires": format_time(timedelta(hours=2))}
        put = queue("createArtifact", task_id, 0, name, artifact, credentials=claim["credentials"])["putUrl"]
        request = urllib.request.Request(put, b"content", {"content-type": "text/plain"}, method="PUT")
        urllib.request.urlopen(request).close()
    link = {"storageType": "link", "artifact": "secret/key", "contentType": "text/plain"}
    link["expires"] = format_time(timedelta(hours=2))
    queue("createArtifact", task_id, 0, "shared/link", link, credentials=claim["credentials"])
    queue("reportCompleted", task_id, 0, credentials=claim["credentials"])
    return task_id


def test_artifacts_by_path(deployment: Deployment, built: tuple[str, str]) -> None:
    path, task_id = built
    private = location(deployment, f"/api/index/v1/task/{path}/artifacts/secret%2Fkey")
    assert private.startswith(f"{deployment.root_url}/api/queue/v1/task/{task_id}/artifacts/secret%2Fkey?bewit=")
    with urllib.request.urlopen(private) as answer:
        assert answer.read() == b"content"
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(private.replace("secret%2Fkey", "public%2Fbuild%201.zip"))
    with refused.value:
        assert refused.value.code == 401, "a bewit is for one address"


def test_a_link_by_path_leads_no_further_than_its_reader_may_go(deployment: Deployment, built: tuple[str, str]) -> None:
    path, _ = built
    target = f"/api/index/v1/task/{path}/artifacts/shared%2Flink"
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(location(deployment, target, "queue:get-artifact:shared/*"))
    with refused.value:
        assert refused.value.code == 403
        assert b"queue:get-artifact:secret/key" in refused.value.read()
    scopes = ("queue:get-artifact:shared/*", "queue:get-artifact:secret/key")
    with urllib.request.urlopen(location(deployment, target, *scopes)) as answer:
        assert answer.read() == b"content"


def bewit(deployment: Deployment, target: str, *scopes: str) -> str:
    """Returns the address with a signature of root's, or of a fresh client's with these scopes."""
    client = deployment.new_client(*scopes) if scopes else deployment.root
    site = hawk.Site.of(deployment.root_url)
    expiry = datetime.now(UTC) + timedelta(minutes=5)
    signer = client["clientId"], client["accessToken"]
    counted = share_of(client["clientId"])
    made = hawk.make_bewit(*signer, target, expiry, site, authorized_scopes=scopes or ["*"], share=counted)
    return f"{deployment.root_url}{target}?bewit={made}"


def location(deployment: Deployment, target: str, *scopes: str) -> str:
    """Returns where a request to the target is redirected that root, or a client with these scopes, has signed."""
    signed = urlsplit(bewit(deployment, target, *scopes))
    connection = http.client.HTTPConnection(str(signed.hostname), signed.port, timeout=30)
    try:
        connection.request("GET", f"{signed.path}?{signed.query}")
        answer = connection.getresponse()
        assert answer.status == 303, answer.read()
        return str(answer.getheader("location"))
    finally:
        connection.close()


@pytest.mark.usefixtures("as_root")
def test_taskgraph_finds_tasks_by_the_index(built: tuple[str, str]) -> None:
    path, task_id = built
    assert tools.find_task_id(path) == task_id
    with pytest.raises(TaskclusterRestFailure, match="not found"):
        tools.find_task_id(f"{path}.absent")
    with closing(tools.get_artifact_from_index(path, "public/build 1.zip")) as content:
        assert content.read() == b"content"
    assert tools.list_tasks(path.rpartition(".")[0]) == [task_id]
    assert tools.find_task_id_batched([path, f"{path}.absent"]) == {path: task_id}
