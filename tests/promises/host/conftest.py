"""Whole stacks for black-box tests, shared by the tests of this folder, and ended after them.

`service` is what most tests want: the public client on a stack of two hosts, and a task queue of the test's own.
`hasty` is the same where claims last only seconds. `running` and `hasty_running` are the stacks behind them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.parts.local.stacks import free_ports
from tests.promises.compatibility.plugin import endpoints_to_answer
from tests.promises.host.artifacts import Run
from tests.promises.host.events import SUBSCRIPTION
from tests.promises.host.service import Running, Service
from tests.promises.host.workers import worker
from tools.local import state
from tools.local.ports import Ports
from tools.local.stack import Stack, StackOptions

QUICK = {
    "LONG_POLL_SECONDS": "1",
    "IDLE_POLL_INTERVAL_SECONDS": "0.4",
    "DEADLINE_DELAY_SECONDS": "0.1",
}
"""Settings under which nothing takes longer than it must."""

HASTY_CLAIM_SECONDS = 2.0
"""How long a claim lasts on the hasty stack."""


@pytest.fixture
def run(service: Service) -> Run:
    """Returns a run of the test's own, on the stack that most tests want."""
    return Run.of(service)


def start(settings: Mapping[str, str], hosts: int = 2, ports: Ports | None = None, **more: Any) -> Iterator[Running]:
    """Yields a stack in memory with these settings; `more` are further options of it."""
    given = {"subscriptions": (SUBSCRIPTION,), "in_memory": True, "app_settings": {**QUICK, **settings}, **more}
    options = StackOptions(ports or free_ports(hosts), **given)
    try:
        with Stack.start(options) as stack:
            running = Running.of(stack)
            try:
                yield running
            finally:
                running.close()
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


STRAIGHT = {"ARTIFACT_UPLOAD_MODE": "direct"}
"""Settings with which an upload whose length is stated goes straight into storage; other content is relayed."""


@pytest.fixture(scope="package")
def running() -> Iterator[Running]:
    """Yields a stack of two hosts whose claims last as long as by default."""
    yield from start(STRAIGHT)


@pytest.fixture(scope="package")
def hasty_running() -> Iterator[Running]:
    """Yields a stack of two hosts whose claims last only seconds."""
    yield from start({"CLAIM_TIMEOUT_SECONDS": str(HASTY_CLAIM_SECONDS)})


@pytest.fixture
def service(running: Running, request: pytest.FixtureRequest) -> Iterator[Service]:
    """Yields the service, with a task queue of this test's own. A test that proves endpoints must have called them."""
    yield from _checked(running)
    answered = {name for name, status in running.spread.answered if status < 400}
    assert endpoints_to_answer(request.node) <= answered


@pytest.fixture
def hasty(hasty_running: Running) -> Iterator[Service]:
    """Yields the service where claims expire soon, with a task queue of this test's own."""
    yield from _checked(hasty_running)


def _checked(running: Running) -> Iterator[Service]:
    """Yields the service, and checks that no answer to a public client was a 500."""
    running.spread.defects.clear()
    running.spread.answered.clear()
    yield Service(running)
    assert running.spread.defects == []


@pytest.fixture(scope="module")
def served(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yields a task queue with a reference worker, which the tests of a module share: a start takes a second of CPU."""
    service, folder = Service(running), tmp_path_factory.mktemp("worker")
    more = ("--log-seconds", "0.3")
    with worker(running.stack, service.pool, "one", logs=folder, more=more):
        yield service
