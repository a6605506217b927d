"""Artifacts that are big, and runs that have many."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import requests

from tests.promises.host.artifacts import Run
from tests.promises.host.conftest import STRAIGHT, start
from tests.promises.host.service import Running, Service

MEGABYTE = 1 << 20
PIECE = bytes(range(256)) * (MEGABYTE // 256)
GROWTH = 32 * MEGABYTE
"""Bytes by which a host's memory may grow during an upload that goes straight into storage."""
PATIENCE = 600


@pytest.fixture(scope="module")
def on_disk() -> Iterator[Running]:
    """Yields a stack whose data lies on disk, so that storage has room."""
    yield from start(STRAIGHT, hosts=1, in_memory=False, fresh=True)


@pytest.fixture
def run(on_disk: Running) -> Run:
    return Run.of(Service(on_disk))


def peak_memory(running: Running) -> int:
    """Returns the most bytes that the app has held so far."""
    for line in Path(f"/proc/{running.stack.app_pid()}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell")


class Pieces:
    """A file that consists of `count` pieces, and is stored nowhere."""

    def __init__(self, count: int) -> None:
        self._left = len(PIECE) * count

    def __len__(self) -> int:
        return self._left

    def read(self, size: int = -1, /) -> bytes:
        """Returns the next bytes, one piece at most."""
        taken = min(size if size >= 0 else self._left, self._left, len(PIECE))
        self._left -= taken
        return PIECE[:taken]


@pytest.mark.large
@pytest.mark.timeout(PATIENCE)
@pytest.mark.skipif(not Path("/proc").exists(), reason="memory is read where Linux shows it")
def test_two_gigabytes_straight_into_storage(on_disk: Running, run: Run) -> None:
    """Two gigabytes go straight into storage, never through this service: its memory does not grow."""
    run.upload("public/warm", PIECE, direct=True)
    run.fetch("public/warm")
    before = peak_memory(on_disk)
    count = 2048
    answer = run.create("public/huge", "s3", contentType="application/octet-stream", contentLength=count * MEGABYTE)
    headers = {"Content-Type": "application/octet-stream"}
    sent = requests.put(answer["putUrl"], data=Pieces(count), headers=headers, timeout=PATIENCE)
    assert sent.status_code == 201
    run.complete()
    run.service.wait_for(run.task_id, "completed")
    received = 0
    with requests.get(run.url_of("public/huge"), stream=True, timeout=PATIENCE) as content:
        for chunk in content.iter_content(MEGABYTE):
            received += len(chunk)
    assert received == count * MEGABYTE
    last = run.fetch("public/huge", Range=f"bytes={count * MEGABYTE - 256}-")
    assert last.content == PIECE[-256:]
    assert run.info("public/huge")["contentLength"] == count * MEGABYTE
    assert peak_memory(on_disk) - before < GROWTH


@pytest.mark.large
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("encoding", ["gzip", ""], ids=["encoded", "as it is"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda: Random(1).randbytes(64 * MEGABYTE), id="random"),
        pytest.param(lambda: PIECE * 64, id="repeated"),
        pytest.param(lambda: gzip.compress(Random(1).randbytes(64 * MEGABYTE), 1, mtime=0), id="gzip"),
    ],
)
def test_sixty_four_megabytes_are_what_they_were(run: Run, content: Callable[[], bytes], encoding: str) -> None:
    """Sixty-four megabytes are read as they were uploaded. Nothing checks that name and type, which say gzip, are
    true."""
    data = content()
    sent = gzip.compress(data, 1, mtime=0) if encoding else data
    digest, length = hashlib.sha256(data).digest(), len(data)
    del data
    stated = {"contentType": "application/gzip", "contentLength": length}
    url = run.create("public/large.tar.gz", "s3", **stated)["putUrl"]
    assert run.put(url, sent, "application/gzip", encoding).status_code == 201
    del sent
    answer = run.fetch("public/large.tar.gz")
    assert answer.headers.get("content-encoding", "") == encoding
    assert hashlib.sha256(answer.content).digest() == digest
    assert run.info("public/large.tar.gz")["contentLength"] == length


def many(run: Run, count: int) -> None:
    """Creates `count` artifacts, and checks that a list finds all of them, in order."""
    names = [f"public/build/{number:05d}.txt" for number in range(count)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run.refer, names))
    found: list[str] = []
    sizes: list[int] = []
    query: dict[str, str] = {}
    while True:
        page = run.service.queue.listArtifacts(run.task_id, 0, query=query)
        found += [each["name"] for each in page["artifacts"]]
        sizes.append(len(page["artifacts"]))
        if "continuationToken" not in page:
            break
        query = {"continuationToken": page["continuationToken"]}
    assert found == names
    assert sizes == [1000] * (count // 1000) + [count % 1000] * (count % 1000 > 0)
