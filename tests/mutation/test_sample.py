"""A small sample of mutants of each layer, tried against tests that are close to it.

`./dev mutate` tries any mutants against all quick tests; to find out what those execute takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tools.local.mutation import command
from tools.local.state import ROOT

SEED = 1


@dataclass(frozen=True)
class Sample:
    """So many mutants of some functions, and the tests that kill them."""

    functions: Sequence[str]
    tests: Sequence[str]
    size: int = 2


SAMPLES = {
    "domain": Sample(
        ["shared.queue.tasks.transitions.*", "shared.queue.claims.rules.*", "shared.queue.claims.ends.*"],
        [
            "tests/unit/test_claim_rules.py",
            "tests/unit/test_report_transitions.py",
            "tests/unit/test_transitions.py",
            "tests/unit/test_whole_claims.py",
            "tests/properties/test_state_machine.py",
        ],
    ),
    "usecases": Sample(
        ["shared.queue.tasks.dependents.*", "shared.queue.groups.statuses.*", "shared.queue.groups.membership.*"],
        [
            "tests/simulator/test_dependency_costs.py",
            "tests/simulator/test_dependency_edges.py",
            "tests/simulator/test_dependency_orders.py",
            "tests/simulator/test_group_orphans.py",
            "tests/simulator/test_listings_in_between.py",
            "tests/simulator/test_member_rows.py",
            "tests/simulator/test_membership.py",
            "tests/simulator/test_restored_rows.py",
            "tests/simulator/test_settling.py",
        ],
    ),
    "storage": Sample(
        ["shared.store.table_requests.*", "shared.store.azure_queues.*", "shared.store.wire.*"],
        ["tests/unit/test_wire.py", "tests/azurite/test_tables.py", "tests/azurite/test_queues.py"],
    ),
    "functions": Sample(
        ["functions.overload.*", "functions.queue_triggers._*"],
        [
            "tests/unit/test_overload.py",
            "tests/simulator/test_event_pointers.py",
            "tests/simulator/test_internal_messages.py",
        ],
    ),
}


@pytest.mark.parametrize("path", [path for sample in SAMPLES.values() for path in sample.tests])
def test_tests_of_a_sample_exist(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.large
@pytest.mark.timeout(3600)
def test_a_sample_of_mutants_is_killed() -> None:
    codes = {
        layer: command.main(sample.functions, size=sample.size, seed=SEED, children=1, tests=sample.tests)
        for layer, sample in SAMPLES.items()
    }
    assert codes == dict.fromkeys(SAMPLES, 0)
