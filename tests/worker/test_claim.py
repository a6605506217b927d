"""How the reference worker keeps a claim: in time however short it is, and given up when it is not its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import aiohttp
import pytest
from taskcluster.exceptions import TaskclusterRestFailure

from worker.claim import Claim, renewal_due
from worker.queue import BackOff, Json, Queue

Answer = Callable[[], Json]


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def renewal(seconds: float) -> Json:
    return {"takenUntil": soon(seconds), "credentials": {"clientId": f"until {seconds}"}}


def refusal() -> Json:
    raise TaskclusterRestFailure("no", superExc=None, status_code=409, body={})


def trouble() -> Json:
    raise aiohttp.ClientConnectionError("no connection")


class Scripted:
    """Answers reclaimTask as told, and remembers with whose credentials it was called, and when."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[str, float]] = []

    def connect(self, credentials: Mapping[str, str]) -> Queue:
        return cast(Queue, _Client(self, credentials["clientId"]))

    def answer(self, client_id: str) -> Json:
        self.calls.append((client_id, time.monotonic()))
        return self._answers.pop(0)() if self._answers else trouble()


class _Client:
    def __init__(self, script: Scripted, client_id: str) -> None:
        self._script = script
        self._client_id = client_id

    async def reclaimTask(self, task_id: str, run_id: int) -> Json:  # noqa: N802 - the client's name for it
        assert (task_id, run_id) == ("task", 3)
        return self._script.answer(self._client_id)


def claim(script: Scripted, *, seconds: float, deadline: float = 3600) -> Claim:
    claimed: dict[str, Any] = {
        "task": {"deadline": soon(deadline)},
        "status": {"taskId": "task"},
        "runId": 3,
        **renewal(seconds),
    }
    return Claim(claimed, script.connect)


async def test_claims_of_a_second_are_renewed_in_time_with_the_latest_credentials() -> None:
    script = Scripted(lambda: renewal(1.2), lambda: renewal(1.4), refusal)
    started = time.monotonic()
    reason = await claim(script, seconds=1).keep()
    assert reason == "the queue does not renew it (409)"
    assert [client for client, _ in script.calls] == ["until 1", "until 1.2", "until 1.4"]
    first, second, _ = (moment - started for _, moment in script.calls)
    assert first < 1
    assert second - first < 1.2


async def test_a_claim_that_cannot_be_renewed_is_given_up_when_it_ends() -> None:
    script = Scripted()
    started = time.monotonic()
    assert await claim(script, seconds=1).keep() == "it could not be renewed in time"
    assert 0.9 < time.monotonic() - started < 3


async def test_trouble_that_passes_costs_nothing() -> None:
    script = Scripted(trouble, lambda: renewal(3), refusal)
    assert await claim(script, seconds=4).keep() == "the queue does not renew it (409)"
    assert len(script.calls) == 3


async def test_at_the_deadline_it_ends() -> None:
    script = Scripted()
    assert await claim(script, seconds=60, deadline=0.2).keep() == "the deadline has passed"
    assert script.calls == []


@pytest.mark.parametrize(("seconds", "margin"), [(1200, 180), (541, 180), (30, 10), (3, 1)])
def test_when_a_claim_is_renewed(seconds: float, margin: float) -> None:
    now = datetime.now(UTC)
    taken_until = now + timedelta(seconds=seconds)
    assert renewal_due(taken_until, now) == taken_until - timedelta(seconds=margin)


def test_pauses_double_up_to_the_longest() -> None:
    pauses = BackOff(longest=5)
    for upper in (1, 2, 4, 5, 5):
        assert upper / 2 <= pauses.next() <= upper
    pauses.reset()
    assert pauses.next() <= 1
