"""Samples, which `./dev test --all` chooses anew every day; SAMPLE_SEED=20261122 ./dev test … repeats a day's."""

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
    """The seed that the environment asks for; else that of the day, or without `--all` always the same one."""
    day = f"{datetime.now(UTC):%Y%m%d}" if os.environ.get(ALL_TESTS) else "each day"
    return os.environ.get(SEED_VARIABLE) or day


def todays_chance(name: str) -> random.Random:
    """What decides the sample of the test of this name today."""
    return random.Random(f"{todays_seed()} {name}")


def some(items: Sequence[T], one_in: int, name: str) -> Sequence[T]:
    """One in so many for the test of this name, which are the same ones in each run; all with `--all`."""
    return items if os.environ.get(ALL_TESTS) else items[todays_chance(name).randrange(one_in) :: one_in]
