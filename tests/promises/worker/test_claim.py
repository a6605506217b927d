"""How the reference worker keeps a claim: in time however short it is, and given up when it is not its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

import aiohttp
import pytest
from taskcluster.aio import Queue
from taskcluster.exceptions import TaskclusterRestFailure

from tests.parts.twin import VirtualClock
from tests.parts.twin.driver import Simulation
from tests.promises.worker.test_queue import OPTIONS
from worker.claim import Claim
from worker.context import Json, pauses

Answer = Callable[[], Json]


class Scene:
    """Virtual time for a worker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._simulation = Simulation.rounds()
        self.clock = self._simulation.clock
        monkeypatch.setattr("worker.claim._now", self.clock.exact)

    def soon(self, seconds: float) -> str:
        return (self.clock.exact() + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")

    def renewal(self, seconds: float) -> Json:
        return {"takenUntil": self.soon(seconds), "credentials": {"clientId": f"until {seconds}"}}

    def kept(self, script: Scripted, *, seconds: float, deadline: float = 3600) -> str:
        """Keeps a claim of so many seconds; why it ended."""
        claimed: dict[str, Any] = {
            "task": {"deadline": self.soon(deadline)},
            "status": {"taskId": "task"},
            "runId": 3,
            **self.renewal(seconds),
        }
        (reason,) = self._simulation.run(Claim(claimed, script.connect, OPTIONS).keep())
        return str(reason)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def refusal() -> Json:
    raise TaskclusterRestFailure("no", superExc=None, status_code=409, body={})


def trouble() -> Json:
    raise aiohttp.ClientConnectionError("no connection")


class Scripted:
    """Serves reclaimTask by the script, and remembers with whose credentials it was called, and when."""

    def __init__(self, clock: VirtualClock, *answers: Answer) -> None:
        self._clock = clock
        self._answers = list(answers)
        self.calls: list[tuple[str, float]] = []

    def connect(self, credentials: Mapping[str, str]) -> Queue:
        return cast(Queue, _Client(self, credentials.get("clientId", "")))

    def answer(self, client_id: str) -> Json:
        self.calls.append((client_id, self._clock.elapsed))
        return self._answers.pop(0)() if self._answers else trouble()


class _Client:
    def __init__(self, script: Scripted, client_id: str) -> None:
        self._script = script
        self._client_id = client_id

    async def reclaimTask(self, task_id: str, run_id: int) -> Json:  # noqa: N802 - the client's name for it
        assert (task_id, run_id) == ("task", 3)
        return self._script.answer(self._client_id)


def test_claims_of_a_second_are_renewed_in_time_with_the_latest_credentials(scene: Scene) -> None:
    script = Scripted(scene.clock, lambda: scene.renewal(1.2), lambda: scene.renewal(1.5), refusal)
    assert scene.kept(script, seconds=1) == "the queue does not renew it (409)"
    clients, moments = zip(*script.calls, strict=True)
    assert clients == ("until 1", "until 1.2", "until 1.5")
    assert moments == pytest.approx((2 / 3, 2 / 3 + 0.8, 2 / 3 + 0.8 + 1), abs=0.001)


def test_a_claim_that_cannot_be_renewed_is_given_up_when_it_ends(scene: Scene) -> None:
    assert scene.kept(Scripted(scene.clock), seconds=1) == "it could not be renewed in time"
    assert scene.clock.elapsed == pytest.approx(1, abs=0.001)


def test_trouble_that_passes_costs_nothing(scene: Scene) -> None:
    script = Scripted(scene.clock, trouble, lambda: scene.renewal(3), refusal)
    assert scene.kept(script, seconds=4) == "the queue does not renew it (409)"
    assert len(script.calls) == 3


def test_at_the_deadline_it_ends(scene: Scene) -> None:
    script = Scripted(scene.clock)
    assert scene.kept(script, seconds=60, deadline=0.2) == "the deadline has passed"
    assert script.calls == []


@pytest.mark.parametrize(("seconds", "margin"), [(1200, 180), (541, 180), (30, 10), (3, 1)])
def test_when_a_claim_is_renewed(scene: Scene, seconds: float, margin: float) -> None:
    assert scene.kept(Scripted(scene.clock, refusal), seconds=seconds) == "the queue does not renew it (409)"
    assert scene.clock.elapsed == pytest.approx(seconds - margin, abs=0.01)


def test_pauses_double_up_to_the_longest() -> None:
    for upper, pause in zip((1, 2, 4, 5, 5), pauses(longest=5), strict=False):
        assert upper / 2 <= pause <= upper
