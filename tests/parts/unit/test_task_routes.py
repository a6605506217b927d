"""Routes of a task as application properties of its messages, and back (contract 10)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.queue.events.rules import route_properties
from tools.listen.patterns import routes_of

ROUTES = st.lists(st.text("abc.|~01#*é", min_size=1, max_size=12), max_size=5)


@given(ROUTES)
def test_routes_are_read_back_as_they_were(routes: list[str]) -> None:
    assert routes_of(route_properties(routes)) == routes


def test_message_of_a_task_without_routes_has_none() -> None:
    assert routes_of({"taskId": "x"}) == []
