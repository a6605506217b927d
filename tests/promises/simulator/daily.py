"""Samples that `./dev test --all` chooses anew every day; SAMPLE_SEED=20261122 ./dev test … repeats a day's."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from tests.selection import ALL_TESTS

T = TypeVar("T")

SEED_VARIABLE = "SAMPLE_SEED"


def todays_seed() -> str:
    """Returns the seed that the environment asks for; else that of the day, or without `--all` always the same."""
    day = f"{datetime.now(UTC):%Y%m%d}" if os.environ.get(ALL_TESTS) else "each day"
    return os.environ.get(SEED_VARIABLE) or day


def todays_chance(name: str) -> random.Random:
    """Returns the random numbers that decide today's sample of the test of this name."""
    return random.Random(f"{todays_seed()} {name}")


def some(items: Sequence[T], one_in: int, name: str) -> Sequence[T]:
    """Returns one in `one_in` items for the test of this name, the same ones in each run; with `--all` all."""
    return items if os.environ.get(ALL_TESTS) else items[todays_chance(name).randrange(one_in) :: one_in]
