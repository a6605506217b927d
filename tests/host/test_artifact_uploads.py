"""Uploads as workers make them, and what readers get: every way and every encoding (contract 7.2, design 8)."""

from __future__ import annotations

import gzip
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests
from azure.storage.blob import BlobClient, ContainerClient, ContentSettings

from shared.base.ids import new_slugid
from tests.host.artifacts import PACKED, TEXT, TIMEOUT, Run
from tests.host.service import Service, eventually, refused
from tools.local.azurite import ACCOUNT, ACCOUNT_KEY


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


def test_an_artifact_that_the_relay_takes_comes_by_it_whether_its_length_is_stated_or_not(hasty: Service) -> None:
    """By default. Runs of this stack soon end as an exception, after which their artifacts still come."""
    run = Run.of(hasty)
    for name, stated, status in (("a", len(TEXT), 200), ("b", None, 200), ("c", 1 << 30, 201)):
        url = run.create(name, "s3", contentLength=stated)["putUrl"]
        assert run.put(url, PACKED, encoding="gzip").status_code == status
        assert run.download(name) == TEXT
        assert run.info(name)["contentLength"] == (stated or len(TEXT))


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
