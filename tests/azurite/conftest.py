"""An Azurite that the tests of this folder share, whose clock they set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.azurite.crashing import Worlds
from tests.azurite.inside import PRELOAD
from tools.local.azurite import Azurite


@pytest.fixture(scope="package")
def worlds() -> Iterator[Worlds]:
    """Worlds on an Azurite whose clock is set by the test."""
    with Azurite.start(in_memory=True, preloads=[PRELOAD]) as azurite:
        opened = Worlds(azurite)
        yield opened
        opened.close()
