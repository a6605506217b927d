"""Fixtures that several modules of this folder need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.queue.tasks import known as group_statuses
from tests.promises.simulator.queue_host import SETTINGS, App
from tests.promises.simulator.world import World

ENGINES = {"test_crashes", "test_dependency_orders", "test_interleavings", "test_late_requests", "test_lost_answers"}
CLOCKS = {"a second": (0, 1, -1), "20 seconds": (0, 20, -20), "100 seconds": (0, 100, -100)}
"""Differences in seconds between the clocks of processes, in every world of the weekly run."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in ENGINES and metafunc.definition.get_closest_marker("large") is None:
        apart = [pytest.param(each, marks=pytest.mark.large, id=f"clocks {name}") for name, each in CLOCKS.items()]
        metafunc.fixturenames.append("clocks")
        metafunc.parametrize("clocks", [pytest.param((), id="one clock"), *apart], indirect=True)


@pytest.fixture
def clocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the clocks of the processes of each world."""
    monkeypatch.setattr(World, "clocks", request.param)


@pytest.fixture
def world() -> World:
    """Returns a world in which nothing has happened."""
    return World()


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    """Yields the app with the least settings that it starts with."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        from functions import queue_triggers
        from functions import queue_triggers as queue_messages

        yield App(queue_messages, queue_triggers)


@pytest.fixture
def rows_vouch_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets rows vouch for statuses also where there are so few tasks that reading them would be as cheap."""
    monkeypatch.setattr(group_statuses, "FEW", 1)
