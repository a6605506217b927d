"""Names of the pending queues: what is deployed has messages under them, so they never change (design 3, 4)."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from shared.base.priority import PRIORITIES, Priority
from shared.queue.tasks.messages import pending_queue

WORDS = st.from_regex(re.compile(r"[a-zA-Z0-9_-]{1,38}"), fullmatch=True)
BANDS = st.tuples(st.builds("{}/{}".format, WORDS, WORDS), st.sampled_from(PRIORITIES))


def test_names_are_those_of_every_release() -> None:
    names = [pending_queue("proj-x/linux", priority) for priority in PRIORITIES]
    assert names == [f"pending-7mqywyjnm6h74pyts66qad7r-{place}" for place in range(1, 8)]


@given(BANDS, BANDS)
def test_each_band_has_a_queue_of_its_own_whose_name_azure_takes(
    one: tuple[str, Priority], other: tuple[str, Priority]
) -> None:
    assert (pending_queue(*one) == pending_queue(*other)) == (one == other)
    assert re.fullmatch(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*", pending_queue(*one))
