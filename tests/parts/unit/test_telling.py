"""How workers are told that there is work: what a process and a worker's row tell of repetitions (contract 5.1)."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.queue.claims.telling import MISSES, Series, Tellings, Wait
from shared.queue.pools.worker_rows import WorkerRecord
from shared.queue.tasks.rules import Worker

START = datetime(2026, 1, 1, tzinfo=UTC)
CALLER = "p/w", Worker(worker_group="g", worker_id="w")
WAIT = 20.0
MOST_IN_A_SERIES = 3
"""The most answers of 503 to one call of a worker whose repetitions come to different processes."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stamps(*seconds: float) -> list[float]:
    return [at(each).timestamp() for each in seconds]


@pytest.mark.parametrize(
    ("came", "waits", "elsewhere", "missed", "is_vain"),
    [
        (10.5, [0], None, 0, True),
        (10.5, [0, 10.2], None, 0, False),
        (13, [0], None, 1, False),
        (13, [0, 11.5], None, 0, False),
        (13, [0, 12.5], None, 1, False),
        (13, [11, 12.5], None, 0, False),
        (13, [12.5], None, 0, False),
        (13, [], None, 0, False),
        (13, [0, 12.5], 12.5, 1, True),
    ],
    ids=[
        "repeated here",
        "a new call, after the repetition elsewhere",
        "not repeated",
        "repeated elsewhere",
        "called elsewhere too late",
        "repeated elsewhere, as far as the row tells",
        "unknown: the row does not reach back",
        "unknown: no row",
        "not repeated, but told elsewhere since",
    ],
)
def test_what_an_answer_of_503_came_to(
    came: float, waits: list[float], elsewhere: float | None, missed: int, is_vain: bool
) -> None:
    """The series notes whether a worker, answered 503 10 s after its call, has repeated the call at `came`."""
    series = Series(began=at(0), told=at(10)).called(at(came))
    known = series.noted(at(came), stamps(*waits), None if elsewhere is None else at(elsewhere))
    assert (known.missed, known.is_vain, known.told) == (missed, is_vain, None)
    assert known.is_told_by_503 == (not is_vain)


class Process:
    def __init__(self, name: str) -> None:
        self.name, self.now = name, START
        self.tellings = Tellings(lambda: self.now)

    def call(self, row: WorkerRecord, came: datetime, lasts: float, outcome: str) -> tuple[WorkerRecord, str]:
        """Notes a call and ends it with this outcome; returns the worker's row and the answer."""
        self.now = came
        wait: Wait = self.tellings.called(CALLER, came)
        if outcome != "claims":
            elsewhere = row.repeated_by(came, self.name, timedelta(seconds=WAIT - 1))
            wait.series = wait.series.noted(came, row.recent_waits, elsewhere)
            if row.waits_in != self.name:
                row = row.waiting(came, self.name, may_repeat=wait.series.is_told_by_503)
        self.now = came + timedelta(seconds=lasts)
        if outcome == "told" and wait.series.is_told_by_503:
            self.tellings.told(CALLER, wait)
            return row, "503"
        self.tellings.ended(CALLER, wait)
        if outcome == "claims":
            row = row.claimed([("t", 0)], self.now).waiting(came, self.name)
        return row, "claims" if outcome == "claims" else "empty"


CALLS = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0.4, WAIT), st.sampled_from(["told", "told", "nothing", "claims"])),
    min_size=5,
    max_size=60,
)
NO_ROW = WorkerRecord(
    task_queue_id="p/w",
    worker_group="g",
    worker_id="w",
    first_claim=START,
    last_active=START,
    expires=START,
    quarantine_until=START,
)


@given(CALLS, st.floats(0.05, 1.9), st.integers(1, 4))
def test_a_client_that_repeats_is_told_by_503_again_and_again_and_a_few_times_in_one_call(
    calls: list[tuple[int, float, str]], delay: float, count: int
) -> None:
    processes = [Process(str(number)) for number in range(count)]
    row, now, in_series, answers = NO_ROW, START, 0, []
    for number, lasts, outcome in calls:
        process = processes[number % count]
        row, answer = process.call(row, now, lasts, outcome)
        in_series = in_series + 1 if answer == "503" else 0
        answers.append((outcome, answer))
        assert in_series <= (1 if count == 1 else MOST_IN_A_SERIES)
        now += timedelta(seconds=lasts + (delay if answer == "503" else 0.05))
    fresh = [answers[0], *(after for before, after in itertools.pairwise(answers) if before[1] != "503")]
    if count == 1:
        assert ("told", "empty") not in fresh, "it is never taken for a client that does not repeat"


@given(st.lists(st.tuples(st.floats(0.4, WAIT), st.floats(2.1, 60)), min_size=4, max_size=20))
def test_a_client_that_does_not_repeat_is_told_by_503_so_often_and_then_by_empty_answers(
    calls: list[tuple[float, float]],
) -> None:
    process, row, now, answers = Process("0"), NO_ROW, START, []
    for lasts, pause in calls:
        row, answer = process.call(row, now, lasts, "told")
        answers.append(answer)
        now += timedelta(seconds=lasts + pause)
    assert answers == ["503"] * MISSES + ["empty"] * (len(answers) - MISSES)
