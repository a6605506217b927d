"""Decides which tests a run takes, and which tests one process of pytest-xdist runs together. `./dev test` leaves out
the large tests, and takes some of the cases that are like each other (`CASES`, `TESTS`); what is random in it is the
same each time. `--all` takes all, with other seeds each day. `--quick` is for a person who has just changed something:
the tests that cost little, samples of those that cost much, property tests with fewer examples. What it left out is
named at the end. Tests that share something expensive (a stack, a host, a broker: a fixture of a session, package or
module) form a group, which `--dist loadgroup` gives to one process, so that each is started once in a run and not once
a process. Such tests wait for what they have started, and others compute, so that one process takes those first."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

from tests.promises.compatibility.plugin import endpoints_of

VARIABLE = "QUICK_TESTS"
"""Variable that is set in a quick run, for what is decided when a test module is imported."""

ALL_TESTS = "ALL_TESTS"
"""Variable that `./dev test --all` sets: what is random is then seeded anew each day."""

FEWER_BY_DEFAULT = 6
"""Divisor of the number of a property test's examples in a run without `--all`."""
FEWER = 15
"""Divisor of the number of a property test's examples in a quick run."""

T = TypeVar("T")
_ROOT = Path(__file__).resolve().parents[1]
_SHARED_SCOPES = ("session", "package", "module")

QUICK: Mapping[str, int] = {
    "tests/parts/unit/": 1,
    "tests/parts/unit/test_loading.py": 0,
    "tests/parts/properties/": 1,
    "tests/parts/properties/test_twin_differential.py": 0,
    "tests/promises/simulator/": 20,
    "tests/promises/simulator/test_interleavings.py": 30,
    "tests/promises/worker/": 1,
    "tests/promises/worker/test_attacks.py": 0,
    "tests/promises/worker/test_isolation.py": 0,
    "tests/promises/worker/test_run.py": 1,
    "tests/promises/worker/test_token.py": 0,
    "tests/promises/events/test_breaker.py": 1,
    "tests/promises/events/test_filters.py": 1,
    "tests/promises/events/test_messages.py": 1,
    "tests/promises/events/test_pointers.py": 1,
    "tests/promises/events/test_reference.py": 1,
    "tests/promises/telemetry/": 1,
    "tests/promises/telemetry/test_export.py": 0,
    "tests/parts/local/test_cost_model.py": 1,
    "tests/parts/local/test_host_config.py": 1,
    "tests/parts/local/test_host_functions.py": 1,
    "tests/parts/local/test_host_ncrontab.py": 1,
    "tests/parts/local/test_host_paths.py": 1,
    "tests/parts/local/test_host_routes.py": 1,
    "tests/parts/local/test_settings_docs.py": 1,
    "tests/promises/azurite/test_budgets.py": 12,
    "tests/promises/host/test_lifecycle.py": 4,
    "tests/promises/host/test_claims.py": 4,
}
"""By path, one in how many of its tests a quick run takes (0: none). The longest path counts; the default is none."""


CASES: Mapping[str, int] = {
    "tests/promises/": 2,
    "tests/promises/azurite/test_budgets.py": 1,
    "tests/promises/infra/test_alerts.py": 4,
    "tests/promises/simulator/": 3,
    "tests/promises/simulator/test_ages.py": 1,
    "tests/promises/simulator/test_conditions.py": 2,
    "tests/promises/simulator/test_crashes.py": 2,
    "tests/promises/simulator/test_expiry_failures.py": 2,
    "tests/promises/simulator/test_faults.py": 2,
    "tests/promises/simulator/test_interleavings.py": 2,
    "tests/promises/simulator/test_leftovers.py": 1,
    "tests/parts/local/": 2,
    "tests/parts/local/test_host_storage.py": 4,
    "tests/parts/mutation/": 2,
}
"""A run of all tests without `--all` takes one in so many of the cases of each test under a path, and at least one."""


TESTS: Mapping[str, int] = {
    "tests/promises/admin/test_verify_planted.py": 2,
    "tests/promises/console/": 6,
    "tests/promises/console/test_hostile.py": 1,
    "tests/promises/console/test_openid.py": 3,
    "tests/promises/console/test_operations.py": 1,
    "tests/promises/console/test_sign_in.py": 3,
    "tests/promises/host/": 2,
    "tests/promises/host/test_scriptworker.py": 1,
    "tests/promises/infra/test_deployed.py": 2,
    "tests/promises/infra/test_deployments.py": 2,
    "tests/promises/infra/test_hooks.py": 3,
    "tests/promises/worker/test_attacks.py": 3,
    "tests/promises/worker/test_isolation.py": 2,
    "tests/promises/worker/test_run.py": 3,
}
"""Such a run takes one in so many of the tests of each module under a path, and at least one: each takes seconds."""


def examples(count: int) -> int:
    """Returns how many examples a property test tries: `count` with `--all`, else a part of them."""
    if os.environ.get(ALL_TESTS):
        return count
    return max(count // (FEWER if os.environ.get(VARIABLE) else FEWER_BY_DEFAULT), 5)


def part_of(path: str) -> int:
    """Returns one in how many of the tests at a path a quick run takes; 0 for none."""
    return _part(QUICK, path, 0)


def is_quick(nodeid: str) -> bool:
    """Whether a quick run takes this test. It takes the same ones each time, so that a failure can be repeated."""
    return _is_taken(nodeid, part_of(nodeid))


def _part(parts: Mapping[str, int], nodeid: str, otherwise: int) -> int:
    prefixes = [prefix for prefix in parts if nodeid.startswith(prefix)]
    return parts[max(prefixes, key=len)] if prefixes else otherwise


def _is_taken(nodeid: str, part: int) -> bool:
    return part > 0 and zlib.crc32(nodeid.encode()) % part == 0


def group_of(item: pytest.Item) -> str | None:
    """Returns the fixture that the test shares with others of its folder or module; of several, the widest one."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return None
    shared = [
        (_SHARED_SCOPES.index(fixtures[-1].scope), f"{fixtures[-1].baseid}/{name}")
        for name, fixtures in info.name2fixturedefs.items()
        if fixtures[-1].scope in _SHARED_SCOPES and fixtures[-1].baseid not in ("", "tests")
    ]
    return min(shared)[1] if shared else None


PORTIONS = 4
"""Number of portions in which the tests of a module that share nothing are given out, to save messages."""


WAITS_LONG = ("tests/promises/host/hasty_running", "tests/promises/host/running")
"""Groups that are given out first. pytest-xdist begins with those of most tests: what is few tests, but a minute of
waiting for timers, would come when little is left that could use the processors meanwhile."""


class Mixed(LoadGroupScheduling):  # type: ignore[misc] # pytest-xdist has no type hints
    """Scheduler in which one process computes from the beginning, beside those whose tests wait."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope if scope != nodeid else f":{zlib.crc32(nodeid.encode()) % PORTIONS}:{nodeid.partition('::')[0]}"

    def _assign_work_unit(self, node: WorkerController) -> None:
        computes = node is self.nodes[0]
        scopes = (*(scope for scope in WAITS_LONG if scope in self.workqueue), *self.workqueue)
        wanted = next((scope for scope in scopes if scope.startswith(":") == computes), None)
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """Returns the scheduler of a run with `--dist loadgroup`."""
    return Mixed(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option of a quick run."""
    parser.addoption("--quick", action="store_true", help="only tests that cost little, and samples of the others")


def pytest_configure(config: pytest.Config) -> None:
    """Prepares the run before test modules are imported. No test bounds a duration of the wall clock: on a busy machine
    it would fail without a defect."""
    if config.getoption("--quick"):
        os.environ[VARIABLE] = "1"
    settings.register_profile(
        "unhurried",
        max_examples=examples(100),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=not os.environ.get(ALL_TESTS),
    )
    settings.load_profile("unhurried")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignores what a quick run leaves out, so that it is not imported."""
    if not config.getoption("--quick") or not _is_module(collection_path):
        return None
    return part_of(_path(collection_path)) == 0 or None


def modules(config: pytest.Config) -> list[str]:
    """Returns the test modules of a run of all folders."""
    paths = sorted((_ROOT / "tests").glob("*/*/test_*.py"))
    taken = [path for path in paths if not pytest_ignore_collect(path, config)]
    return [".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in taken]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Chooses tests, and groups what is left."""
    if config.getoption("--quick"):
        _choose([item for item in items if is_quick(item.nodeid) and not _is_large(item)], config, items)
    elif takes_all_folders(config) and not config.getoption("keyword") and not os.environ.get(ALL_TESTS):
        _choose(some_cases(items), config, items)
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if group := group_of(item):
                item.add_marker(pytest.mark.xdist_group(group))


def takes_all_folders(config: pytest.Config) -> bool:
    """Says whether nobody has named what to run."""
    return bool(config.args == config.getini("testpaths"))


def some_cases(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Returns the tests of a run of all folders: the cases that `CASES` takes, of the tests that `TESTS` takes.

    Each endpoint that a test proves has a case. Large tests are left to the expression that a run chooses by.
    """
    small = (item for item in items if not _is_large(item))
    tests = groupby(small, lambda item: (item.nodeid.partition("[")[0], endpoints_of(item)))
    cases = [(test, _few(list(group), CASES, test)) for (test, _), group in tests]
    modules = groupby((each for each in cases if not endpoints_of(each[1][0])), lambda case: case[0].partition("::")[0])
    taken = {item for name, group in modules for _, few in _few(list(group), TESTS, name) for item in few}
    taken |= {item for _, few in cases if endpoints_of(few[0]) for item in few}
    return [item for item in items if item in taken or _is_large(item)]


def _few(group: Sequence[T], parts: Mapping[str, int], name: str) -> list[T]:
    """Returns of so many that follow each other one, the same each time, and at least one."""
    part = _part(parts, name, 1)
    starts = range(0, max(len(group) - part, 0) + 1, part)
    return [group[start + zlib.crc32(f"{name} {start}".encode()) % min(part, len(group))] for start in starts]


def _is_large(item: pytest.Item) -> bool:
    return item.get_closest_marker("large") is not None


def _choose(chosen: list[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    taken = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in taken])
    items[:] = chosen


def _path(path: Path) -> str:
    return path.relative_to(_ROOT).as_posix()


def _is_module(path: Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py" and path.is_relative_to(_ROOT)


def left_out() -> dict[str, list[str]]:
    """Returns by folder the modules that a quick run leaves out or takes a sample of."""
    folders: dict[str, list[str]] = {}
    for path in sorted((_ROOT / "tests").rglob("test_*.py")):
        part = part_of(_path(path))
        if part != 1:
            name = path.stem.removeprefix("test_")
            folders.setdefault(_path(path.parent), []).append(name if part == 0 else f"{name} (1 in {part} taken)")
    return folders


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints what a quick run has left out."""
    if not config.getoption("--quick"):
        return
    terminalreporter.section("a quick run left out")
    for folder, modules in left_out().items():
        terminalreporter.write_line(f"{folder}: {', '.join(modules)}")
    terminalreporter.write_line(f"and large tests, and {FEWER - 1} in {FEWER} examples of property tests")
