"""Tasks that mean to hold up their worker, or to fail the tasks of others: what they do stays their own matter."""

from __future__ import annotations

import base64
import lzma
import sys
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.promises.worker.double import FakeQueue, Working, fake_queue, shell, working

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells how much memory it takes")
CLAIM_SECONDS = 4.5
MEMORY = 160 << 20
"""What a worker needs at most, whatever its task is."""


class Scene:
    """A worker whose claims last only seconds."""

    def __init__(self, queue: FakeQueue, worker: Working) -> None:
        self.queue = queue
        self.worker = worker

    def run(self, payload: dict[str, Any], expected: str, *scopes: str) -> str:
        """Runs a task, and another one after it; returns the log of the first. Its claim is renewed in time, or its
        report would not come; the worker's memory stays small, and the other task is done."""
        task_id, other = self.queue.add(payload, *scopes), self.queue.add(shell("true"))
        assert self.queue.ended(task_id) == expected, self.queue.log(task_id) + self.worker.said
        assert self.queue.ended(other) == "completed"
        assert self.worker.peak < MEMORY
        assert self.queue.reports[task_id] == [expected]
        return self.queue.log(task_id)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("worker")
    with fake_queue(claim_seconds=CLAIM_SECONDS) as queue, working(queue, folder) as worker:
        yield Scene(queue, worker)
        assert worker.end() == 0


@pytest.mark.parametrize(
    "payload",
    [
        {"command": ["true"], "?" * 200_000: 1},
        {"command": ["?" * 200_000]},
        {"command": ["true"], "://" * 60_000: 1},
        {"command": ["true"], "mounts": [{"file": "x", "content": {"url": "a://b@" * 50_000}}]},
        {"command": [[0] * 60_000]},
        {"command": ["true"], "mounts": [{"directory": "a", "cacheName": "b"}] * 60_000},
        {"command": ["true"], "env": {f"x{number}": 0 for number in range(60_000)}},
        {"command": ["true"], "mounts": [{"directory": "a", "cacheName": "b" * 400_000}]},
        {"command": ["true"], "mounts": [{"directory": "a" * 400_000, "cacheName": "b", "format": "tar"}]},
    ],
    ids=["property", "command", "marks", "url", "values", "caches", "variables", "cache", "place"],
)
def test_a_text_of_the_payload(scene: Scene, payload: dict[str, Any]) -> None:
    said = len(scene.worker.said)
    scopes = ["generic-worker:cache:b*", *["queue:x"] * 20_000]
    assert len(scene.run(payload, "malformed-payload", *scopes)) < 60_000
    assert len(scene.worker.said) < said + 30_000


@pytest.mark.parametrize(
    ("name", "place", "expected"),
    [
        ("b\ud800", "a", "completed"),
        ("b", "a\ud800", "malformed-payload"),
        ("b", "a" * 300, "failed"),
        ("b", "a/" * 400_000 + "c", "failed"),
    ],
    ids=["name", "place", "long name", "many directories"],
)
def test_a_cache_whose_name_or_place_is_no_files(scene: Scene, name: str, place: str, expected: str) -> None:
    payload = shell("true", mounts=[{"directory": place, "cacheName": name}])
    log = scene.run(payload, expected, "generic-worker:cache:b*")
    assert ("cannot be mounted" in log or "…" in log) == (expected == "failed")


HOLDING = """
import os, resource, socket, time, urllib.parse
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
url = urllib.parse.urlsplit(os.environ["TASKCLUSTER_PROXY_URL"])
held = [socket.create_connection((url.hostname, url.port)) for _ in range(500)]
for each in held[:300]:
    each.sendall(b"PUT /api/queue/v1/x HTTP/1.1\\r\\nHost: x\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\n{")
time.sleep(4)
"""
FLOODING = """
import os, socket, threading, time, urllib.parse
url = urllib.parse.urlsplit(os.environ["TASKCLUSTER_PROXY_URL"])
def flood():
    end = time.monotonic() + 4
    while time.monotonic() < end:
        with socket.create_connection((url.hostname, url.port)) as each:
            for _ in range(100):
                each.sendall(b"POST /bewit HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 8000\\r\\n\\r\\n" + b"x" * 8000)
            each.settimeout(1)
            each.recv(100)
for _ in range(8): threading.Thread(target=flood).start()
"""


@pytest.mark.parametrize("code", [HOLDING, FLOODING], ids=["connections that are held", "calls without end"])
def test_connections_to_its_proxy(scene: Scene, code: str) -> None:
    payload = {"command": [sys.executable, "-c", code], "features": {"taskclusterProxy": True}, "maxRunTime": 30}
    task_id = scene.queue.add(payload)
    assert scene.queue.ended(task_id) in ("completed", "failed")
    scene.run(shell("sleep 3.5"), "completed")


def test_files_without_number(scene: Scene) -> None:
    code = "import os; os.mkdir('d'); [os.close(os.open(f'd/{i}', os.O_CREAT)) for i in range(20_000)]"
    artifacts = [{"type": "directory", "path": "d", "name": "public/d"}]
    log = scene.run({"command": [sys.executable, "-c", code], "artifacts": artifacts, "maxRunTime": 6}, "failed")
    assert "ended after maxRunTime, 6 s" in log


def test_a_log_without_end(scene: Scene) -> None:
    log = scene.run(shell("yes 'a line of the log that is longer than it is worth'", maxRunTime=5), "failed")
    assert "ended after maxRunTime" in log


def test_processes_without_number(scene: Scene) -> None:
    """All that a machine of developers may have; a user of tasks has no more than its limit."""
    script = "i=0; while [ $i -lt 500 ]; do (while :; do :; done) & i=$((i+1)); done; wait"
    scene.run(shell(script, maxRunTime=5), "failed")


def test_an_archive_that_asks_for_gigabytes(scene: Scene) -> None:
    """The archive states gigabytes for the name of a member, which must not be taken of memory."""
    head = bytearray(tarfile.TarInfo("name").tobuf(tarfile.GNU_FORMAT))
    head[124:136], head[156:157] = b"%011o\0" % (4 << 30), tarfile.GNUTYPE_LONGNAME
    head[148:156] = b"%06o\0 " % (sum(head[:148]) + 8 * 32 + sum(head[156:512]))
    content = {"base64": base64.b64encode(lzma.compress(bytes(head[:512]) + bytes(64 << 20))).decode()}
    mount = {"directory": "x", "format": "tar.xz", "content": content}
    assert "cannot be unpacked as tar.xz" in scene.run(shell("true", mounts=[mount], maxRunTime=30), "failed")
