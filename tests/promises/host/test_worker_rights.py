"""The scopes that the reference worker's own client needs are those of `worker-client`, and no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.promises.host.service import Service, eventually
from tests.promises.host.worker_support import SECONDS, log_with, shell, wait_for_file
from tests.promises.host.workers import start_worker, worker
from tools.admin.worker_clients import worker_scopes

SCOPES_OF_THE_TASK = ["auth:current-scopes", "generic-worker:cache:own", "queue:get-artifact:private/out"]
BY_SIGNED_URLS = pytest.mark.parametrize("mode", ["signed", pytest.param("claim-work", marks=pytest.mark.large)])
"""Parameters for both kinds of workers. Those that poll signed URLs need one scope more than the others."""
CALLER = """
import os, urllib.request
print(urllib.request.urlopen(os.environ["TASKCLUSTER_PROXY_URL"] + "/api/auth/v1/scopes/current").read().decode())
"""


def needed(service: Service, mode: str) -> list[str]:
    """Returns the scopes that `worker-client create` gives the workers' client."""
    return worker_scopes(service.pool, "g", signed_polling=mode == "signed")


def variables(service: Service, scopes: Sequence[str]) -> dict[str, str]:
    """Returns the credentials of a client with these scopes alone."""
    made = service.running.deployment.new_client(*scopes)
    return {"TASKCLUSTER_CLIENT_ID": made["clientId"], "TASKCLUSTER_ACCESS_TOKEN": made["accessToken"]}


@BY_SIGNED_URLS
def test_the_scopes_of_a_worker_client_suffice_for_all_that_a_task_asks_for(
    hasty: Service, tmp_path: Path, mode: str
) -> None:
    """The scopes of a worker client suffice for all that a task asks for, also for renewing claims, by which it notices
    that a task was cancelled."""
    out = tmp_path / "out"
    building = hasty.create(payload=shell("sleep 2.5; echo built > out", artifacts={"private/out": "out"}))
    mounts = [
        {"file": "in", "content": {"taskId": building, "artifact": "private/out"}},
        {"directory": "kept", "cacheName": "own"},
    ]
    calling = {
        "command": [["sh", "-c", f"cat in > {out}; touch kept/it"], [sys.executable, "-c", CALLER]],
        "mounts": mounts,
        "features": {"taskclusterProxy": True},
    }
    using = hasty.create(payload=calling, dependencies=[building], scopes=SCOPES_OF_THE_TASK)
    environment = variables(hasty, needed(hasty, mode))
    more = ("--watch-seconds", "0.3")
    with worker(
        hasty.running.stack, hasty.pool, "one", logs=tmp_path, mode=mode, environment=environment, more=more
    ) as child:
        assert len(hasty.wait_for(building, "completed", SECONDS)["runs"]) == 1, "though claims last 2 seconds"
        hasty.wait_for(using, "completed", SECONDS)
        assert out.read_text() == "built\n"
        (answer,) = (line for line in log_with(hasty, using, '"scopes"').splitlines() if line.startswith("{"))
        scopes = set(json.loads(answer)["scopes"])
        assert set(SCOPES_OF_THE_TASK) <= scopes
        assert not scopes & set(needed(hasty, mode)), "a task may not do what its worker may"

        begun = tmp_path / "begun"
        cancelled = hasty.create(payload=shell(f"echo begun > {begun}; sleep 600"))
        wait_for_file(begun)
        hasty.queue.cancelTask(cancelled)
        eventually(lambda: f"{cancelled}/0: lost" in child.output(), SECONDS)
        assert "only renewals show when it ends: status is refused (403)" in child.output()


@BY_SIGNED_URLS
def test_without_any_one_of_them_it_ends_and_says_so(service: Service, tmp_path: Path, mode: str) -> None:
    scopes = needed(service, mode)
    for _ in scopes:  # who polls signed URLs hides the message that it finds
        service.create(payload=shell("true"))
    children = [
        start_worker(
            service.running.stack,
            service.pool,
            f"lacks-{number}",
            logs=tmp_path,
            mode=mode,
            environment=variables(service, [scope for scope in scopes if scope != lacking]),
        )
        for number, lacking in enumerate(scopes)
    ]
    for child in children:
        assert child.wait(SECONDS) == 1
        assert "does not let this worker ask for work" in child.output()
        child.stop()
