"""Uploads as workers make them, and what readers get: every way and every encoding (contract 7.2, design 8)."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests
from azure.storage.blob import BlobBlock, BlobClient, ContainerClient, ContentSettings
from taskcluster.upload import uploadFromBuf

from local.azurite import ACCOUNT, ACCOUNT_KEY
from shared.ids import new_slugid
from tests.host.artifacts import TIMEOUT, Run
from tests.host.service import Service, eventually, refused

TEXT = b"what the worker has written\n" * 100
PACKED = gzip.compress(TEXT, mtime=0)


@pytest.fixture
def run(service: Service) -> Run:
    return Run.of(service)


@pytest.mark.parametrize("direct", [False, True], ids=["relay", "direct"])
@pytest.mark.parametrize(
    ("name", "content_type", "encoding", "sent", "read"),
    [
        ("public/log.txt", "text/plain", "", TEXT, TEXT),
        ("public/log.txt", "text/plain", "gzip", PACKED, TEXT),
        ("public/data.json", "application/json", "gzip", PACKED, TEXT),
        ("public/a.tar.gz", "application/gzip", "", PACKED, PACKED),
        ("public/a.tgz", "application/octet-stream", "", PACKED, PACKED),
        ("public/empty", "text/plain", "", b"", b""),
        ("private/bytes", "application/octet-stream", "", bytes(range(256)), bytes(range(256))),
    ],
    ids=["plain", "gzip", "gzip json", "declared gzip", "named gzip", "empty", "bytes"],
)
def test_bytes_come_back_as_the_worker_meant_them(
    run: Run, direct: bool, name: str, content_type: str, encoding: str, sent: bytes, read: bytes
) -> None:
    assert run.upload(name, sent, content_type, encoding=encoding, direct=direct) == (201 if direct else 200)
    assert run.download(name) == read
    assert run.raw(name) == sent
    answer = run.fetch(name)
    assert answer.headers["content-type"] == content_type
    assert answer.headers.get("content-encoding", "") == encoding
    stated = len(gzip.decompress(sent) if encoding else sent)
    assert run.info(name)["contentLength"] == (stated if direct else len(sent))


def test_gzip_without_a_name_that_says_so_comes_back_as_it_was(run: Run) -> None:
    """What was stored with exactly the length that the worker stated was not encoded for the transfer."""
    url = run.create("public/chain-of-trust", "s3", contentLength=len(PACKED))["putUrl"]
    assert run.put(url, PACKED).status_code == 201
    assert run.download("public/chain-of-trust") == PACKED
    assert run.raw("public/chain-of-trust") == PACKED
    assert "content-encoding" not in run.fetch("public/chain-of-trust").headers
    assert run.info("public/chain-of-trust")["contentLength"] == len(PACKED)


def test_the_relay_knows_every_encoding_and_trusts_it(run: Run) -> None:
    """What the worker says counts, whatever the bytes look like."""
    run.upload("public/brotli", b"not looked into", encoding="br")
    run.upload("public/identity", PACKED, "text/plain")
    assert run.info("public/brotli")["contentLength"] == len(b"not looked into")
    with requests.get(run.url_of("public/brotli"), stream=True, timeout=TIMEOUT) as answer:
        assert answer.headers["content-encoding"] == "br"
    assert run.download("public/identity") == PACKED


def test_a_direct_upload_is_seen_whole_or_not_at_all(run: Run) -> None:
    url = run.create("public/log", "s3", contentLength=len(TEXT))["putUrl"]
    assert urlsplit(url).port != urlsplit(run.service.running.deployment.root_url).port
    with refused(404, "ResourceNotFound"):
        run.url_of("public/log")
    assert not _cut_off(url)
    with refused(404, "ResourceNotFound"):
        run.url_of("public/log")
    assert run.put(url, TEXT).status_code == 201
    assert run.download("public/log") == TEXT


def _cut_off(url: str) -> bool:
    """A PUT whose connection ends in the middle; whether it was answered well."""

    def halves() -> Any:
        yield TEXT[:100]
        raise ConnectionError

    try:
        prepared = requests.Request("PUT", url, data=halves(), headers={"Content-Type": "text/plain"}).prepare()
        prepared.headers.pop("Transfer-Encoding")
        prepared.headers["Content-Length"] = str(len(TEXT))
        with requests.Session() as session:
            return session.send(prepared, timeout=TIMEOUT).ok
    except (ConnectionError, requests.ConnectionError):
        return False


@pytest.mark.parametrize("direct", [False, True], ids=["relay", "direct"])
def test_an_upload_may_be_repeated_until_the_run_is_over(service: Service, run: Run, direct: bool) -> None:
    """The last one counts, also when an earlier one was read before."""
    for content in (b"one", b"two 2", b"three"):
        run.upload("public/log", content, direct=direct)
        assert run.download("public/log") == content
    length = {"contentLength": 5} if direct else {}
    url = run.create("public/log", "s3", **length)["putUrl"]
    run.put(url, b"FINAL")
    run.complete()
    service.wait_for(run.task_id, "completed")
    assert run.download("public/log") == b"FINAL"


def test_an_unread_upload_is_committed_by_the_resolution(service: Service, run: Run) -> None:
    run.upload("public/log", TEXT, direct=True)
    run.complete()
    with ContainerClient.from_container_url(
        f"http://127.0.0.1:{service.running.stack.options.ports.blob}/devstoreaccount1/public-artifacts",
        credential={"account_name": ACCOUNT, "account_key": ACCOUNT_KEY},
    ) as container:
        eventually(lambda: list(container.list_blobs(name_starts_with=f"{run.task_id}/")))
        (found,) = container.list_blobs(name_starts_with=f"{run.task_id}/")
    assert (found.size, found.content_settings.content_type) == (len(TEXT), "text/plain")
    assert found.content_settings.content_disposition == 'inline; filename="log"'


def test_upload_urls_open_one_artifact_only(run: Run) -> None:
    """Neither kind of URL can be bent to another artifact, another run or another time."""
    relay = run.create("public/relayed", "s3")["putUrl"]
    direct = run.create("public/direct", "s3", contentLength=3)["putUrl"]
    other = run.create("public/other", "s3")["putUrl"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(relay).query).items()}
    path = relay.split("?")[0]
    forged = [
        path,
        f"{path}?{urlencode({**query, 'until': '99999999999'})}",
        f"{path}?{urlencode({**query, 'type': 'text/html'})}",
        f"{path}?{urlencode({**query, 'signature': 'x'})}",
        f"{other.split('?')[0]}?{urlencode(query)}",
        f"{path.replace('/0/', '/1/')}?{urlencode(query)}",
        f"{path.replace(run.task_id, new_slugid())}?{urlencode(query)}",
    ]
    for url in forged:
        assert run.put(url, b"evil").status_code == 403, url
    assert run.put(direct.replace("/0/", "/1/"), b"evil").status_code == 403
    assert requests.get(direct, timeout=TIMEOUT).status_code in {403, 404}
    for name in ("public/relayed", "public/direct", "public/other"):
        with refused(404, "ResourceNotFound"):
            run.url_of(name)


def test_the_relay_responds_as_s3_does(run: Run) -> None:
    url = run.create("public/log", "s3", contentType="application/json")["putUrl"]
    answer = run.put(url, b"{not json", "application/json")
    assert (answer.status_code, answer.content) == (200, b"")
    assert run.download("public/log") == b"{not json"
    assert requests.get(url, timeout=TIMEOUT).status_code == 404


def test_a_content_type_that_no_header_can_hold(run: Run) -> None:
    for direct in (False, True):
        name = f"public/{direct}"
        length = {"contentLength": 1} if direct else {}
        url = run.create(name, "s3", contentType="text/plain\r\nx: ü", **length)["putUrl"]
        assert run.put(url, b"x").ok
        assert run.fetch(name).headers["content-type"] == "application/octet-stream"
        assert run.info(name)["contentType"] == "text/plain\r\nx: ü"


def test_azure_artifacts_are_written_with_the_block_blob_api(run: Run) -> None:
    answer = run.create("private/azure", "azure", contentType="application/json")
    with BlobClient.from_blob_url(answer["putUrl"]) as blob:
        blob.upload_blob(
            PACKED, content_settings=ContentSettings(content_type="application/json", content_encoding="gzip")
        )
    assert run.download("private/azure") == TEXT
    assert run.info("private/azure") == {
        "storageType": "azure",
        "name": "private/azure",
        "expires": run.expires,
        "contentType": "application/json",
    }


def test_azure_artifacts_may_grow_after_they_were_read(run: Run) -> None:
    """So what they say of themselves has no length, which would be that of the first look."""
    answer = run.create("public/log", "azure", contentType="text/plain")
    with BlobClient.from_blob_url(answer["putUrl"]) as blob:
        for number in range(2):
            blob.stage_block(str(number), b"line\n")
            blob.commit_block_list([BlobBlock(str(each)) for each in range(number + 1)])
            assert run.download("public/log") == b"line\n" * (number + 1)
    assert "contentLength" not in run.info("public/log")


class TestBlob:
    """Artifacts with hashes, as clients of 2019 upload them."""

    @staticmethod
    def request(data: bytes, **more: Any) -> dict[str, Any]:
        return {"contentLength": len(data), "contentSha256": hashlib.sha256(data).hexdigest(), **more}

    def test_blob_upload_in_one_request(self, service: Service, run: Run) -> None:
        fields = self.request(
            TEXT,
            contentEncoding="gzip",
            transferLength=len(PACKED),
            transferSha256=hashlib.sha256(PACKED).hexdigest(),
        )
        answer = run.create("public/blob", "blob", **fields)
        assert answer.keys() == {"storageType", "expires", "requests"}
        (upload,) = answer["requests"]
        sent = requests.request(
            upload["method"], upload["url"], headers=upload["headers"], data=PACKED, timeout=TIMEOUT
        )
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
        kinds = [event.body["artifact"]["storageType"] for event in _announced(service, run)]
        assert kinds == ["blob"]

    def test_blob_upload_in_parts(self, run: Run) -> None:
        data = bytes(range(250)) * 24_000
        parts = [data[:5_000_000], data[5_000_000:]]
        fields = self.request(
            data, parts=[{"sha256": hashlib.sha256(part).hexdigest(), "size": len(part)} for part in parts]
        )
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

    def test_what_was_not_uploaded_as_announced(self, run: Run) -> None:
        (upload,) = run.create("public/blob", "blob", **self.request(TEXT))["requests"]
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

    def test_a_run_that_fails_does_not_wait_for_its_uploads(self, run: Run) -> None:
        run.create("public/blob", "blob", **self.request(TEXT))
        run.worker.reportFailed(run.task_id, 0)

    def test_parts_that_do_not_fit(self, run: Run) -> None:
        small, large = {"sha256": "0" * 64, "size": 1}, {"sha256": "0" * 64, "size": 5_000_000}
        with refused(400, "InputValidationError"):
            run.create("public/blob", "blob", **self.request(TEXT, parts=[small, large]))
        with refused(400, "InputError"):
            run.create("public/blob", "blob", **self.request(TEXT, parts=[large, small]))
        with refused(400, "InputError"):
            run.create("public/blob", "blob", contentSha256="0" * 64, contentLength=6 * 10**9)
        with refused(400, "InputError"):
            run.create("public/large", "s3", contentLength=5 * 10**9)


class TestObject:
    """Artifacts that the public clients' helpers upload and download."""

    @pytest.mark.parametrize("data", [b"", b"small", b"large " * 20_000], ids=["empty", "inline", "put"])
    def test_by_the_public_helpers(self, service: Service, run: Run, data: bytes) -> None:
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
        assert requests.get(reader.buildSignedUrl("download", content["name"]), timeout=TIMEOUT).content == data
        assert [event.body["artifact"]["name"] for event in _announced(service, run)] == ["public/an object"]

    def test_client_that_sends_chunks_gets_an_upload_that_takes_them(
        self, service: Service, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the public Go client does, whatever length it is asked to send; Blob Storage refuses that."""
        created = run.create("public/object", "object")
        objects, name = service.objects(**created["credentials"]), created["name"]
        data = b"large " * 20_000
        upload = {
            "projectId": created["projectId"],
            "uploadId": created["uploadId"],
            "expires": created["expires"],
            "proposedUploadMethods": {"putUrl": {"contentType": "a/b", "contentLength": len(data)}},
        }
        direct = objects.createUpload(name, upload)["uploadMethod"]["putUrl"]["url"]
        refusal = requests.put(direct, data=iter([data]), headers={"x-ms-blob-type": "BlockBlob"}, timeout=TIMEOUT)
        assert refusal.status_code >= 400
        monkeypatch.setattr(requests.utils, "default_user_agent", lambda: "Go-http-client/1.1")
        put = objects.createUpload(name, upload)["uploadMethod"]["putUrl"]
        assert "/artifacts/relay/" in put["url"]
        answer = requests.put(put["url"], data=iter([data]), headers={"Content-Type": "a/b"}, timeout=TIMEOUT)
        assert answer.status_code == 200, answer.text
        hashes = {"sha256": hashlib.sha256(data).hexdigest()}
        end = {"projectId": created["projectId"], "uploadId": created["uploadId"], "hashes": hashes}
        objects.finishUpload(name, end)
        run.worker.finishArtifact(run.task_id, 0, "public/object", {"uploadId": created["uploadId"]})
        assert run.download("public/object") == data

    def test_object_refusals(self, service: Service, run: Run) -> None:
        created = run.create("public/object", "object")
        finish = {"uploadId": created["uploadId"]}
        with refused(409, "RequestConflict"):
            run.create("public/object", "object")
        with refused(400, "InputError"):
            run.worker.finishArtifact(run.task_id, 0, "public/object", {"uploadId": new_slugid()})
        with refused(400, "InputError"):
            run.worker.finishArtifact(run.task_id, 0, "public/object", finish)
        with refused(400, "InputValidationError"):
            run.worker.finishArtifact(run.task_id, 0, "public/object", {})
        run.create("public/s3", "s3")
        with refused(400, "InputError"):
            run.worker.finishArtifact(run.task_id, 0, "public/s3", finish)
        for run_id in (0, 1):
            with refused(404, "ResourceNotFound"):
                service.queue.finishArtifact(run.task_id, run_id, "public/unknown", finish)

    def test_the_object_service(self, service: Service, run: Run) -> None:
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


def _announced(service: Service, run: Run) -> list[Any]:
    def found() -> list[Any]:
        return [event for event in service.events.of(run.task_id) if event.topic == "artifact-created"]

    return eventually(found)
