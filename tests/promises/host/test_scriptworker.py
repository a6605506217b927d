"""scriptworker, a third party's worker, works with this service.

It claims with claimWork, runs a script, uploads what that has written and the log with bare PUTs of its own (which
state no length to createArtifact, and insist on an answer of 200), and reports. Its packages are larger than the API
takes, so uploads have an app of their own.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from taskcluster.download import downloadArtifactToBuf

from tests.promises.host.artifacts import TEXT, TIMEOUT, Run
from tests.promises.host.conftest import start
from tests.promises.host.scriptworker import payload, scriptworker
from tests.promises.host.service import Running, Service


@pytest.fixture(scope="module")
def uploading() -> Iterator[Running]:
    """Yields a stack with an app for uploads."""
    yield from start({}, hosts=1, uploads=True)


@pytest.fixture
def service(uploading: Running) -> Service:
    """Returns the service, with a task queue of the test's own."""
    return Service(uploading)


@pytest.fixture
def worker(service: Service, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a scriptworker that polls the test's own task queue."""
    with scriptworker(service, tmp_path) as process:
        yield process


def a_task(service: Service, files: dict[str, int], *, exit_code: int = 0) -> str:
    return service.create(payload=payload(files, exit_code), retries=1)


def download(service: Service, task_id: str, name: str) -> bytes:
    content, _ = downloadArtifactToBuf(taskId=task_id, name=name, queueService=service.queue)
    return bytes(content)


def test_it_runs_a_task_and_uploads_what_came_of_it(service: Service, worker: subprocess.Popen[bytes]) -> None:
    files = {
        "public/build/result.json": 2000,
        "public/build/target.tar.gz": 50,
        "public/a name/with spaces & more.txt": 3,
        "private/data.bin": 500_000,
    }
    task_id = a_task(service, files)
    status = service.wait_for(task_id, "completed", 60)
    assert (status["runs"][0]["workerGroup"], status["runs"][0]["workerId"]) == ("scriptworkers", "scriptworker-1")
    listed = {each["name"]: each for each in service.queue.listLatestArtifacts(task_id)["artifacts"]}
    assert listed.keys() == {
        *files,
        "public/logs/live_backing.log",
        "public/chain-of-trust.json",
        "public/chain-of-trust.json.sig",
    }
    for name, lines in files.items():
        written = "".join(f"{line}\n" for line in range(lines)).encode()
        content = download(service, task_id, name)
        assert (gzip.decompress(content) if name.endswith(".gz") else content) == written
    for name in files:
        assert f"wrote {name}" in download(service, task_id, "public/logs/live_backing.log").decode()
    trust = json.loads(download(service, task_id, "public/chain-of-trust.json"))
    assert (trust["taskId"], trust["runId"]) == (task_id, 0)
    assert listed["public/logs/live_backing.log"]["contentType"] == "text/plain"
    assert worker.poll() is None


def test_no_app_serves_what_is_the_other_ones(service: Service) -> None:
    """The app for calls serves no uploads, and the app for uploads no calls. An upload whose length is stated goes
    straight into storage."""
    run = Run.of(service)
    url = run.create("public/unstated", "s3")["putUrl"]
    api, uploads = service.running.deployment.root_url, url.partition("/artifacts/")[0]
    assert uploads == f"http://127.0.0.1:{service.running.stack.options.ports.uploads}"
    assert run.put(url.replace(uploads, api), TEXT).status_code == 404
    for path in ("/api/queue/v1/ping", "/api/auth/v1/ping", "/references/queue/v1/api.json", "/", "/metrics"):
        assert requests.get(f"{uploads}{path}", timeout=TIMEOUT).status_code == 404, path
    assert run.put(url, iter([TEXT])).status_code == 411
    large = TEXT * 1000
    assert run.put(url, large).status_code == 200
    assert run.download("public/unstated") == large
    assert run.put(run.create("public/stated", "s3", contentLength=len(TEXT))["putUrl"], TEXT).status_code == 201


@pytest.mark.large
def test_it_reports_what_its_script_ends_with(service: Service, worker: subprocess.Popen[bytes]) -> None:
    failed = a_task(service, {"public/failure.txt": 1}, exit_code=1)
    malformed = a_task(service, {}, exit_code=3)
    intermittent = a_task(service, {}, exit_code=7)
    assert service.wait_for(failed, "failed", 60)["runs"][0]["reasonResolved"] == "failed"
    assert download(service, failed, "public/failure.txt") == b"0\n"
    assert service.wait_for(malformed, "exception", 60)["runs"][0]["reasonResolved"] == "malformed-payload"
    status = service.wait_for(intermittent, "exception", 60)
    assert [run["reasonResolved"] for run in status["runs"]] == ["intermittent-task", "intermittent-task"]
    assert download(service, intermittent, "public/logs/live_backing.log")
