"""Every endpoint of artifacts, called as its clients call it (docs/compatibility.md)."""

from __future__ import annotations

import hashlib

import pytest
import requests
from taskcluster.download import downloadArtifactToBuf
from taskcluster.upload import uploadFromBuf

from tests.promises.host.artifacts import TIMEOUT, Run
from tests.promises.host.service import Service, refused

NAME = "public/logs/a b.log"
CONTENT = b"it ran\n"


@pytest.mark.endpoint("createArtifact")
@pytest.mark.endpoint("getArtifact")
@pytest.mark.endpoint("getLatestArtifact")
def test_what_was_put_is_got(service: Service, run: Run) -> None:
    assert run.upload(NAME, CONTENT) == 200
    for answer in (
        service.queue.getArtifact(run.task_id, 0, NAME),
        service.queue.getLatestArtifact(run.task_id, NAME),
    ):
        assert answer["storageType"] == "s3"
        assert requests.get(answer["url"], timeout=TIMEOUT).content == CONTENT


@pytest.mark.endpoint("listArtifacts")
@pytest.mark.endpoint("listLatestArtifacts")
@pytest.mark.endpoint("artifactInfo")
@pytest.mark.endpoint("latestArtifactInfo")
def test_artifacts_are_listed_and_described(service: Service, run: Run) -> None:
    run.refer("b")
    run.upload(NAME, CONTENT, direct=True)
    run.refer("a")
    listed = service.queue.listArtifacts(run.task_id, 0)["artifacts"]
    assert [(each["name"], each["storageType"]) for each in listed] == [
        ("a", "reference"),
        ("b", "reference"),
        (NAME, "s3"),
    ]
    page = service.queue.listLatestArtifacts(run.task_id, query={"limit": 2})
    rest = service.queue.listLatestArtifacts(run.task_id, query={"continuationToken": page["continuationToken"]})
    assert [*page["artifacts"], *rest["artifacts"]] == listed
    assert service.queue.artifactInfo(run.task_id, 0, NAME) == listed[2]
    assert service.queue.latestArtifactInfo(run.task_id, NAME) == listed[2]


@pytest.mark.endpoint("artifact")
@pytest.mark.endpoint("latestArtifact")
def test_content_and_storage_types_are_read(service: Service, run: Run) -> None:
    run.upload(NAME, CONTENT)
    run.link("link", NAME)
    run.fail("missing")
    content, content_type = downloadArtifactToBuf(taskId=run.task_id, name="link", queueService=service.queue)
    assert (bytes(content), content_type) == (CONTENT, "text/plain")
    assert service.queue.artifact(run.task_id, 0, "link")["storageType"] == "s3"
    missing = service.queue.latestArtifact(run.task_id, "missing")
    assert (missing["storageType"], missing["reason"]) == ("error", "file-missing-on-worker")


@pytest.mark.endpoint("finishArtifact")
def test_an_object_is_uploaded_and_finished(service: Service, run: Run) -> None:
    created = run.create("object", "object")
    with refused(404, "ResourceNotFound"):
        service.queue.artifactInfo(run.task_id, 0, "object")
    uploadFromBuf(
        projectId=created["projectId"],
        name=created["name"],
        contentType="text/plain",
        contentLength=len(CONTENT),
        expires=created["expires"],
        uploadId=created["uploadId"],
        data=CONTENT,
        objectService=service.objects(**created["credentials"]),
    )
    run.worker.finishArtifact(run.task_id, 0, "object", {"uploadId": created["uploadId"]})
    assert run.download("object") == CONTENT


@pytest.mark.endpoint("completeArtifact")
def test_a_blob_of_2019_is_uploaded_and_completed(run: Run) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    created = run.create("blob", "blob", contentSha256=digest, contentLength=len(CONTENT))
    (request,) = created["requests"]
    put = requests.request(request["method"], request["url"], headers=request["headers"], data=CONTENT, timeout=TIMEOUT)
    assert put.status_code in {200, 201}
    etags = [put.headers.get("etag", "none")]
    run.worker._makeHttpRequest("put", f"task/{run.task_id}/runs/0/artifacts/blob", {"etags": etags})
    assert run.fetch("blob").content == CONTENT
