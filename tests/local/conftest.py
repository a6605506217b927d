"""Fixtures for the tests of the local stack."""

import gc
import time
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tools.local.service_bus import ServiceBus

SDK_MODULES = ("_servicebus_sender", "_servicebus_receiver", "_pyamqp.client")
"""Modules of azure.servicebus that sleep between looks at a connection."""


@pytest.fixture(scope="session")
def service_bus() -> Iterator[ServiceBus]:
    """A broker without topics, one per test process. Tests declare their own; for faults they start their own."""
    with ServiceBus.start() as running:
        yield running


@pytest.fixture
def quick_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the sync SDK's naps while it opens and closes links, which take a second per link and test nothing.

    What it sends and receives stays the same; the tests of faults and of the asynchronous SDK go without this.
    """

    def nap(seconds: float) -> None:
        time.sleep(min(seconds, 0.005))

    quick = SimpleNamespace(**{**vars(time), "sleep": nap})
    for module in SDK_MODULES:
        monkeypatch.setattr(f"azure.servicebus.{module}.time", quick)


@pytest.fixture
def lost_connections() -> Iterator[None]:
    """For tests that cut connections: the SDK leaves their sockets unclosed. Collected here, not in a later test."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield
        gc.collect()
