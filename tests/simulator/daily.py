"""Samples for the quick suite that change every day, and that can be repeated: SAMPLE_SEED=20261122 ./dev test …"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

SEED_VARIABLE = "SAMPLE_SEED"


def todays_seed() -> str:
    """The seed of today's samples, or the one that the environment asks for."""
    return os.environ.get(SEED_VARIABLE) or f"{datetime.now(UTC):%Y%m%d}"


def todays_chance(name: str) -> random.Random:
    """What decides the sample of the test of this name today."""
    return random.Random(f"{todays_seed()} {name}")
