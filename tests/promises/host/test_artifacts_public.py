"""Artifacts that everybody may read, of every name: a public container, plain URLs, paths as on Azure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from azure.storage.blob import BlobServiceClient, PublicAccess

from shared.store.keys import PUBLIC
from tests.parts.local.stacks import free_ports
from tests.promises.host.artifacts import TIMEOUT, Run
from tests.promises.host.conftest import STRAIGHT, start
from tests.promises.host.service import Running, Service

RELAY_LIMIT = 1 << 20


@pytest.fixture(scope="module")
def public() -> Iterator[Running]:
    """Yields a stack whose public artifacts lie in a public container, and can be read by anybody."""
    ports = free_ports()
    base_url = f"http://127.0.0.1:{ports.blob}/devstoreaccount1/{PUBLIC}"
    limited = {"PUBLIC_ARTIFACT_BASE_URL": base_url, "ARTIFACT_RELAY_LIMIT_BYTES": str(RELAY_LIMIT)}
    for running in start({**STRAIGHT, **limited}, ports=ports):
        with BlobServiceClient.from_connection_string(running.stack.azurite.connection_string) as blobs:
            blobs.create_container(PUBLIC, public_access=PublicAccess.BLOB)
        with running.deployment.auth() as auth:
            auth.createRole("anonymous", {"description": "of a test", "scopes": ["queue:get-artifact:public/*"]})
        yield running


@pytest.fixture
def run(public: Running) -> Run:
    return Run.of(Service(public))


def test_public_artifacts_have_plain_urls(run: Run) -> None:
    run.upload("public/a b.txt", b"relayed")
    run.upload("public/direct.txt", b"put straight", direct=True)
    run.upload("private/a.txt", b"private")
    assert "?" not in run.url_of("public/a b.txt")
    assert run.fetch("public/a b.txt").content == b"relayed"
    assert run.fetch("public/direct.txt").content == b"put straight"
    answer = run.fetch("public/direct.txt")
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["content-disposition"] == 'inline; filename="direct.txt"'
    private = run.url_of("private/a.txt")
    assert requests.get(private, timeout=TIMEOUT).content == b"private"
    assert requests.get(private.split("?")[0], timeout=TIMEOUT).status_code in {403, 404}


def test_raw_and_encoded_slash_in_names(run: Run) -> None:
    """A raw slash in an artifact's name is as good as an encoded one; an empty name is no name (contract 1.4)."""
    run.upload("public/a/b", b"c")
    root = f"{run.service.running.deployment.root_url}/api/queue/v1/task/{run.task_id}"
    for path in ("runs/0/artifacts/public/a/b", "artifacts/public%2Fa%2Fb", "artifacts/public/a%2Fb"):
        assert requests.get(f"{root}/{path}", timeout=TIMEOUT).content == b"c"
    head = requests.head(f"{root}/artifacts/public/a/b", allow_redirects=False, timeout=TIMEOUT)
    assert (head.status_code, head.content) == (303, b"")
    answer = requests.get(f"{root}/runs/0/artifacts/", timeout=TIMEOUT)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidRequestArguments")
