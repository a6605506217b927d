"""Each constant of time is tested right before and right after it, wherever something is that old (design 2, 4, 5).
What a call or handler does about something old changes at the ages that ages.py names for it, and at no others. So a
test fails if a constant is too short or too long, or is compared with the wrong time, and if a change has no name."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from types import ModuleType

import pytest

from shared.base import protocol
from tests.promises.simulator import ages
from tests.promises.simulator.ages import AGES, Age
from tests.promises.simulator.daily import some
from tests.promises.simulator.probing import SLOW, Probe


def _times(module: ModuleType) -> dict[timedelta, str]:
    return {value: name for name, value in vars(module).items() if isinstance(value, timedelta)}


NAMES = {**_times(ages), **_times(protocol)}
SPACES = [timedelta(seconds=seconds) for seconds in (10, 20, 40, 180, 450, 1200, 2400, 9000, 18_000, 43_200, 259_200)]
"""Ages between the constants, with which it is known more closely where a change is."""


LONG_AFTER = 4
"""Multiple of the age of the last change, after which nothing changes any more."""
NEVER = timedelta(hours=1)
"""Age up to four times which nothing may change, where no change is named."""


def _around(time: timedelta) -> tuple[float, float]:
    """Returns times right before and after: messages have whole seconds, and calls take some time."""
    seconds = time.total_seconds()
    near = min(1.5, seconds / 4)
    return seconds - near, seconds + near


def look(age: Age, seconds: float, *, is_slow: bool = False) -> str:
    """Returns what is done about something of that age, in a world of its own."""
    world = Probe()
    world.run(age.leave(world))
    services = world.services if age.same_process else world.process()
    if is_slow:
        world.slow_task = age.looked_for
    if age.at is None:
        world.clock.advance(seconds)
        return world.look(age.look(world, services), only=age.only)
    return world.look(age.look(world, services), (age.at, seconds), age.only)


def changes(age: Age) -> list[str]:
    """Returns the constants at which what is done changes, in order; where no constant is, the ages around a change."""
    last = max(age.changes, default=NEVER)
    others = [time for time in sorted({*NAMES, *SPACES} - {*age.changes}) if time <= LONG_AFTER * last]
    times = sorted({*some(others, 3, f"ages of {age.name}"), *age.changes})
    at = {seconds: name(time) for time in times for seconds in _around(time)}
    looks = [(seconds, look(age, seconds)) for seconds in sorted(at)]
    return [
        at[one] if at[one] == at[other] else f"between {at[one]} and {at[other]}"
        for (one, before), (other, after) in pairwise(looks)
        if before != after
    ]


def name(time: timedelta) -> str:
    """Returns a time's name in the code."""
    return NAMES.get(time, str(time))


@pytest.mark.parametrize("age", AGES, ids=lambda age: age.name)
def test_what_is_done_changes_at_the_named_ages_alone(age: Age) -> None:
    assert changes(age) == [name(time) for time in age.changes]


@pytest.mark.parametrize("age", [age for age in AGES if age.looked_for], ids=lambda age: age.name)
def test_the_age_of_an_orphan_is_that_before_its_task_was_looked_for(age: Age) -> None:
    """The age of an orphan counts from before its task was looked for: the task may come while the answer is under
    way."""
    for time in age.changes:
        if time in (protocol.ORPHAN_AFTER, protocol.ROWS_COMPLETE_AFTER):
            seconds = time.total_seconds() - SLOW / 2
            slow = look(age, seconds, is_slow=True).removesuffix(
                "; "
            )  # a call that waits looks again where time is left
            assert look(age, seconds).startswith(slow), name(time)


def test_every_constant_is_reached() -> None:
    """Every constant is reached by some age; a few are tested by the order of constants, or by times in URLs and
    messages."""
    elsewhere = {"STORAGE_CLOCK_SKEW", "SIGNED_URL_CLOCK_SKEW", "RESOLVED_DELAY", "FOLLOWED_DELAY", "LONGEST_TIMER"}
    reached = {name(time) for age in AGES for time in age.changes}
    assert set(_times(protocol).values()) - reached - {"EXPIRY_GRACE_PERIOD", "LATE_TIMERS", "OVERDUE"} <= elsewhere
