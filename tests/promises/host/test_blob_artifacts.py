"""Artifacts with hashes, as clients of 2019 upload them (contract 7.2, design 8)."""

from __future__ import annotations

import hashlib
from typing import Any

import requests

from tests.promises.host.artifacts import PACKED, TEXT, TIMEOUT, Run
from tests.promises.host.service import Service, refused


def hashed(data: bytes, **more: Any) -> dict[str, Any]:
    """Returns fields of createArtifact."""
    return {"contentLength": len(data), "contentSha256": hashlib.sha256(data).hexdigest(), **more}


def test_blob_upload_in_one_request(service: Service, run: Run) -> None:
    fields = hashed(
        TEXT,
        contentEncoding="gzip",
        transferLength=len(PACKED),
        transferSha256=hashlib.sha256(PACKED).hexdigest(),
    )
    answer = run.create("public/blob", "blob", **fields)
    assert answer.keys() == {"storageType", "expires", "requests"}
    (upload,) = answer["requests"]
    sent = requests.request(upload["method"], upload["url"], headers=upload["headers"], data=PACKED, timeout=TIMEOUT)
    assert sent.status_code == 201
    with refused(404, "ResourceNotFound"):
        run.url_of("public/blob")
    with refused(404, "ResourceNotFound"):
        run.info("public/blob")
    with refused(409, "RequestConflict"):
        run.complete()
    for _ in range(2):
        run.worker.finishArtifact(run.task_id, 0, "public/blob", {"etags": [sent.headers["etag"]]})
    assert run.download("public/blob") == TEXT
    url = service.queue.buildSignedUrl("getArtifact", run.task_id, 0, "public/blob")
    read = requests.get(url, allow_redirects=False, timeout=TIMEOUT)
    said = {name: read.headers[f"x-taskcluster-location-{name}"] for name in ("content-sha256", "transfer-length")}
    assert said == {"content-sha256": fields["contentSha256"], "transfer-length": str(len(PACKED))}
    run.complete()
    kinds = [event.body["artifact"]["storageType"] for event in run.announced()]
    assert kinds == ["blob"]


def test_blob_upload_in_parts(run: Run) -> None:
    data = bytes(range(250)) * 24_000
    parts = [data[:5_000_000], data[5_000_000:]]
    fields = hashed(data, parts=[{"sha256": hashlib.sha256(part).hexdigest(), "size": len(part)} for part in parts])
    uploads = run.create("public/blob", "blob", **fields)["requests"]
    etags = []
    for upload, part in zip(uploads, parts, strict=True):
        with refused(400, "InputError"):
            run.worker.finishArtifact(run.task_id, 0, "public/blob", {"etags": ["", ""]})
        sent = requests.put(upload["url"], headers=upload["headers"], data=part, timeout=TIMEOUT)
        etags.append(sent.headers.get("etag", ""))
    with refused(400, "InputError"):
        run.worker.finishArtifact(run.task_id, 0, "public/blob", {"etags": etags[:1]})
    run.worker.finishArtifact(run.task_id, 0, "public/blob", {"etags": etags})
    assert run.download("public/blob") == data
    run.complete()


def test_blob_that_was_not_uploaded_as_announced_is_not_finished(run: Run) -> None:
    (upload,) = run.create("public/blob", "blob", **hashed(TEXT))["requests"]
    with refused(400, "InputError"):
        run.worker.finishArtifact(run.task_id, 0, "public/blob", {"etags": ["x"]})
    headers = {**upload["headers"], "content-length": "3"}
    etag = requests.put(upload["url"], headers=headers, data=b"abc", timeout=TIMEOUT).headers["etag"]
    for etags in ([etag], ["another"]):
        with refused(400, "InputError"):
            run.worker.finishArtifact(run.task_id, 0, "public/blob", {"etags": etags})
    run.create("public/s3", "s3")
    with refused(400, "InputError"):
        run.worker.finishArtifact(run.task_id, 0, "public/s3", {"etags": [etag]})
    with refused(404, "ResourceNotFound"):
        run.worker.finishArtifact(run.task_id, 0, "public/unknown", {"etags": [etag]})
