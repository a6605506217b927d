"""A broker for a test that makes it fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.promises.events.attempts import OTHER, TOPIC
from tests.promises.events.receiving import SUBSCRIPTION
from tools.local.service_bus import ServiceBus


@pytest.fixture(scope="package")
def used_bus() -> Iterator[ServiceBus]:
    """Yields a broker that tests use one after the other."""
    with ServiceBus.start([TOPIC, OTHER, f"prefix/{TOPIC}"], subscriptions=[SUBSCRIPTION]) as running:
        yield running


@pytest.fixture
def bus(used_bus: ServiceBus) -> ServiceBus:
    """Resets the broker, since its faults are for all topics."""
    if used_bus.child.poll() is not None:
        used_bus.restart()
    used_bus.reset()
    return used_bus
