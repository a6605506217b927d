"""The public graph generator, unchanged: a decision task creates a graph, workers run it, its tools look after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests
import taskcluster
from taskgraph.util import taskcluster as tools

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment
from tests.promises.clients.graphs import SCHEDULER, Graph
from tests.promises.host.events import Events
from tests.promises.host.service import eventually

# How paths travel makes no difference to what is tested here; deployed Functions are the harder case.
pytestmark = pytest.mark.parametrize("deployment", [True], indirect=True, ids=["azure paths"])

BUILDS = ("build-debug", "build-release")
TESTS = ("test-debug", "test-release")
PACKAGE = "package-all"
INDEXING = "index-task-package-all"
CREATED = {*BUILDS, *TESTS, PACKAGE, INDEXING}


@pytest.fixture
def graph(deployment: Deployment, tmp_path: Path) -> Graph:
    """Returns a graph whose decision task is completed."""
    return Graph.decided(deployment, tmp_path / "sample")


def run(graph: Graph, worker_type: str, *labels: str) -> None:
    """Claims these tasks, which must be the only ones, uploads what they promise, and completes them."""
    claims = graph.claim(worker_type, len(labels))
    assert {claim["task"]["metadata"]["name"] for claim in claims} == set(labels)
    assert "pending" not in states(graph).values()
    for claim in claims:
        promised = claim["task"]["payload"].get("artifacts", [])
        graph.upload(claim, {artifact["name"]: artifact["name"].encode() for artifact in promised})
        graph.client(claim["credentials"]).reportCompleted(claim["status"]["taskId"], claim["runId"])


def states(graph: Graph) -> dict[str, str]:
    """Returns the states of the tasks that the decision task created, by label."""
    listed: list[dict[str, Any]] = []
    graph.queue.listTaskGroup(
        graph.task_id, paginationHandler=lambda page: listed.extend(page["tasks"]), paginationLimit=3
    )
    named = {entry["task"]["metadata"]["name"]: entry["status"]["state"] for entry in listed}
    return {label: named[label] for label in CREATED}


def test_workers_run_a_graph_in_order(graph: Graph, events: Events) -> None:
    assert graph.tasks.keys() == CREATED
    stored = {label: graph.queue.task(*graph.ids(label)) for label in CREATED}
    assert {(task["schedulerId"], task["taskGroupId"]) for task in stored.values()} == {(SCHEDULER, graph.task_id)}
    assert set(stored[PACKAGE]["dependencies"]) == set(graph.ids("build-release", *TESTS))
    assert [stored[label]["dependencies"] for label in BUILDS] == [[graph.task_id]] * 2
    assert [stored["test-debug"]["payload"]["env"]["BUILD_ID"]] == graph.ids("build-debug")
    run(graph, "linux", *BUILDS)
    run(graph, "linux", *TESTS)
    run(graph, "linux", PACKAGE)
    run(graph, "misc", INDEXING)
    assert set(states(graph).values()) == {"completed"}
    life = [("task-defined", None), ("task-pending", 0), ("task-running", 0), ("task-completed", 0)]
    events.expect(graph.task_id, *life, ("task-group-resolved", None))


def test_a_second_graph_reuses_what_the_first_one_built(deployment: Deployment, tmp_path: Path) -> None:
    """The builds of the first graph are found in the index, and tasks of a second graph that need them depend on
    them."""
    first = Graph.decided(deployment, tmp_path / "sample", reuses_builds=True)
    assert first.tasks.keys() == CREATED, "nothing is in the index yet"
    builds = dict(zip(BUILDS, first.ids(*BUILDS), strict=True))
    run(first, "linux", *BUILDS)
    index = taskcluster.Index(deployment.options(deployment.root))
    space = f"sample.cache.{first.provisioner}"
    found = {f"{space}.{label}": task_id for label, task_id in builds.items()}
    eventually(lambda: entries_of(index, space) == found or None)
    for label in TESTS:
        first.queue.cancelTask(*first.ids(label))
    second = first.decided_again()
    assert second.tasks.keys() == CREATED - set(BUILDS)
    labels = json.loads((second.artifacts / "label-to-taskid.json").read_text())
    assert {label: labels[label] for label in BUILDS} == builds
    stored = {label: second.queue.task(*second.ids(label)) for label in TESTS}
    assert [stored["test-debug"]["payload"]["env"]["BUILD_ID"]] == [builds["build-debug"]]
    claims = second.claim("linux", len(TESTS))
    assert {claim["task"]["metadata"]["name"] for claim in claims} == set(TESTS), "free from the beginning"


def entries_of(index: Any, namespace: str) -> dict[str, str]:
    """Returns the tasks of the entries right below a namespace, by path."""
    return {entry["namespace"]: entry["taskId"] for entry in index.listTasks(namespace)["tasks"]}


def test_the_stages_of_a_graph(graph: Graph) -> None:
    """The command line shows for each stage the same tasks, from the parameters that the decision task has stored."""
    parameters = graph.folder / "parameters.yml"
    url = graph.queue.buildSignedUrl("getLatestArtifact", graph.task_id, "public/parameters.yml")
    parameters.write_bytes(requests.get(url, timeout=30).content)
    assert parameters.read_bytes() == (graph.artifacts / "parameters.yml").read_bytes()
    shown = {
        stage: set(graph.taskgraph(stage, "--quiet", f"--parameters={parameters}").split())
        for stage in ("full", "target", "optimized", "morphed")
    }
    assert shown["morphed"] == CREATED
    assert shown["optimized"] == CREATED - {INDEXING}
    assert shown["target"] == shown["optimized"] | {"docs-html"}
    assert shown["full"] == shown["target"] | {"build-nightly"}


@pytest.mark.usefixtures("as_root")
def test_its_tools_find_and_change_tasks(graph: Graph) -> None:
    build, other = graph.ids(*BUILDS)
    (package,) = graph.ids(PACKAGE)
    names = {artifact["name"] for artifact in tools.list_artifacts(graph.task_id)}
    assert names == {f"public/{path.name}" for path in graph.artifacts.iterdir()}
    assert tools.get_artifact(graph.task_id, "public/label-to-taskid.json")[PACKAGE] == package
    assert tools.get_artifact(graph.task_id, "public/parameters.yml")["project"] == "sample"
    script = (graph.artifacts / "run-task").read_bytes()
    assert tools.get_artifact(graph.task_id, "public/run-task").read() == script
    assert tools.get_task_definition(build)["metadata"]["name"] == "build-debug"
    assert tools.get_task_definitions([package, new_slugid()]).keys() == {package}
    assert set(tools.get_ancestors(package).values()) >= {*BUILDS, *TESTS}
    run(graph, "linux", *BUILDS)
    assert tools.state_task(build) == "completed"
    tools.rerun_task(build)
    assert tools.status_task(build)["runs"][1]["reasonCreated"] == "rerun"
    tools.cancel_task(build)
    status = tools.status_task_batched([build, other])
    assert {task_id: found["state"] for task_id, found in status.items()} == {build: "exception", other: "completed"}
    incomplete = graph.ids(*TESTS, PACKAGE, INDEXING)
    assert set(tools.list_task_group_incomplete_tasks(graph.task_id)) == set(incomplete)
    assert tools.get_current_scopes() == ["*"]


def test_an_action_cancels_what_is_left(graph: Graph) -> None:
    run(graph, "linux", *BUILDS)
    scopes = [
        "assume:repo:github.com/example/sample:action:generic",
        "auth:current-scopes",
        "queue:get-artifact:public/parameters.yml",
        f"queue:list-task-group:{graph.task_id}",
        f"queue:cancel-task:{SCHEDULER}/{graph.task_id}/*",
    ]
    claim = graph.claim_new(new_slugid(), "actions", {"scopes": scopes})
    action = {"ACTION_TASK_GROUP_ID": graph.task_id, "ACTION_CALLBACK": "cancel-all"}
    graph.taskgraph("action-callback", claim=claim, environment=action)
    found = states(graph)
    assert {label for label in found if found[label] == "completed"} == set(BUILDS)
    assert {label for label in found if found[label] == "exception"} == CREATED - set(BUILDS)
    finished = graph.client(claim["credentials"]).reportCompleted(claim["status"]["taskId"], claim["runId"])
    assert finished["status"]["state"] == "completed"
