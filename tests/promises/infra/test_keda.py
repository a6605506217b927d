"""KEDA's own scaler (tests/promises/infra/keda) works with the rule of the templates against a stack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local.stacks import free_ports
from tests.promises.admin.conftest import SETTINGS, started
from tests.promises.admin.operators import Operator
from tests.promises.infra import templates
from tools.local.stack import Stack, StackOptions

SCALER = shutil.which(os.environ.get("KEDA_SCALER", "keda-scaler"))
"""Path of the scaler that tests/promises/infra/keda/build.sh makes: `KEDA_SCALER`, or the one on the PATH."""
pytestmark = [
    pytest.mark.large,
    pytest.mark.skipif(SCALER is None and "REQUIRE_AZURE_TOOLS" not in os.environ, reason="KEDA's scaler is not built"),
]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    yield from started(StackOptions(free_ports(), in_memory=True, app_settings=SETTINGS))


def _asked(stack: Stack, pool: str, bewit: str) -> subprocess.CompletedProcess[str]:
    """Returns the scaler's answer to the rule of the job that the templates make, for another task queue."""
    job = next(templates.resources("Microsoft.App/jobs")).body["properties"]["configuration"]["eventTriggerConfig"]
    (rule,) = job["scale"]["rules"]
    host, _, path = rule["metadata"]["url"].partition("/api/queue/v1/task-queues/")
    url = f"{stack.environment['TASKCLUSTER_ROOT_URL']}/api/queue/v1/task-queues/{pool.replace('/', '%2F')}/load"
    assert (host[:8], path.partition("%2F")[2].partition("/")[2]) == ("https://", "load")
    given = {
        "metadata": {**rule["metadata"], "url": url},
        "auth": {each["triggerParameter"]: bewit for each in rule["auth"]},
        "maxExecutions": job["scale"]["maxExecutions"],
    }
    return subprocess.run([str(SCALER)], input=json.dumps(given), capture_output=True, text=True, check=False)


def _load(stack: Stack, pool: str, bewit: str) -> dict[str, Any]:
    done = _asked(stack, pool, bewit)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_keda_starts_as_many_jobs_as_tasks_are_unresolved(stack: Stack, tmp_path: Path) -> None:
    operator = Operator(stack, tmp_path)
    secrets = operator.result("worker-client", "create", operator.pool)["secrets"]
    (bewit,) = (value for name, value in secrets.items() if name.endswith("-bewit"))
    assert _load(stack, operator.pool, bewit) == {"active": False, "value": 0, "executions": 0}
    for _ in range(3):
        operator.create()
    assert _load(stack, operator.pool, bewit) == {"active": True, "value": 3, "executions": 3}
    (claim,) = operator.claim()
    assert _load(stack, operator.pool, bewit)["value"] == 3, "a job that runs a task is not ended for it"
    operator.queue().cancelTask(claim["status"]["taskId"])
    assert _load(stack, operator.pool, bewit)["value"] == 2
    refused = _asked(stack, operator.pool, f"{bewit[:-4]}AAAA")
    assert refused.returncode == 1
    assert "401" in refused.stderr
