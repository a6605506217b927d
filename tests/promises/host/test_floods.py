"""Many large bodies at once, sent by anybody: the host holds each as a whole before a function sees it."""

from __future__ import annotations

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.promises.host.service import Service
from tools.local.deployments.description import INFRA
from tools.local.deployments.memory import COPIES, MEBIBYTE

TOO_LARGE = 16_000_000
"""Bytes of a body that the host refuses before it reads it."""


def resident(group: int) -> int:
    """Returns the bytes of memory of all processes that a host has started, itself included."""
    shown = subprocess.run(["ps", "-eo", "pgid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in shown.splitlines())
    return sum(int(size) for pgid, size in rows if int(pgid) == group) * 1024


@pytest.mark.large
@pytest.mark.large
@pytest.mark.parametrize("profile", ["small", "large"])
def test_as_many_bodies_as_an_instance_gets_at_a_time_take_no_more_memory_than_it_has_for_them(
    service: Service, profile: str
) -> None:
    """As many bodies as an instance gets at a time take no more memory than the sum of docs/scaling.md. A body that is
    larger than the limit takes none."""
    values = json.loads((INFRA / "profiles" / f"{profile}.json").read_text())
    count, limit = values["httpConcurrency"], int(values["settings"]["FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"])
    stack = service.running.stack
    port = stack.options.ports.api
    group, enough = stack.host(port).pid, threading.Event()
    sizes = [resident(group)]

    def watch() -> None:
        while not enough.wait(0.1):
            sizes.append(resident(group))

    def post(size: int) -> int:
        try:
            return requests.post(f"http://127.0.0.1:{port}/api/queue/v1/nothing", b"x" * size, timeout=60).status_code
        except requests.ConnectionError:
            return 500  # a body beyond the limit is cut

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(count) as threads:
            assert set(threads.map(post, [TOO_LARGE] * 4)) == {500}
            assert set(threads.map(post, [limit] * count)) == {404}
        service.queue.ping()
    finally:
        enough.set()
        watcher.join()
    assert max(sizes) - sizes[0] <= COPIES["calls"] * count * limit, [size // MEBIBYTE for size in sizes]
    assert stack.host(port).pid == group
    assert stack.host(port).poll() is None
