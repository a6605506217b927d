"""How many workers are started: as KEDA itself answers, and what follows from it for a task queue."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tools.local.scaling import Scale, starts

RECORDED = json.loads(Path(__file__).with_name("keda_starts.json").read_text())["cases"]


def answer(case: dict[str, Any]) -> int:
    scale = Scale(**{name: case[name] for name in ("target", "minimum", "maximum", "strategy")})
    return starts(case["values"], running=case["running"], starting=case["starting"], scale=scale)


def test_every_recorded_answer_of_keda() -> None:
    assert len(RECORDED) == 100
    assert {case["strategy"] for case in RECORDED} == {"default", "accurate"}
    assert [case for case in RECORDED if answer(case) != case["starts"]] == []


def test_runs_that_wait_get_a_worker_each_beside_those_that_are_busy() -> None:
    """Five are busy and one run waits: the sum starts one, the pending ones alone start none."""
    scale = Scale(maximum=20)
    assert starts([5 + 1], running=5, scale=scale) == 1
    assert starts([1], running=5, scale=scale) == 0


def test_a_value_that_could_not_be_read_starts_nothing() -> None:
    assert starts([None], running=0, scale=Scale()) == 0


def test_a_value_has_to_be_above_the_activation() -> None:
    scale = Scale(activation=3)
    assert [starts([value], running=0, scale=scale) for value in (2, 3, 4)] == [0, 0, 4]


@given(
    pending=st.integers(0, 200),
    busy=st.integers(0, 200),
    idle=st.integers(0, 50),
    maximum=st.integers(1, 200),
    target=st.integers(1, 8),
)
def test_no_look_starts_more_than_wanted_or_allowed(
    pending: int, busy: int, idle: int, maximum: int, target: int
) -> None:
    running = busy + idle
    started = starts([pending + busy], running=running, scale=Scale(target=target, maximum=maximum))
    assert started >= 0
    if started:
        assert running + started == min(math.ceil((pending + busy) / target), maximum)
    else:
        assert running >= min(math.ceil((pending + busy) / target), maximum)
