"""A third party's worker, unchanged and configured as its documentation says, works with this service.

It claims with claimWork, runs a script, uploads what that has written and the log with bare PUTs of its own (which
insist on an answer of 200), and reports.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from taskcluster.download import downloadArtifactToBuf

from tests.host.service import Service

SCRIPT = Path(__file__).with_name("scriptworker_script.py")
EXECUTABLE = Path(sys.executable).with_name("scriptworker")


def configuration(service: Service, folder: Path) -> dict[str, Any]:
    """scriptworker.yaml (JSON is YAML): what its documentation wants to be set, and nothing taken away."""
    root = service.running.deployment
    provisioner_id, worker_type = service.pool.split("/")
    key = folder / "ed25519_private_key"
    key.write_text(base64.b64encode(bytes(range(32))).decode())
    work, artifacts = folder / "work", folder / "artifacts"
    return {
        "taskcluster_root_url": root.root_url,
        "credentials": dict(root.root),
        "provisioner_id": provisioner_id,
        "worker_type": worker_type,
        "worker_group": "scriptworkers",
        "worker_id": "scriptworker-1",
        "work_dir": str(work),
        "log_dir": str(folder / "logs"),
        "artifact_dir": str(artifacts),
        "task_log_dir": str(artifacts / "public" / "logs"),
        "ed25519_private_key_path": str(key),
        "poll_interval": 1,
        "task_script": [sys.executable, str(SCRIPT), str(work), str(artifacts)],
    }


@pytest.fixture
def worker(service: Service, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """scriptworker, polling the test's own task queue."""
    path = tmp_path / "scriptworker.yaml"
    path.write_text(json.dumps(configuration(service, tmp_path)))
    with (tmp_path / "output").open("wb") as output:
        environment = {**os.environ, "HOME": str(tmp_path)}
        process = subprocess.Popen([EXECUTABLE, path], stdout=output, stderr=output, cwd=tmp_path, env=environment)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                process.kill()


def a_task(service: Service, files: dict[str, int], *, exit_code: int = 0) -> str:
    return service.create(payload={"files": files, "exit": exit_code}, retries=1)


def download(service: Service, task_id: str, name: str) -> bytes:
    content, _ = downloadArtifactToBuf(taskId=task_id, name=name, queueService=service.queue)
    return bytes(content)


def test_it_runs_a_task_and_uploads_what_came_of_it(service: Service, worker: subprocess.Popen[bytes]) -> None:
    files = {
        "public/build/result.json": 2000,
        "public/build/target.tar.gz": 50,
        "public/a name/with spaces & more.txt": 3,
        "private/data.bin": 100_000,
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
