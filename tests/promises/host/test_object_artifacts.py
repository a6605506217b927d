"""Artifacts that the public clients' helpers upload and download, by the object service (contract 7.2, design 8)."""

from __future__ import annotations

import hashlib

import pytest
import requests
from taskcluster.upload import uploadFromBuf

from shared.base.ids import new_slugid
from tests.promises.host.artifacts import TIMEOUT, Run
from tests.promises.host.service import Service, refused


@pytest.mark.parametrize("data", [b"", b"small", b"large " * 20_000], ids=["empty", "inline", "put"])
def test_object_upload_and_download_by_the_public_helpers(service: Service, run: Run, data: bytes) -> None:
    created = run.create("public/an object", "object", contentType="application/x-thing")
    assert created.keys() == {"storageType", "name", "projectId", "uploadId", "expires", "credentials"}
    assert (created["name"], created["projectId"]) == (f"t/{run.task_id}/0/public/an object", "none")
    objects = service.objects(**created["credentials"])
    uploadFromBuf(
        data=data,
        projectId=created["projectId"],
        name=created["name"],
        contentType="application/x-thing",
        contentLength=len(data),
        expires=created["expires"],
        uploadId=created["uploadId"],
        objectService=objects,
    )
    with refused(404, "ResourceNotFound"):
        run.url_of("public/an object")
    for _ in range(2):
        run.worker.finishArtifact(run.task_id, 0, "public/an object", {"uploadId": created["uploadId"]})
    assert run.download("public/an object") == data
    assert run.fetch("public/an object").content == data
    assert run.fetch("public/an object").headers["content-type"] == "application/x-thing"
    content = service.queue.artifact(run.task_id, 0, "public/an object")
    reader = service.objects(**content["credentials"])
    assert reader.object(content["name"])["hashes"]["sha256"] == hashlib.sha256(data).hexdigest()
    download = reader.buildSignedUrl("download", content["name"])
    assert requests.get(download, timeout=TIMEOUT).content == data
    redirection = requests.get(download, timeout=TIMEOUT, allow_redirects=False)
    assert redirection.text == f"See Other. Redirecting to {redirection.headers['location']}"
    assert [event.body["artifact"]["name"] for event in run.announced()] == ["public/an object"]


def test_the_object_service(service: Service, run: Run) -> None:
    created = run.create("public/object", "object")
    name = created["name"]
    objects, root = service.objects(**created["credentials"]), service.objects(**service.running.deployment.root)
    upload = {
        "projectId": created["projectId"],
        "uploadId": created["uploadId"],
        "expires": created["expires"],
        "proposedUploadMethods": {},
    }
    assert objects.createUpload(name, upload)["uploadMethod"] == {}
    with refused(403, "InsufficientScopes"):
        objects.createUpload(f"t/{run.task_id}/0/public/other", upload)
    with refused(404, "ResourceNotFound"):
        root.createUpload(f"t/{run.task_id}/0/public/other", upload)
    with refused(404, "ResourceNotFound"):
        root.createUpload("anything", upload)
    with refused(409, "RequestConflict"):
        objects.createUpload(name, {**upload, "uploadId": new_slugid()})
    end = {"projectId": created["projectId"], "uploadId": created["uploadId"]}
    with refused(400, "InputError"):
        objects.finishUpload(name, end)
    inline = {"dataInline": {"contentType": "text/plain", "objectData": "eA=="}}
    assert objects.createUpload(name, {**upload, "proposedUploadMethods": inline})["uploadMethod"] == {
        "dataInline": True
    }
    with refused(404, "ResourceNotFound"):
        root.startDownload(name, {"acceptDownloadMethods": {"getUrl": True}})
    hashes = {"sha256": hashlib.sha256(b"x").hexdigest()}
    objects.finishUpload(name, {**end, "hashes": hashes})
    objects.finishUpload(name, {**end, "hashes": hashes})
    with refused(409, "RequestConflict"):
        objects.finishUpload(name, {**end, "hashes": {"sha256": "0" * 64}})
    with refused(409, "RequestConflict"):
        objects.createUpload(name, {**upload, "proposedUploadMethods": inline})
    with refused(403, "InsufficientScopes"):
        objects.startDownload(name, {"acceptDownloadMethods": {"getUrl": True}})
    simple = root.startDownload(name, {"acceptDownloadMethods": {"simple": True}})
    assert requests.get(simple["url"], timeout=TIMEOUT).content == b"x"
    with refused(406, None):
        root.startDownload(name, {"acceptDownloadMethods": {"other": True}})
