"""Uploads as workers make them, and what readers get: every way and every encoding (contract 7.2, design 8)."""

from __future__ import annotations

import gzip
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests
from azure.storage.blob import BlobClient, ContentSettings

from shared.base.ids import new_slugid
from tests.promises.host.artifacts import PACKED, TEXT, TIMEOUT, Run
from tests.promises.host.service import refused


@pytest.mark.parametrize("direct", [False, True], ids=["relay", "direct"])
@pytest.mark.parametrize(
    ("name", "content_type", "encoding", "sent", "read"),
    [
        ("public/log.txt", "text/plain", "", TEXT, TEXT),
        ("public/log.txt", "text/plain", "gzip", PACKED, TEXT),
        ("public/data.json", "application/json", "gzip", PACKED, TEXT),
        ("public/a.tar.gz", "application/gzip", "", PACKED, PACKED),
        ("public/a.tgz", "application/octet-stream", "", PACKED, PACKED),
        ("public/a.tar", "application/x-tar", "gzip", PACKED, TEXT),
        ("public/a.gz", "application/gzip", "gzip", gzip.compress(PACKED), PACKED),
        ("public/magic", "text/plain", "", PACKED[:10], PACKED[:10]),
        ("public/empty", "text/plain", "", b"", b""),
        ("private/bytes", "application/octet-stream", "", bytes(range(256)), bytes(range(256))),
    ],
    ids=[
        "plain",
        "gzip",
        "gzip json",
        "declared gzip",
        "named gzip",
        "encoded tar",
        "twice",
        "magic",
        "empty",
        "bytes",
    ],
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
    assert run.info(name)["contentLength"] == len(read)


def test_upload_urls_open_one_artifact_only(run: Run) -> None:
    """An upload URL of either kind cannot be changed into one for another artifact, run or time."""
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
