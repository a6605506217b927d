"""Which edges and guards of a new task fit into one transaction, beside its own rows (design 5)."""

from __future__ import annotations

import pytest

from shared.queue.groups.rows import EDGES_WITH_MEMBER, MOST_GUARDED, Edges
from shared.store.interface import MAX_OPERATIONS


@pytest.mark.parametrize(
    ("required", "satisfied", "guards"),
    [
        (0, 0, 0),
        (3, 1, 2),
        (MOST_GUARDED, 0, MOST_GUARDED),
        (MOST_GUARDED + 1, 0, 0),
        (MOST_GUARDED + 1, 2, MOST_GUARDED - 1),
        (60, 24, 36),
        (60, 23, 0),
        (EDGES_WITH_MEMBER, EDGES_WITH_MEMBER - 1, 0),
        (EDGES_WITH_MEMBER + 1, EDGES_WITH_MEMBER + 1, 0),
    ],
)
def test_guards_go_with_all_edges_or_not_at_all(required: int, satisfied: int, guards: int) -> None:
    ids = [f"task-{number}" for number in range(required)]
    edges = Edges.of("dependent", ids, ids[:satisfied])
    assert edges.required == tuple(ids)
    assert edges.guards == (tuple(ids[satisfied:]) if guards else ())
    assert len(edges.guards) == guards
    assert edges.first + edges.rest == edges.required
    assert len(edges.first) + guards <= EDGES_WITH_MEMBER < MAX_OPERATIONS


def test_a_task_that_waits_for_itself_has_no_guard_for_that() -> None:
    assert Edges.of("dependent", ["dependent", "other"], []).guards == ("other",)
