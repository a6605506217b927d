"""The timing rules of `shared.base.protocol` keep the order that the design relies on."""

from __future__ import annotations

from datetime import timedelta

from shared.base.protocol import (
    CLIENT_CLOCK_SKEW,
    EXPIRY_GRACE_PERIOD,
    HIDDEN_WHILE_CLAIMING,
    LATE_TIMERS,
    LATEST_COMMIT,
    LONGEST_TIMER,
    MESSAGE_LOST_AFTER,
    ORPHAN_AFTER,
    REPEATS_RECOGNISED,
    RESOLVED_DELAY,
    ROWS_COMPLETE_AFTER,
    STORAGE_CLOCK_SKEW,
)
from shared.base.retrying import LOST_RACE
from shared.base.settings import SHORTEST_FOR_WORKERS
from shared.store.limits import MAX_DELAY
from shared.store.wire import Patience

LONGEST_REQUEST = timedelta(seconds=Patience().total)


def test_no_commit_comes_after_readers_of_what_is_ahead_have_given_up_waiting() -> None:
    assert LATEST_COMMIT + LONGEST_REQUEST + STORAGE_CLOCK_SKEW < ORPHAN_AFTER


def test_all_tries_of_a_lost_race_end_long_before_the_latest_commit() -> None:
    pauses = timedelta(seconds=sum(LOST_RACE.pause(number, 1) for number in range(LOST_RACE.tries)))
    assert pauses + LOST_RACE.tries * LONGEST_REQUEST < LATEST_COMMIT


def test_what_is_read_as_complete_gets_no_more_from_calls_under_way() -> None:
    assert ORPHAN_AFTER + STORAGE_CLOCK_SKEW < ROWS_COMPLETE_AFTER
    assert ORPHAN_AFTER + STORAGE_CLOCK_SKEW < MESSAGE_LOST_AFTER


def test_what_has_expired_is_deleted_after_its_rows_are_complete_and_clocks_of_clients_agree() -> None:
    assert ROWS_COMPLETE_AFTER < EXPIRY_GRACE_PERIOD
    assert CLIENT_CLOCK_SKEW < EXPIRY_GRACE_PERIOD
    assert EXPIRY_GRACE_PERIOD < LATE_TIMERS


def test_a_message_is_hidden_for_less_than_a_claim_lasts_and_a_commit_may_take() -> None:
    assert timedelta(seconds=SHORTEST_FOR_WORKERS) > HIDDEN_WHILE_CLAIMING
    assert RESOLVED_DELAY < HIDDEN_WHILE_CLAIMING < LATEST_COMMIT


def test_repeats_of_a_commit_that_may_come_are_recognised_as_repeats() -> None:
    assert ORPHAN_AFTER < REPEATS_RECOGNISED


def test_a_timer_that_is_put_again_stays_within_what_a_queue_allows() -> None:
    assert timedelta(seconds=MAX_DELAY) > LONGEST_TIMER
