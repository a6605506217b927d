"""What several modules of this folder need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.queue.groups import statuses as group_statuses
from tests.simulator.queue_host import SETTINGS, App
from tests.simulator.world import World


@pytest.fixture
def world() -> World:
    """Nothing has happened in it."""
    return World()


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    """The app with the least settings that it starts with."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        from functions import queue_triggers
        from functions import queue_triggers as queue_messages

        yield App(queue_messages, queue_triggers)


@pytest.fixture
def rows_vouch_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are so few tasks that reading them would be as cheap."""
    monkeypatch.setattr(group_statuses, "FEW", 1)
