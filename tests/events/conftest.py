"""A broker for a test that makes it fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.service_bus import ServiceBus
from tests.events.attempts import OTHER, TOPIC
from tests.events.receiving import SUBSCRIPTION


@pytest.fixture
def bus() -> Iterator[ServiceBus]:
    """A broker of the test's own, since its faults are for all topics."""
    with ServiceBus.start([TOPIC, OTHER, f"prefix/{TOPIC}"], subscriptions=[SUBSCRIPTION]) as running:
        yield running
