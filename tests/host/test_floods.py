"""Bodies of anybody, many at once: the host holds each as a whole before a function sees it, and bears that."""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import requests

from tests.host.service import Service

MEMORY_MIB = 2048
"""Of an instance of the profile `large` (infra/profiles/large.json)."""
FLOODS = ((40, 1_000_000), (4, 16_000_000))
"""How many at once, and of how many bytes: what calls may have, and more than that."""


def resident(group: int) -> float:
    """MiB of all processes that a host has started, itself included."""
    shown = subprocess.run(["ps", "-eo", "pgid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in shown.splitlines())
    return sum(int(size) for pgid, size in rows if int(pgid) == group) / 1024


def test_floods_of_bodies_leave_the_service_as_it_was(service: Service) -> None:
    stack = service.running.stack
    port = stack.options.ports.api
    group, sizes, enough = stack.host(port).pid, list[float](), threading.Event()

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
        for count, size in FLOODS:
            with ThreadPoolExecutor(count) as threads:
                assert set(threads.map(post, [size] * count)) <= {404, 500}
            service.queue.ping()
    finally:
        enough.set()
        watcher.join()
    assert 0 < max(sizes) < MEMORY_MIB
    assert stack.host(port).pid == group
    assert stack.host(port).poll() is None
