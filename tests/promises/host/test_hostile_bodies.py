"""Whatever one caller sends does not keep the others waiting (docs/security.md)."""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from shared.api.endpoint import Endpoint
from shared.api.validation import MAX_BODY
from shared.app.apis import AUTH, INDEX, OBJECT, QUEUE
from shared.base.ids import new_slugid
from tests.promises.host.conftest import start
from tests.promises.host.service import Service
from tests.promises.host.wire import JSON, Answer, send

MEGABYTE = 1 << 20
PATIENCE = 0.25
"""CPU seconds that a hostile call may take."""
BLOCKED = 1.0
"""CPU seconds that a host may take between another client's ping and its answer. Other load on the machine counts
little in them."""
GROWTH = 100 * MEGABYTE
"""Bytes by which a host's memory may grow."""
REFUSAL = 64 * 1024
"""Bytes that the answer to a refused call may have."""

SERVICES = (
    ("queue", QUEUE.endpoints),
    ("auth", AUTH.endpoints),
    ("object", OBJECT.endpoints),
    ("index", INDEX.endpoints),
)
TAKE_BODIES = [
    (f"/api/{service}/v1", endpoint)
    for service, endpoints in SERVICES
    for endpoint in endpoints
    if endpoint.method != "GET"
]


def filled(unit: bytes, size: int, begin: bytes = b"[", end: bytes = b"0]") -> bytes:
    return begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end


def bodies(size: int) -> dict[str, bytes]:
    """Returns bodies of about this size that cost the most to read, each in its way."""
    return {
        "flat": filled(b"0,", size),
        "deep": filled(b"[" * 150 + b"]" * 150 + b",", size),
        "deep within the limit": filled(b"[" * 60 + b"]" * 60 + b",", size),
        "one string": filled(b"x", size, b'{"a":"', b'"}'),
        "escapes": filled(b'\\"', size, b'{"a":"', b'"}'),
        "small objects": filled(b'{"a":{}},', size // 10),
        "names": b"{" + b",".join(b'"%x":0' % number for number in range(size // 12)) + b"}",
        "unknown names": b"{" + b",".join(b'"%x":0' % number for number in range(25_000)) + b"}",
        "scopes": filled(b'"\\u00e9",', min(size, 250_000), b'{"scopes":[', b'""]}'),
        "digits": filled(b"9", size, b"[", b"]"),
        "long numbers": filled(b"9" * 100 + b",", size),
        "gzip bomb": gzip.compress(filled(b"[" * 60 + b"]" * 60 + b",", 10 * size), 9),
        "garbage": random.Random(1).randbytes(size),
    }


def path_of(prefix: str, endpoint: Endpoint, service: Service) -> str:
    """Returns a path of the endpoint with valid parameters."""
    values = {
        "taskId": new_slugid(),
        "taskGroupId": new_slugid(),
        "runId": "0",
        "taskQueueId": service.pool,
        "workerType": service.pool.split("/")[1],
        "name": "public/x",
    }
    path = endpoint.route
    for name in endpoint.params:
        path = path.replace(f"<{name}>", quote(values.get(name, "x"), safe=""))
    return prefix + path


@dataclass
class Watch:
    """Observations of another client meanwhile."""

    address: tuple[str, int]
    host: int
    blocked: float = 0.0
    pings: int = 0
    failures: list[str] = field(default_factory=list)
    begun_with: int = 0

    @property
    def growth(self) -> int:
        return resident(self.host) - self.begun_with

    def run(self, stop: threading.Event) -> None:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        while not stop.wait(0.02):
            before = cpu_seconds(self.host)
            connection.request("GET", "/api/queue/v1/ping")
            answer = connection.getresponse()
            answer.read()
            self.blocked = max(self.blocked, cpu_seconds(self.host) - before)
            self.pings += 1
            if answer.status != 200:
                self.failures.append(str(answer.status))
        connection.close()


def resident(pid: int) -> int:
    """Returns the bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time that a process has taken so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def host_of(service: Service) -> int:
    """Returns the process in which the stack's only host runs the app."""
    pid = service.running.stack.app_pid()
    assert pid is not None
    return pid


@contextmanager
def watching(service: Service) -> Iterator[Watch]:
    """Pings all the time from another connection."""
    site = urlsplit(service.running.deployment.root_url)
    host = host_of(service)
    watch, stop = Watch((str(site.hostname), site.port or 80), host), threading.Event()
    watch.begun_with = resident(host)
    thread = threading.Thread(target=watch.run, args=(stop,))
    thread.start()
    try:
        yield watch
    finally:
        stop.set()
        thread.join()


def refused_briefly(answer: Answer) -> None:
    assert 400 <= answer.status < 500 or answer.status == 503, answer.status
    assert len(answer.text) <= REFUSAL
    text = answer.text.decode()
    assert "Infinity" not in text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture(scope="module")
def alone() -> Iterator[Service]:
    """Yields a stack of one host."""
    for running in start({}, hosts=1):
        yield Service(running)


def attack(service: Service, size: int, *, signed: bool, one_in: int = 1) -> None:
    """Sends every body of this size to every endpoint, or one in `one_in` to each, others than to the endpoint
    before."""
    pairs = itertools.product(enumerate(TAKE_BODIES), enumerate(bodies(size).items()))
    for (row, (prefix, endpoint)), (column, (name, body)) in pairs:
        if (row + column + signed) % one_in:
            continue
        headers = {"content-encoding": "gzip"} if name == "gzip bomb" else {}
        path = path_of(prefix, endpoint, service)
        answer = send(service, endpoint.method, path, body, JSON, signed=signed, headers=headers)
        if answer.status >= 400:
            refused_briefly(answer)
        else:
            assert endpoint.input is None or name == "one string", (endpoint.name, name, answer.status)


@pytest.mark.large
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("signed", [False, True], ids=["anonymous", "root"])
@pytest.mark.skipif(not Path("/proc").exists(), reason="memory is read where Linux shows it")
def test_other_callers_are_answered_while_one_sends_hostile_bodies(alone: Service, signed: bool) -> None:
    attack(alone, 100_000, signed=signed)
    with watching(alone) as watch:
        attack(alone, MAX_BODY, signed=signed, one_in=3)
        growth = watch.growth
    assert watch.failures == []
    assert watch.blocked < BLOCKED
    assert growth < GROWTH


@pytest.mark.skipif(not Path("/proc").exists(), reason="CPU time and memory are read where Linux shows them")
@pytest.mark.large
def test_no_hostile_body_takes_more_cpu_or_memory_than_others_can_spare(alone: Service) -> None:
    """No hostile body takes more CPU or memory than others can spare. CPU is counted, as it is the same on a busy
    machine; what takes little of it blocks no one for long."""
    host, before = host_of(alone), resident(host_of(alone))
    for signed in (False, True):
        for name, body in bodies(MAX_BODY).items():
            for endpoint in ("createTask", "testAuthenticate"):
                prefix, row = next(each for each in TAKE_BODIES if each[1].name == endpoint)
                begun = cpu_seconds(host)
                answer = send(alone, row.method, path_of(prefix, row, alone), body, JSON, signed=signed)
                taken = cpu_seconds(host) - begun
                refused_briefly(answer)
                assert taken < PATIENCE, (endpoint, name, signed)
    assert resident(host) - before < GROWTH


def test_hostile_bodies_are_refused_briefly_by_every_endpoint(alone: Service) -> None:
    """Every endpoint refuses hostile bodies briefly. Each gets a third of the bodies, in small sizes; the time that
    they take is measured with the large ones."""
    for signed in (False, True):
        attack(alone, 20_000, signed=signed, one_in=3)
