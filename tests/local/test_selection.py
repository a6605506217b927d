"""What a quick run takes and names, and which tests one process runs together."""

from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests import selection
from tests.selection import ALL_TESTS, QUICK, examples, group_of, is_quick, left_out, part_of
from tests.simulator import daily
from tools.local import checks
from tools.local.state import ROOT


@pytest.fixture(scope="module")
def expensive() -> Iterator[None]:
    """Stands for a stack that the tests of a module share."""
    yield


def test_every_path_of_a_quick_run_exists() -> None:
    assert [path for path in QUICK if not (ROOT / path).exists()] == []


def test_longest_path_says_how_much_a_quick_run_takes() -> None:
    assert part_of("tests/unit/test_dates.py") == 1
    assert part_of("tests/simulator/test_interleavings.py") > part_of("tests/simulator/test_crashes.py") > 1
    assert part_of("tests/worker/test_process.py") == part_of("tests/clients/test_admin.py") == 0


def test_sample_of_a_quick_run_is_the_same_each_time_and_about_its_part() -> None:
    tests = [f"tests/simulator/test_crashes.py::test_it[{number}]" for number in range(2000)]
    taken = [test for test in tests if is_quick(test)]
    assert taken == [test for test in tests if is_quick(test)]
    assert len(taken) == pytest.approx(2000 / QUICK["tests/simulator/"], rel=0.2)


def test_what_is_random_differs_by_the_day_in_a_run_of_all_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(daily.SEED_VARIABLE, raising=False)
    monkeypatch.delenv(ALL_TESTS, raising=False)
    the_same = daily.todays_seed()
    monkeypatch.setenv(checks.ALL_TESTS, "1")
    assert daily.todays_seed() == f"{datetime.now(UTC):%Y%m%d}" != the_same


def test_quick_run_names_what_it_leaves_out_and_nothing_else() -> None:
    named = left_out()
    assert "inspection" in named["tests/admin"]
    assert f"crashes (1 in {QUICK['tests/simulator/']} taken)" in named["tests/simulator"]
    assert named["tests/unit"] == ["loading"]


def test_property_tests_try_all_examples_in_a_run_of_all_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(selection.VARIABLE, raising=False)
    monkeypatch.delenv(ALL_TESTS, raising=False)
    assert examples(300) == 50
    monkeypatch.setenv(selection.VARIABLE, "1")
    assert [examples(300), examples(20)] == [20, 5]
    monkeypatch.setenv(ALL_TESTS, "1")
    assert examples(300) == 300


@pytest.mark.usefixtures("expensive")
def test_tests_that_share_a_fixture_are_a_group(request: pytest.FixtureRequest) -> None:
    assert group_of(request.node) == "tests/local/test_selection.py/expensive"


def test_test_that_shares_nothing_has_no_group(request: pytest.FixtureRequest) -> None:
    assert group_of(request.node) is None


class _Node:
    """A process of pytest-xdist, and the tests that it was sent."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices


def test_one_process_computes_while_another_waits_for_what_its_tests_share() -> None:
    shared = [f"tests/host/test_claims.py::test_{number}@tests/host/stack" for number in range(2)]
    alone = [f"tests/unit/test_dates.py::test_{number}" for number in range(40)]
    scheduler = object.__new__(selection.Mixed)
    first, second = _Node(), _Node()
    scheduler.assigned_work = {first: {}, second: {}}
    scheduler.registered_collections = {first: shared + alone, second: shared + alone}
    scheduler.workqueue = OrderedDict()
    for test in shared + alone:
        scheduler.workqueue.setdefault(scheduler._split_scope(test), {})[test] = False
    assert len(scheduler.workqueue) == 1 + selection.PORTIONS
    for node in (first, second, second):
        scheduler._assign_work_unit(node)
    assert min(first.sent) >= len(shared)
    assert second.sent[:2] == [0, 1]
    assert len(second.sent) > 2, "where nothing of its kind is left it takes the other"


def test_groups_that_wait_long_come_first() -> None:
    many = [f"tests/host/test_claims.py::test_{number}@tests/console/browser" for number in range(3)]
    tests = [*many, *(f"tests/host/test_timers.py::test_a@{group}" for group in reversed(selection.WAITS_LONG))]
    scheduler = object.__new__(selection.Mixed)
    computes, waits = _Node(), _Node()
    scheduler.assigned_work = {computes: {}, waits: {}}
    scheduler.registered_collections = {computes: tests, waits: tests}
    scheduler.workqueue = OrderedDict()
    for test in tests:
        scheduler.workqueue.setdefault(scheduler._split_scope(test), {})[test] = False
    for _ in range(len(scheduler.workqueue)):
        scheduler._assign_work_unit(waits)
    assert waits.sent == [5, 4, 3, 0, 1, 2]


@pytest.mark.parametrize("group", selection.WAITS_LONG)
def test_groups_that_wait_long_are_there(group: str) -> None:
    place, _, fixture = group.rpartition("/")
    module = ROOT / place
    assert f"def {fixture}(" in (module if module.suffix else module / "conftest.py").read_text()
