"""A worker whose client was disabled goes on calling: `health` says so, whichever host it called (contract 2.5)."""

from __future__ import annotations

import time

import pytest
import taskcluster

from shared.base.ids import new_slugid
from tests.host.service import Service, refused

LIMIT_SECONDS = 420.0
"""Two minutes that it goes on, one until a host writes that, one until another host reads it; and patience."""


@pytest.mark.large
@pytest.mark.timeout(LIMIT_SECONDS + 60)
def test_a_client_that_is_disabled_and_still_used_is_a_finding(service: Service) -> None:
    deployment = service.running.deployment
    auth = taskcluster.Auth({"rootUrl": deployment.root_url, "credentials": dict(deployment.root)})
    name = f"worker/refused/{new_slugid()}"
    made = auth.createClient(
        name, {"description": "", "expires": taskcluster.fromNowJSON("1 day"), "scopes": ["queue:claim-work:*"]}
    )
    credentials = {"clientId": name, "accessToken": made["accessToken"]}
    worker = taskcluster.Queue({"rootUrl": deployment.root_url, "credentials": credentials, "maxRetries": 0})
    auth.disableClient(name)
    findings: list[str] = []
    give_up = time.monotonic() + LIMIT_SECONDS
    while not findings and time.monotonic() < give_up:
        with refused(401, "AuthenticationFailed"):
            worker.claimWork(service.pool, {"workerGroup": "g", "workerId": "w"})
        time.sleep(5)
        found = service.call("GET", "health")["findings"]
        findings = [each["message"] for each in found if each["code"] == "credentials-refused"]
    (message,) = findings
    assert f"{name} (disabled" in message
