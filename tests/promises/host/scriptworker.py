"""scriptworker, a third party's worker, unchanged and configured as its documentation says."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.promises.host.service import Service

SCRIPT = Path(__file__).with_name("scriptworker_script.py")
EXECUTABLE = Path(sys.executable).with_name("scriptworker")


def _configuration(service: Service, folder: Path) -> dict[str, Any]:
    """Returns scriptworker.yaml (JSON is YAML) with what its documentation wants to be set."""
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


@contextmanager
def scriptworker(service: Service, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs scriptworkers/scriptworker-1 on the test's own task queue, with all of its files in a folder."""
    path = folder / "scriptworker.yaml"
    path.write_text(json.dumps(_configuration(service, folder)))
    with (folder / "output").open("wb") as output:
        environment = {**os.environ, "HOME": str(folder)}
        process = subprocess.Popen([EXECUTABLE, path], stdout=output, stderr=output, cwd=folder, env=environment)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                process.kill()


def payload(files: dict[str, int], exit_code: int = 0) -> dict[str, Any]:
    """Returns a payload: files with their numbers of lines that the script writes, and its exit code."""
    return {"files": files, "exit": exit_code}
